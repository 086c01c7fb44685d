"""Writes to ranges within a row that is the iteration's own: ``s[i, a:b, c:d] = v``.

No two iterations write to one row, so that those of all iterations are changed side by side. The
row may be numbered along any axis: ``s[a:b, i] += v`` changes columns.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.joined import Joined, covers, unknown_rank
from passes.carried.pattern import Term
from passes.carried.ranges.box_rows import at_places, reached_places
from passes.carried.ranges.range_writes import One, RangedWrites
from passes.decisions import Code
from passes.graph.builder import END
from passes.graph.picking import pick
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.written_numbers import write_number
from passes.reading.not_a_map import NotAMapError

__all__ = ["OwnRows", "OwnWrite"]


@dataclasses.dataclass(frozen=True)
class OwnWrite(One):
    """One write to a row of the iteration's own.

    Attributes:
        sizes: The term that says how large what is written is along some axes, if each position
            along these has a value of its own.
        axes: These axes.
        join: The operator that joins it to what is there; empty if it takes its place.
        is_second: Whether what is there is the second operand.
    """

    sizes: int | None = None
    axes: tuple[int, ...] = ()
    join: str = ""
    is_second: bool = False


@dataclasses.dataclass(frozen=True)
class OwnRows(RangedWrites):
    """Writes that name one axis by the number of the iteration; see `RangedWrites`.

    Attributes:
        writes: The writes of an iteration, in order, with that axis in front; a range without a
            start begins with its axis.
        index: The row of an iteration.
        axis: The axis that rows are numbered along.
        flags: The terms that say whether an iteration writes at all; all have to hold.
    """

    writes: tuple[OwnWrite, ...]
    index: Linear = dataclasses.field(default_factory=Linear)
    axis: int = 0
    name: str = RangedWrites.name
    flags: tuple[int, ...] = ()

    def under(
        self,
        terms: tuple[Term, ...],
        nodes: tuple[ir.Node, ...],
        speculated: tuple[tuple[ir.Node, ir.Node], ...],
    ) -> OwnRows:
        """Return the same writes, in iterations only in which the last of some terms holds."""
        flags = (*self.flags, len(terms) - 1)
        name = f"{OwnRows.name} under a condition"
        return dataclasses.replace(
            self, terms=terms, nodes=nodes, speculated=speculated, flags=flags, name=name
        )

    def write(self, joined: Joined) -> ir.Value:
        """Record the initial tensor with other rows.

        Raises:
            NotAMapError: The first row is not proven to be counted from the start.
        """
        builder, initial = joined.builder, self._turned(joined)
        first_row = self.index.replace({ITERATION: Linear(0)})
        if not is_nonnegative(first_row):
            detail = f"two iterations may write to one row of '{self.carried.inner.name}'"
            raise NotAMapError(Code.RECURRENCE, detail, self.carried.next.producer())
        first, zero = write_number(builder, first_row), builder.ints(0)
        behind = joined.trips.write(builder)
        if first_row != Linear(0):
            behind = builder.op("Add", [first, behind])
        rows = builder.op("Slice", [initial, first, behind, zero])
        joined = self._within(joined, rows)
        before = rows
        for one in self.writes:
            rows = self._changed(joined, one, initial, rows)
        rows = self._if_written(joined, rows, before)
        end = builder.ints(END)
        parts = [builder.op("Slice", [initial, behind, end, zero])]
        if first_row != Linear(0):
            parts.insert(0, builder.op("Slice", [initial, zero, first, zero]))
        parts.insert(-1, rows)
        return self._turned_back(joined, builder.op("Concat", parts, {"axis": 0}))

    def _order(self, joined: Joined) -> list[int]:
        """Return the axes of the tensor, with that of the rows in front."""
        rank = joined.typing.rank(self.carried.initial)
        if rank is None:
            raise unknown_rank(self.carried)
        return [self.axis, *(at for at in range(rank) if at != self.axis)]

    def _turned(self, joined: Joined) -> ir.Value:
        """Return the initial tensor with the axis of its rows in front."""
        if not self.axis:
            return self.carried.initial
        order = {"perm": self._order(joined)}
        return joined.builder.op("Transpose", [self.carried.initial], order)

    def _turned_back(self, joined: Joined, tensor: ir.Value) -> ir.Value:
        """Return a tensor with the axis of its rows where it was."""
        if not self.axis:
            return tensor
        order = self._order(joined)
        back = {"perm": [order.index(at) for at in range(len(order))]}
        return joined.builder.op("Transpose", [tensor], back)

    def _within(self, joined: Joined, rows: ir.Value) -> Joined:
        """Return what belongs to rows of the tensor; an iteration that skips may have none."""
        if not self.flags:
            return joined
        builder = joined.builder
        bounds = [builder.ints(0), builder.shape(rows, 0, 1), builder.ints(0)]
        values = [
            builder.op("Slice", [value, *bounds]) if term.kind == "stacked" else value
            for term, value in zip(self.terms, joined.values, strict=True)
        ]
        return dataclasses.replace(joined, values=values)

    def _if_written(self, joined: Joined, rows: ir.Value, before: ir.Value) -> ir.Value:
        """Record the rows that are written, and the others as they were."""
        builder, rank = joined.builder, joined.typing.rank(self.carried.initial)
        for at in self.flags:
            assert rank is not None
            axes = builder.ints(*range(1, rank))
            flags = joined.values[at]
            if rank > 1:
                flags = builder.op("Unsqueeze", [flags, axes])
            rows = pick(builder, flags, rows, before, self.dtype)
        return rows

    def _changed(
        self, joined: Joined, one: OwnWrite, initial: ir.Value, rows: ir.Value
    ) -> ir.Value:
        """Record the rows after one of the writes."""
        builder, rest = joined.builder, self.behind(joined, one)
        flags = reached_places(joined, initial, one.ranges)
        written = self._written(joined, one, initial, flags, len(rest))
        if one.join:
            operands = [written, rows] if one.is_second else [rows, written]
            written = builder.op(one.join, operands)
        if flags is None:
            return builder.op("Expand", [written, builder.op("Shape", [rows])])
        if rest:
            flags = builder.op("Unsqueeze", [flags, builder.ints(*rest)])
        return pick(builder, flags, written, rows, self.dtype)

    def _written(
        self,
        joined: Joined,
        one: OwnWrite,
        initial: ir.Value,
        flags: ir.Value | None,
        behind: int,
    ) -> ir.Value:
        """Record what is written to the places of all rows."""
        if one.term is None:
            return self.fixed(joined.builder, one)
        written = joined.values[one.term]
        if one.sizes is not None:
            dims, is_line = joined.types[one.term].dims, len(one.axes) == 1
            rest = None if dims is None else dims[1:]
            if is_line and not covers(joined.typing, self.carried.initial, rest):
                raise self.more_than_a_row()
            sizes, kept = joined.values[one.sizes], [joined.values[at] for at in self.flags]
            how = (one.ranges, one.axes, written, sizes, flags, kept, self.dtype)
            return at_places(joined, initial, *how)
        beside = len(one.ranges) - 1 + behind - self.check_row(joined, one)
        if not beside:
            return written
        axes = joined.builder.ints(*range(1, 1 + beside))
        return joined.builder.op("Unsqueeze", [written, axes])
