"""Typing inside of model-local functions."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.typing import (
    ValueType,
)
from tests.passes.typing.typed import FUNCTION, LOCAL, both


def test_function_is_typed_from_its_call() -> None:
    """Two functions of one name in two domains, one called by the other."""
    typings, named = both(
        f"{LOCAL}g (int32[2,N] x) => (int32[2,N] y) {{ y = local.f (x) }}{FUNCTION}"
    )
    declared = typings.declared
    for name in ("a", "t", "b", "p", "q"):
        assert declared[named[name]] == ValueType(ir.TensorType(ir.DataType.INT32), (2, "N")), name
    assert declared.dims(named["u"]) == ()


def test_attribute_of_the_call_is_used() -> None:
    text = f"{LOCAL}g (int32[2,N] x) => (int32[2,N] y) {{ y = local.f <k = 1> (x) }}{FUNCTION}"
    typings, named = both(text)
    assert typings.declared.dims(named["u"]) == (1, 1)


def test_function_called_with_several_types_keeps_what_agrees() -> None:
    typings, named = both(
        f"""{LOCAL}g (float[2,3] x, float[2,4] z, float[5] w) => (float[2,3] y) {{
          y = local.f (x)  v = local.f (z) }}{FUNCTION}"""
    )
    assert typings.declared[named["t"]] == ValueType(ir.TensorType(ir.DataType.FLOAT), (2, None))


def test_function_called_with_several_ranks_keeps_the_element_type() -> None:
    typings, named = both(
        f"{LOCAL}g (float[2] x, float z) => (float[2] y) {{ y = local.f (x)  v = local.f (z) }}{FUNCTION}"
    )
    assert typings.declared[named["t"]] == ValueType(ir.TensorType(ir.DataType.FLOAT), None)


@pytest.mark.parametrize("order", [("x", "z"), ("z", "x")], ids=["first", "last"])
def test_function_called_with_several_element_types_keeps_nothing(order: tuple[str, str]) -> None:
    calls = "  ".join(f"y{i} = local.f ({name})" for i, name in enumerate(order))
    typings, named = both(
        f"{LOCAL}g (float[2] x, int32[2] z) => (float[2] y) {{ {calls} y = Neg (x) }}{FUNCTION}"
    )
    assert typings.declared[named["t"]] == ValueType(None, None)


@pytest.mark.parametrize("order", [("x", "z"), ("z", "x")], ids=["first", "last"])
def test_function_called_once_without_types_keeps_nothing(order: tuple[str, str]) -> None:
    calls = "  ".join(f"y{i} = local.f ({name})" for i, name in enumerate(order))
    typings, named = both(
        f"{LOCAL}g (float[2] x) => (float[2] y) {{ z = other.Made (x)  {calls} y = Neg (x) }}{FUNCTION}"
    )
    assert typings.declared[named["t"]] == ValueType(None, None)


CALLERS = {
    "in a branch": """y = If (c) <then_branch = p () => (float[2] u1) { u1 = local.f (x) },
                                else_branch = q () => (float[2] u2) { u2 = Neg (x) }>""",
    "with a captured value of a branch": """
        y = If (c) <then_branch = p () => (float[2] u1) { m = Neg (x)
              u1 = If (c) <then_branch = p2 () => (float[2] u3) { u3 = local.f (m) },
                           else_branch = q2 () => (float[2] u4) { u4 = Neg (m) }> },
            else_branch = q () => (float[2] u2) { u2 = Neg (x) }>""",
    "with an initializer": "y = local.f (w)",
    "with a constant": "k = Constant <value_floats = [1.0, 2.0]> ()  y = local.f (k)",
    "by another function": "y = local.g (x)",
}


@pytest.mark.parametrize("name", CALLERS)
def test_function_called(name: str) -> None:
    other = '\n<domain: "local", opset_import: ["" : 18, "local" : 1]>\ng (r) => (s) { s = local.f (r) }'
    typings, named = both(
        f"""{LOCAL}g (float[2] x, bool c) => (float[2] y) <float[2] w = {{1, 2}}> {{
          {CALLERS[name]} }}{FUNCTION}{other if "function" in name else ""}"""
    )
    assert typings.declared[named["t"]] == ValueType(ir.TensorType(ir.DataType.FLOAT), (2,))
