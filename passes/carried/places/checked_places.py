"""Places that are checked before they are read or written, as JAX's exporter writes them.

A row ``x[k]`` is read by a Slice from ``k`` to ``k + 1`` along the first axis and a Squeeze, which
fails where there is no such row. A row is written only where the place is one of the tensor: the
places and the rows are picked by a NonZero of that check. Where one iteration reads the place that
it writes to, there is such a place.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import onnx_ir as ir

from passes.carried.common.outside import made_twice
from passes.graph.graphs import constant_value
from passes.graph.made import axes_of, made_by, operand, operands, skip_identities, through
from passes.numbers.integers import Linear
from passes.numbers.slice_bounds import axes_cut, cuts_of
from passes.reading.facts import LoopFacts

__all__ = ["CheckedPlaces"]

_FORMS = ("Cast", "Expand", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that give one number another shape or another type."""

_INDICES = (ir.DataType.INT32, ir.DataType.INT64)
"""The types of indices, the smaller one first."""


class CheckedPlaces:
    """Reads the checked places of one body."""

    def __init__(self, facts: LoopFacts) -> None:
        """Set up the reader.

        Args:
            facts: What is known of the body.
        """
        self._body, self._evaluator = facts.scope, facts.evaluator

    @functools.cached_property
    def _same(self) -> Mapping[ir.Value, ir.Value]:
        return made_twice(self._body)

    def root(self, value: ir.Value) -> ir.Value:
        """Return what one number was before it was given a shape; alike ones are one value."""
        value = self._before_forms(value)
        return skip_identities(self._same.get(value, value))

    def _before_forms(self, value: ir.Value) -> ir.Value:
        """Return what a value was made of; a Cast to a smaller type makes another number."""
        while (node := made_by(value, *_FORMS, body=self._body)) is not None:
            if node.op_type == "Cast" and not self._keeps_index(node):
                break
            value = operand(node, 0)
        return skip_identities(value)

    def _keeps_index(self, cast: ir.Node) -> bool:
        given, made = self._evaluator.dtype(operand(cast, 0)), cast.attributes.get_int("to", 0)
        return given in _INDICES and made in _INDICES[_INDICES.index(given) :]

    def unchecked(self, value: ir.Value, tensor: ir.Value) -> ir.Value | None:
        """Return the one row that is picked if its place is one of a tensor, None for another.

        Args:
            value: What a ScatterND is given as places.
            tensor: What it writes to.
        """
        node = made_by(value, "Gather", body=self._body)
        if node is None or node.attributes.get_int("axis", 0) != 0:
            return None
        rows, kept = operands(node)
        flag = self._flag(kept)
        is_one = self._is_one(rows) and flag is not None
        return rows if is_one and self._asks_for(flag, self.root(rows), tensor) else None

    def picked(self, value: ir.Value, places: ir.Value) -> ir.Value | None:
        """Return what is picked as some places are, None for another."""
        node, other = (made_by(v, "Gather", body=self._body) for v in (value, places))
        if node is None or other is None or node.attributes.get_int("axis", 0) != 0:
            return None
        own, known = (skip_identities(operand(one, 1)) for one in (node, other))
        return operand(node, 0) if own is known else None

    def reads(self, value: ir.Value, place: ir.Value, tensor: ir.Value) -> bool:
        """Whether a value is the row of a tensor at a place.

        Args:
            value: What is read.
            place: One number, of whatever shape.
            tensor: The tensor.
        """
        squeeze = made_by(value, "Squeeze", body=self._body)
        if squeeze is not None and axes_of(squeeze) == [0]:
            value = operand(squeeze, 0)
        node = made_by(value, "Gather" if squeeze is None else "Slice", body=self._body)
        if node is None or skip_identities(operand(node, 0)) is not tensor:
            return False
        number = self._gathered(node) if squeeze is None else self.read_row(node)
        return number is not None and number is self.root(place)

    def _gathered(self, node: ir.Node) -> ir.Value | None:
        """Return the number of the one row that a Gather takes, None for another."""
        index = operand(node, 1)
        is_row = node.attributes.get_int("axis", 0) == 0 and self._is_one(index)
        return self.root(index) if is_row else None

    def read_row(self, node: ir.Node) -> ir.Value | None:
        """Return the number of the one row that a Slice takes, None for another."""
        evaluator = self._evaluator
        if evaluator.dims(node.inputs[0]) is None or len(node.inputs) < 4:
            return None
        axes = axes_cut(node, evaluator)
        first = next((cut for cut in axes if cut.axis == 0), None)
        others = [cut for cut in cuts_of(node, evaluator) if cut is not None and cut.axis != 0]
        if first is None or first.step != 1 or len(others) + 1 < len(axes):
            return None
        if not all(cut.is_whole for cut in others):
            return None
        starts, ends = skip_identities(operand(node, 1)), operand(node, 2)
        add = made_by(ends, "Add", body=self._body)
        by = None if add is None else _beside(starts, add)
        size = None if by is None else evaluator.of(by)
        if size is None or first.place >= len(size) or size[first.place] != Linear(1):
            return None
        return self._part(starts, first.place)

    def _part(self, vector: ir.Value, place: int) -> ir.Value | None:
        """Return the number that stands at a place of joined vectors of one number each."""
        node = made_by(vector, "Concat", body=self._body)
        if node is None or place >= len(node.inputs):
            return None
        parts = operands(node)
        return self.root(parts[place]) if all(map(self._is_one, parts)) else None

    def _is_one(self, value: ir.Value) -> bool:
        """Whether a value holds one number."""
        value = skip_identities(value)
        dims = self._evaluator.dims(value)
        if dims is not None and all(dim == 1 for dim in dims):
            return True
        node = made_by(value, *_FORMS, body=self._body)
        if node is None or not self._is_one(operand(node, 0)):
            return False
        if node.op_type != "Expand":
            return True
        shape = self._evaluator.of(node.inputs[1])
        return shape is not None and set(shape) <= {Linear(1)}

    def _flag(self, kept: ir.Value) -> ir.Value | None:
        """Return the flags whose places a vector holds."""
        value = through(kept, ("Squeeze", "Transpose", "Reshape"), self._body)
        node = made_by(value, "NonZero", body=self._body)
        return None if node is None else through(operand(node, 0), _FORMS, self._body)

    def _asks_for(self, flag: ir.Value | None, root: ir.Value, tensor: ir.Value) -> bool:
        """Whether a flag is true exactly where a number is a place along the first axis."""
        node = made_by(flag, "And", body=self._body)
        least, most = (None, None) if node is None else map(self._compared, operands(node))
        if least is None or most is None:
            return False
        if least[0] == "LessOrEqual":
            least, most = most, least
        size = self._evaluator.dimension(tensor, 0)
        if size is None or (least[0], most[0]) != ("GreaterOrEqual", "LessOrEqual"):
            return False
        is_root = least[1] is root and most[1] is root
        return is_root and (least[2], most[2]) == (Linear(0), size - 1)

    def _compared(self, flag: ir.Value) -> tuple[str, ir.Value, Linear] | None:
        """Return how one number is compared with a known one."""
        node = made_by(flag, "GreaterOrEqual", "LessOrEqual", body=self._body)
        number = None if node is None else self._evaluator.number(node.inputs[1])
        if node is None or number is None:
            return None
        return node.op_type, self.root(self._first(operand(node, 0))), number

    def _first(self, value: ir.Value) -> ir.Value:
        """Return what the first column of one row is taken of."""
        node = made_by(value, "Gather", body=self._body)
        array = None if node is None else constant_value(node.inputs[1])
        if node is None or array is None or array.any() or not self._is_one(operand(node, 0)):
            return value
        return operand(node, 0)


def _beside(value: ir.Value, node: ir.Node) -> ir.Value | None:
    """Return the other operand of a node of two that reads a value."""
    others = [v for v in operands(node) if skip_identities(v) is not value]
    return others[0] if len(others) == 1 else None
