"""Writes of one number, or one row, to ranges of a carried tensor: ``s[.., a:b, c:d] = v``.

The bounds are numbers of each iteration, such as those that offsets give, and the ranges of two
iterations may overlap. Which iteration was the last to write to a place is found for all places
at once.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.joined import Joined, covers, unknown_rank
from passes.carried.pattern import Pattern
from passes.carried.ranges.range_marks import Marked, covered_places, last_writers, rows_of_writers
from passes.decisions import Code
from passes.graph.builder import Builder
from passes.graph.picking import pick
from passes.reading.not_a_map import NotAMapError

__all__ = ["One", "RangeWrite", "RangedWrites"]


@dataclasses.dataclass(frozen=True)
class One:
    """One write of an iteration.

    Attributes:
        ranges: For each axis the numbers of the terms that are its start and its end.
        number: What is written in all iterations; None if a term is.
        term: The number of that term; None where it is a number.
        axis: Along which axis each position gets a row of its own; None if all get the same.
    """

    ranges: tuple[Marked, ...]
    number: np.ndarray | ir.Value | None
    term: int | None = None
    axis: int | None = None


@dataclasses.dataclass(frozen=True)
class RangedWrites(Pattern):
    """A carried tensor; each iteration writes one range along each of some axes.

    Attributes:
        terms: The bounds, and what is written if it is not the same in all iterations.
        writes: The writes of an iteration, in order.
        dtype: The element type.
        needs_sizes: Whether a term has sizes that have to be right where there are no iterations.
    """

    writes: tuple[One, ...]
    dtype: ir.DataType
    needs_sizes: bool = False
    name = "carried write to ranges"
    keeps_shape = "as it is made"

    def behind(self, joined: Joined, one: One) -> list[int]:
        """Return the axes behind those that a write names.

        Raises:
            NotAMapError: Nothing tells the rank of what is carried.
        """
        rank = joined.typing.rank(self.carried.initial)
        if rank is None:
            raise unknown_rank(self.carried)
        return list(range(len(one.ranges), rank))

    def check_row(self, joined: Joined, one: One) -> int:
        """Return the rank of what a write gives to one place.

        Raises:
            NotAMapError: It is not proven to be one row.
        """
        initial, rest = self.carried.initial, len(self.behind(joined, one))
        assert one.term is not None
        dims = joined.types[one.term].dims
        is_row = dims is not None and len(dims) <= rest and covers(joined.typing, initial, dims)
        if dims is not None and one.axis is not None:
            dims, whole = dims[1:], joined.typing.dims(initial) or ()
            is_row = len(dims) == rest and covers(joined.typing, initial, dims)
            is_row &= whole[len(one.ranges) :] == dims
        if dims is None or not is_row:
            raise self.more_than_a_row()
        return len(dims)

    def more_than_a_row(self) -> NotAMapError:
        """Return the error for what is written to one place, and may not fit it."""
        detail = f"what is written to '{self.carried.inner.name}' may be more than one row"
        return NotAMapError(Code.RECURRENCE, detail, self.carried.next.producer())

    def fixed(self, builder: Builder, one: One) -> ir.Value:
        """Return the number that is written in all iterations."""
        assert one.number is not None
        return one.number if isinstance(one.number, ir.Value) else builder.constant(one.number)


@dataclasses.dataclass(frozen=True)
class RangeWrite(RangedWrites):
    """Ranged writes that may overlap between iterations; see `RangedWrites`.

    Attributes:
        moves: Whether the ranges move on with each iteration, so that there are about as many
            places as iterations.
    """

    moves: bool = False

    @property
    def is_dear(self) -> bool:  # type: ignore[override]
        """Whether all places along several axes are asked which iteration was the last.

        Or along one, where that is as many times what the Loop writes.
        """
        if self.moves:
            return True
        if len(self.writes) == 1 and self.writes[0].number is not None:
            return False
        bounded = (sum(r.start is not None for r in one.ranges) for one in self.writes)
        return max(bounded) > 1

    def write(self, joined: Joined) -> ir.Value:
        """Record the initial tensor, and at each place what was written there last."""
        builder, initial = joined.builder, self.carried.initial
        if len(self.writes) == 1 and self.writes[0].number is not None:
            one = self.writes[0]
            flags = covered_places(joined, initial, one.ranges)
            flags = self._wide(joined, one, flags)
            return pick(builder, flags, self.fixed(builder, one), initial, self.dtype)
        orders, found = [], []
        for at, one in enumerate(self.writes):
            owner = last_writers(joined, initial, one.ranges)
            found.append(self._picked(joined, one, owner))
            orders.append(self._wide(joined, one, self._order(builder, owner, at)))
        last, zero = orders[0], builder.scalar(0)
        for order in orders[1:]:
            last = builder.op("Where", [builder.op("Less", [last, order]), order, last])
        result = initial
        for order, written in zip(orders, found, strict=True):
            is_last = builder.op("Greater", [order, zero])
            if len(orders) > 1:
                is_last = builder.op("And", [is_last, builder.op("Equal", [order, last])])
            result = pick(builder, is_last, written, result, self.dtype)
        return result

    def _order(self, builder: Builder, owner: ir.Value, at: int) -> ir.Value:
        """Record the place in the order of all writes of all iterations, 0 for none."""
        if len(self.writes) == 1:
            return owner
        place = builder.op("Mul", [owner, builder.scalar(len(self.writes))])
        place = builder.op("Add", [place, builder.scalar(at)])
        is_written = builder.op("Greater", [owner, builder.scalar(0)])
        return builder.op("Where", [is_written, place, builder.scalar(0)])

    def _wide(self, joined: Joined, one: One, value: ir.Value) -> ir.Value:
        """Record a value of each place with an axis of 1 for each that is not named."""
        behind = self.behind(joined, one)
        if not behind:
            return value
        return joined.builder.op("Unsqueeze", [value, joined.builder.ints(*behind)])

    def _picked(self, joined: Joined, one: One, owner: ir.Value) -> ir.Value:
        """Record for each place what its last iteration writes, anything where there is none."""
        builder = joined.builder
        if one.term is None:
            return self.fixed(builder, one)
        rest, own = len(self.behind(joined, one)), self.check_row(joined, one)
        rows = joined.values[one.term]
        if one.axis is not None:
            owner = rows_of_writers(joined, self.carried.initial, one.ranges, one.axis, owner)
        one_row = builder.ints(1)
        if own:
            one_row = builder.op("Concat", [one_row, builder.shape(rows, 1)], {"axis": 0})
        none = builder.constant(np.zeros((), self.dtype.numpy()))
        table = builder.op("Concat", [builder.op("Expand", [none, one_row]), rows], {"axis": 0})
        if own < rest:
            table = builder.op("Unsqueeze", [table, builder.ints(*range(1, 1 + rest - own))])
        return builder.op("Gather", [table, owner], {"axis": 0})
