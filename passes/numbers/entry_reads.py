"""The number at one place of a vector whose others may not be known.

``[h, w, -1] == -1`` is known at its last place: each operator of whole vectors computes what it
yields at a place from what its operands have there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.numbers.integer_reads import INTEGERS, NumberReader, Numbers, fits
from passes.numbers.integer_rules import RULES
from passes.numbers.integers import Linear

__all__ = ["FLOATS", "is_exact", "number_at"]

FLOATS = {ir.DataType.FLOAT16: 1 << 11, ir.DataType.FLOAT: 1 << 24, ir.DataType.DOUBLE: 1 << 53}
"""Element types, and up to which number each holds every whole one."""

_ELEMENTWISE = (
    *("Abs", "Add", "Div", "Max", "Min", "Mod", "Mul", "Neg", "Sub"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    *("And", "Cast", "Identity", "Not", "Or", "Where", "Xor"),
)
_DEEPEST = 32
"""So many operators are followed, one behind the other."""


def is_exact(number: Linear, dtype: ir.DataType) -> bool:
    """Whether a float type holds a number: any as large, or this one by chance, as 10^9."""
    if abs(number.constant) <= FLOATS[dtype]:
        return True
    return number.number is not None and int(dtype.numpy().type(number.number)) == number.number


def number_at(evaluator: NumberReader, vector: ir.Value, place: int) -> Linear | None:
    """Return the number at one place of a vector; those at other places need not be known.

    Args:
        evaluator: Knows numbers.
        vector: A vector.
        place: The place, from 0.
    """
    return _Entries(evaluator).at(vector, place)


class _Entries:
    """Reads single places of vectors, each of them once."""

    def __init__(self, evaluator: NumberReader) -> None:
        self._evaluator = evaluator
        self._found: dict[tuple[ir.Value, int], Linear | None] = {}

    def at(self, vector: ir.Value, place: int, deep: int = 0) -> Linear | None:
        """See `number_at`; ``deep`` is how many operators have been followed."""
        if (vector, place) not in self._found:
            self._found[vector, place] = self._read(vector, place, deep)
        return self._found[vector, place]

    def _read(self, vector: ir.Value, place: int, deep: int) -> Linear | None:
        numbers = self._evaluator.of(vector)
        found = numbers[place] if numbers is not None and place < len(numbers) else None
        if deep > _DEEPEST or (
            numbers is not None and (found is None or found.number is not None)
        ):
            return found
        node = vector.producer()
        made = None
        if is_operator(node, "Concat"):
            made = self._of_part(node, place, deep)
        elif is_operator(node, _ELEMENTWISE):
            made = self._computed(node, place, deep)
        # What is read of the vector as a whole is told apart from all else by its name.
        return made if found is None or (made is not None and made.number is not None) else found

    def _of_part(self, node: ir.Node, place: int, deep: int) -> Linear | None:
        """Return the number at a place of vectors that are joined."""
        for part in node.inputs:
            size = self._size(part)
            if part is None or size is None:
                return None
            if place < size:
                return self.at(part, place, deep + 1)
            place -= size
        return None

    def _computed(self, node: ir.Node, place: int, deep: int) -> Linear | None:
        """Return the number that an operator yields at a place, from those of its operands."""
        entries: dict[ir.Value, Numbers | None] = {}
        sizes = [self._size(value) for value in (*node.inputs, node.outputs[0])]
        if None in sizes or any(size not in (1, sizes[-1]) for size in sizes):
            return None
        for value, size in zip(node.inputs, sizes, strict=False):
            assert value is not None
            found = self.at(value, 0 if size == 1 else place, deep + 1)
            entries[value] = None if found is None else (found,)
        made = RULES[node.op_type](_OnePlace(self._evaluator, entries), node)
        if made is None or len(made) != 1:  # constants are read as a whole
            return None
        return made[0] if self._holds(made[0], node.outputs[0]) else None

    def _size(self, value: ir.Value | None) -> int | None:
        """Return how many numbers a vector or a number has, if that is known."""
        dims = self._evaluator.dims(value)
        if dims is None or len(dims) > 1:
            return None
        size = dims[0] if dims else 1
        return size if isinstance(size, int) else None

    def _holds(self, number: Linear, value: ir.Value) -> bool:
        """Whether a number is neither rounded nor too large for the type of a value."""
        dtype = self._evaluator.dtype(value)
        if dtype in FLOATS:
            return is_exact(number, dtype)
        return dtype == ir.DataType.BOOL or (dtype in INTEGERS and fits(number, dtype))


@dataclasses.dataclass(frozen=True)
class _OnePlace:
    """An evaluator for which the operands of a node are what they have at one place.

    Attributes:
        evaluator: Knows all else.
        entries: What the operands have there.
    """

    evaluator: NumberReader
    entries: Mapping[ir.Value, Numbers | None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.evaluator, name)

    def of(self, value: ir.Value | None) -> Numbers | None:
        return None if value is None else self.entries.get(value)

    def number(self, value: ir.Value | None) -> Linear | None:
        found = self.of(value)
        return None if found is None else found[0]

    def rank(self, _: ir.Value | None) -> int:
        return 1

    def dims(self, _: ir.Value | None) -> tuple[int, ...]:
        return (1,)
