"""Writes to ranges within a row that is the iteration's own: ``s[i, a:b, c:d] = v``.

No two iterations write to one row, so that those of all iterations are changed side by side.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.pattern import Term
from passes.carried.range_marks import reached_places
from passes.carried.range_writes import One, RangedWrites
from passes.decisions import Code
from passes.graph.builder import END
from passes.graph.picking import pick
from passes.reading.integers import ITERATION, Linear
from passes.reading.not_a_map import NotAMapError
from passes.reading.number_order import is_nonnegative
from passes.reading.written_numbers import write_number

__all__ = ["OwnRows"]


@dataclasses.dataclass(frozen=True)
class OwnRows(RangedWrites):
    """Writes that name the first axis by the number of the iteration; see `RangedWrites`.

    Attributes:
        index: The row of an iteration.
        flags: The terms that say whether an iteration writes at all; all have to hold.
        speculated: The nodes of branches that the map runs in all iterations.
    """

    index: Linear = dataclasses.field(default_factory=Linear)
    name: str = RangedWrites.name
    flags: tuple[int, ...] = ()
    speculated: tuple[tuple[ir.Node, ir.Node], ...] = ()

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
        builder, initial = joined.builder, self.carried.initial
        first_row = self.index.replace({ITERATION: Linear(0)})
        if not is_nonnegative(first_row):
            detail = f"two iterations may write to one row of '{self.carried.inner.name}'"
            raise NotAMapError(Code.RECURRENCE, detail, self.carried.next.producer())
        first, zero = write_number(builder, first_row), builder.ints(0)
        behind = builder.op("Add", [first, joined.trips.write(builder)])
        rows = builder.op("Slice", [initial, first, behind, zero])
        joined = self._within(joined, rows)
        before = rows
        for one in self.writes:
            rows = self._changed(joined, one, rows)
        rows = self._if_written(joined, rows, before)
        end = builder.ints(END)
        parts = [builder.op("Slice", [initial, behind, end, zero])]
        if first_row != Linear(0):
            parts.insert(0, builder.op("Slice", [initial, zero, first, zero]))
        parts.insert(-1, rows)
        return builder.op("Concat", parts, {"axis": 0})

    def _within(self, joined: Joined, rows: ir.Value) -> Joined:
        """Return what belongs to rows of the tensor; an iteration that skips may have none."""
        if not self.flags:
            return joined
        builder = joined.builder
        bounds = [builder.ints(0), builder.shape(rows, 0, 1), builder.ints(0)]
        values = [builder.op("Slice", [value, *bounds]) for value in joined.values]
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

    def _changed(self, joined: Joined, one: One, rows: ir.Value) -> ir.Value:
        """Record the rows after one of the writes."""
        builder, rest = joined.builder, self.behind(joined, one)
        flags = reached_places(joined, self.carried.initial, one.ranges)
        if flags is not None and rest:
            flags = builder.op("Unsqueeze", [flags, builder.ints(*rest)])
        if one.term is None:
            written = self.fixed(builder, one)
        else:
            own, written = self.check_row(joined, one), joined.values[one.term]
            beside = len(one.ranges) - 1 + len(rest) - own
            if beside:
                written = builder.op("Unsqueeze", [written, builder.ints(*range(1, 1 + beside))])
        if flags is None:
            return builder.op("Expand", [written, builder.op("Shape", [rows])])
        return pick(builder, flags, written, rows, self.dtype)
