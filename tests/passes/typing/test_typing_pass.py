"""The pass that writes types onto values, and the tables that copies enter."""

from __future__ import annotations

import pathlib
from typing import Any

import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.typing import (
    TypeValuesPass,
    Typing,
    ValueType,
)
from tests.passes.typing.typed import FUNCTION, HEADER, LOCAL, MAP, both, load, values

MODELS = sorted((pathlib.Path(__file__).parents[3] / "models").rglob("*.onnx*"))


def load_file(path: pathlib.Path) -> ir.Model:
    if path.suffix == ".onnxtxt":
        return load(path.read_text("utf-8"))
    return rewriter.load(path)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize(
    "proven",
    [pytest.param(False, id="declared", marks=pytest.mark.long), pytest.param(True, id="proven")],
)
def test_pass_is_idempotent_and_deterministic(path: pathlib.Path, proven: bool) -> None:
    model, other = load_file(path), load_file(path)
    before = ir.to_proto(model)
    modified = TypeValuesPass(proven=proven)(model).modified
    once = ir.to_proto(model)
    assert modified == (once != before)
    assert not TypeValuesPass(proven=proven)(model).modified
    assert ir.to_proto(model) == once
    TypeValuesPass(proven=proven)(other)
    assert ir.to_proto(other) == once
    assert list(once.graph.input) == list(before.graph.input)
    assert list(once.graph.output) == list(before.graph.output)


def test_pass_writes_no_symbols_of_inference() -> None:
    model = load(f"""{HEADER}g (float[3] a, float[5] b) => (float[P] y) {{
      s = SequenceConstruct (a, b)
      y = ConcatFromSequence <axis = 0> (s) }}""")
    TypeValuesPass()(model)
    assert "unk__" not in str(ir.to_proto(model))
    assert values(model)["s"].shape == ir.Shape([None])


def test_pass_writes_types_into_bodies_and_functions() -> None:
    model = load(
        f"""{LOCAL}g (seq(int32[2]) xs) => (seq(int32[2]) ys) {{
          ys = SequenceMap (xs) <body = b (x) => (y) {{ m = Abs (x)  y = local.f (m) }}> }}{FUNCTION}"""
    )
    assert TypeValuesPass()(model).modified
    named = values(model)
    for name in ("x", "m", "t", "p"):
        assert named[name].type == ir.TensorType(ir.DataType.INT32), name
        assert named[name].shape == ir.Shape([2]), name
    onnx.checker.check_model(ir.to_proto(model))


def test_pass_writes_sequence_types_on_sequences() -> None:
    model = load(f"""{HEADER}g (float[4,2] x) => (float[P,2] y) {{
      s = SplitToSequence <keepdims = 0> (x)
      y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }}""")
    TypeValuesPass()(model)
    assert values(model)["s"].type == ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))


def test_pass_that_only_renames_says_so() -> None:
    """Inference goes by name; a name that stands twice is changed."""
    text = f"""{HEADER}g (float[2] x, bool c) => (float[2] z) {{
      z = If (c) <then_branch = p () => (float[2] u) {{ t = Neg (x)  u = Abs (t) }},
                  else_branch = q () => (float[2] v) {{ t = Abs (x)  v = Neg (t) }}> }}"""
    model = load(text)
    assert TypeValuesPass()(model).modified
    assert not TypeValuesPass()(model).modified


def test_copies_get_what_is_known_of_the_original() -> None:
    typings, named = both(MAP)
    copy, other = ir.Value(name="copy"), ir.Value(name="other")
    typings.copy({named["t"]: copy, named["c"]: None, ir.Value(name="unknown"): other})
    assert typings.declared[copy] == typings.declared[named["t"]]
    assert typings.proven[copy] == typings.proven[named["t"]]
    assert typings.proven[other] == ValueType(None, None)


COMBINED: list[Any] = [
    ((None, 3), (2, None), (2, 3)),
    (("N", None), (None, "M"), (None, "M")),
    (None, (2, None), (2, None)),
    ((2, None), None, (2, None)),
    ((2,), (2, 3), (2,)),
]


@pytest.mark.parametrize(("mine", "theirs", "dims"), COMBINED)
def test_copy_combines_what_two_inferences_know(mine: Any, theirs: Any, dims: Any) -> None:
    typing = Typing()
    old, new = ir.Value(name="old"), ir.Value(name="new")
    type_ = ir.TensorType(ir.DataType.FLOAT)
    typing.set(new, ValueType(type_, mine))
    typing.set(old, ValueType(type_, theirs))
    typing.copy({old: new})
    assert typing[new] == ValueType(type_, dims)
