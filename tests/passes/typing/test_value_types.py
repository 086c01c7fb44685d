"""What is declared and what is proven of one value, put together."""

from __future__ import annotations

from typing import Any, TypeAlias

import onnx_ir as ir
import pytest

from passes.typing.value_types import Typing, Typings, ValueType, is_number

Dims: TypeAlias = tuple[int | str | None, ...] | None
FLOAT = ir.TensorType(ir.DataType.FLOAT)
S, T = "S", "T"
"""S stands for one number in the whole model, T does not."""

TYPES: dict[str, tuple[Dims, Dims, Dims, Dims, Dims, bool]] = {
    # declared, proven, equal_dims, proven_dims, numbered_dims, takes_declared
    "nothing": (None, None, None, None, None, False),
    "declared alone": ((3, T), None, (3, None), (None, None), (3, None), True),
    "proven alone": (None, (3, S, T), (3, S, None), (3, S, None), (3, S, None), False),
    "alike": ((3, S), (3, S), (3, S), (3, S), (3, S), False),
    "a declared number": ((3, 4), (3, None), (3, 4), (3, None), (3, 4), True),
    "another number": ((5,), (3,), (3,), (3,), (3,), False),
    "a number for a symbol": ((5,), (S,), (S,), (S,), (5,), False),
    "a number for another symbol": ((5,), (T,), (5,), (None,), (5,), True),
    "a symbol for a number": ((S,), (5,), (5,), (5,), (5,), False),
    "a symbol of no number": ((T,), (T,), (None,), (None,), (None,), False),
    "a symbol for nothing": ((S,), (None,), (None,), (None,), (None,), False),
    "more axes declared": ((3, 4), (3,), (3,), (3,), (3,), False),
    "fewer axes declared": ((3,), (3, S), (3, S), (3, S), (3, S), False),
    "no axes": ((), (), (), (), (), False),
}


def _typing(value: ir.Value, dims: Dims, *, names_axes: bool = False) -> Typing:
    typing = Typing(frozenset({S}), names_axes=names_axes)
    typing.set(value, ValueType(FLOAT, dims))
    return typing


@pytest.mark.parametrize("name", TYPES)
def test_declared_and_proven(name: str) -> None:
    declared, proven, *expected = TYPES[name]
    value = ir.Value(name="v")
    typings = Typings(_typing(value, declared), _typing(value, proven))
    asked = (typings.equal_dims, typings.proven_dims, typings.numbered_dims)
    found: list[Any] = [ask(value) for ask in asked]
    assert [*found, typings.takes_declared(value)] == expected


DIMENSIONS: dict[str, tuple[int | str | None, bool, tuple[bool, bool, bool]]] = {
    # whether symbols name axes; is_one_number, is_same_number, names_dimension
    "a number": (3, False, (True, True, True)),
    "a symbol": (S, False, (True, False, False)),
    "a symbol of an axis": (S, True, (True, True, True)),
    "a symbol of no number": (T, False, (False, False, False)),
    "another symbol of an axis": (T, True, (False, False, True)),
    "nothing": (None, True, (False, False, False)),
}


@pytest.mark.parametrize("name", DIMENSIONS)
def test_dimensions(name: str) -> None:
    dim, names_axes, expected = DIMENSIONS[name]
    typing = Typing(frozenset({S}), names_axes=names_axes)
    found = typing.is_one_number(dim), typing.is_same_number(dim), typing.names_dimension(dim)
    assert found == expected


SHAPES: dict[str, tuple[Dims, Dims, bool, bool]] = {
    "numbers": ((3, 4), (3, 4), False, True),
    "other numbers": ((3, 4), (3, 5), False, False),
    "symbols": ((S,), (S,), False, False),
    "symbols of axes": ((S,), (S,), True, True),
    "no ranks": (None, None, True, False),
    "one rank": (None, (3,), True, False),
    "nothing known": ((None,), (None,), True, False),
    "no axes": ((), (), False, True),
}


@pytest.mark.parametrize("name", SHAPES)
def test_one_shape(name: str) -> None:
    one, other, names_axes, expected = SHAPES[name]
    values = ir.Value(name="a"), ir.Value(name="b")
    typing = _typing(values[0], one, names_axes=names_axes)
    typing.set(values[1], ValueType(FLOAT, other))
    assert typing.have_one_shape(*values) is expected


COPIED: dict[str, tuple[Dims, Dims, Dims]] = {
    # what is known of the copy, of what it is a copy of, and of the copy then
    "nothing of both": (None, None, None),
    "nothing of the copy": (None, (3, S), (3, S)),
    "nothing of the other": ((3, S), None, (3, S)),
    "one number of each": ((3, S), (T, 4), (3, 4)),
    "other axes": ((3, 4), (3,), (3, 4)),
}


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_keeps_what_is_known_of_it(name: str) -> None:
    own, other, expected = COPIED[name]
    copy, value = ir.Value(name="a"), ir.Value(name="b")
    typing = _typing(copy, own)
    typing.set(value, ValueType(FLOAT, other))
    typing.copy({value: copy})
    assert typing.dims(copy) == expected


def test_what_is_a_number() -> None:
    given = (None, ir.DataType.STRING, ir.DataType.FLOAT, ir.DataType.BOOL)
    assert [is_number(dtype) for dtype in given] == [False, False, True, True]
