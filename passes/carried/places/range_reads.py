"""Which places of a carried tensor a ScatterND writes to, as one range along each axis.

PyTorch writes ``s[.., a:b, c:d] = v`` as a ScatterND to a grid of places, each column of which is
a part of the numbers from 0 to the size of the axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import onnx_ir as ir

from passes.carried.pattern import added, added_integers
from passes.carried.places.columns import Column
from passes.graph.made import made_by, only_number, operand, skip_identities
from passes.graph.scopes import Scope
from passes.numbers.evaluate import Evaluator
from passes.numbers.number_order import is_nonnegative
from passes.numbers.slice_bounds import bounds_of
from passes.typing.corrections import counted_axis

__all__ = ["Range", "find_ranges"]


@dataclasses.dataclass(frozen=True)
class Range:
    """The positions that one iteration writes to along one axis.

    Attributes:
        start: The first of them, ``[1]``, counted from the end where it is negative; None where
            it is all of the axis.
        end: The first behind them, ``[1]``; None for one position, or all.
    """

    start: ir.Value | None = None
    end: ir.Value | None = None


def find_ranges(
    columns: Sequence[Column],
    tensors: Collection[ir.Value],
    initial: ir.Value,
    body: ir.Graph | Scope,
    evaluator: Evaluator,
) -> tuple[tuple[Range, ...], list[ir.Node]] | None:
    """Return the range along each axis that is named, and what computes the bounds.

    None if the positions along one of them are no range.

    Args:
        columns: The places, axis by axis.
        tensors: The carried tensor, and what it is after some writes, of the same shape.
        initial: What it is in front of the first iteration.
        body: The body of the Loop.
        evaluator: Knows the numbers of the body.
    """
    reader = _RangeReader(tensors, initial, body, evaluator)
    ranges = [reader.read(column, axis) for axis, column in enumerate(columns)]
    known = tuple(r for r in ranges if r is not None)
    return (known, reader.nodes) if len(known) == len(ranges) else None


class _RangeReader:
    def __init__(
        self,
        tensors: Collection[ir.Value],
        initial: ir.Value,
        body: ir.Graph | Scope,
        evaluator: Evaluator,
    ) -> None:
        self.nodes: list[ir.Node] = []
        self._tensors, self._initial = tensors, initial
        self._body, self._evaluator = body, evaluator

    def read(self, column: Column, axis: int) -> Range | None:
        """Return the range of one column."""
        if column.is_constant:
            return Range(self._constant(column))
        if column.is_point:
            return Range(self._as_vector(column.root))
        cut = made_by(column.root, "Slice")
        whole = made_by(column.root if cut is None else cut.inputs[0], "Range")
        if whole is None:
            return None
        if not self._counts(whole, axis):
            return self._of_numbers(whole) if cut is None else None
        if cut is None:
            return Range()
        if not self._steps_by_one(cut):
            return None
        bounds = bounds_of(cut, self._evaluator)
        if bounds is not None and bounds.is_whole:
            return Range()
        return Range(cut.inputs[1], cut.inputs[2])

    def _of_numbers(self, node: ir.Node) -> Range | None:
        """Return the range of the numbers from one that is 0 or more up to another one."""
        start, end, step = (skip_identities(operand(node, at)) for at in range(3))
        first = self._evaluator.number(start)
        if first is None or not is_nonnegative(first) or self._evaluator.integer(step) != 1:
            return None
        wide = [added("Cast", [value], {"to": ir.DataType.INT64}) for value in (start, end)]
        self.nodes += wide
        start, end = (self._as_vector(one.outputs[0]) for one in wide)
        none = added_integers(0)
        below = added("Less", [end, none.outputs[0]])
        counted = added("Where", [below.outputs[0], none.outputs[0], end])
        self.nodes += [none, below, counted]
        return Range(start, counted.outputs[0])

    def _constant(self, column: Column) -> ir.Value:
        assert column.start is not None
        vector = ir.tensor([column.start.constant], ir.DataType.INT64)
        self.nodes.append(added("Constant", [], {"value": vector}))
        return self.nodes[-1].outputs[0]

    def _as_vector(self, number: ir.Value) -> ir.Value:
        axis = added_integers(0)
        vector = added("Unsqueeze", [number, axis.outputs[0]])
        self.nodes += [axis, vector]
        return vector.outputs[0]

    def _steps_by_one(self, cut: ir.Node) -> bool:
        """Whether a Slice of a vector takes all positions from its start to its end."""
        has_steps = len(cut.inputs) > 4
        return not has_steps or self._evaluator.integer(cut.inputs[4]) == 1

    def _counts(self, node: ir.Node, axis: int) -> bool:
        """Whether a Range holds the numbers from 0 to the size of an axis of what is carried."""
        counted = counted_axis(node)
        if counted is not None and skip_identities(counted[0]) in self._tensors:
            return counted[1] == axis
        if [only_number(node.inputs[at]) for at in (0, 2)] != [0, 1]:
            return False
        number = self._evaluator.number(node.inputs[1])
        return number is not None and number == self._evaluator.dimension(self._initial, axis)
