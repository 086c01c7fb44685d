"""The best value so far, what belongs to it, and the last value where a condition holds.

All three take row 0, the initial value, or the row of one iteration. Which one is the position of
a hit: for values ``[3, 1, 3]`` onto the initial value 2 the rows are ``[2, 3, 1, 3]``, the hits of
a maximum are ``[0, 1, 0, 1]``, and the first or the last hit wins as the comparison is strict or
not.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.choices.hits import Hits
from passes.carried.joined import Joined, covers, same_dims, unproven_shape
from passes.carried.totals.filled import (
    Begun,
    RunningPattern,
    begun,
    filled,
    kept_rows,
    last_kept,
    row_flags,
)
from passes.carried.totals.running import running, total_of
from passes.carried.totals.weighed import weigh_all, weigh_losers
from passes.graph.builder import Builder
from passes.graph.picking import pick

__all__ = ["Best", "Chosen"]


@dataclasses.dataclass(frozen=True)
class Chosen(RunningPattern):
    """A carried value that the row of one iteration replaces.

    Attributes:
        terms: What says which row, and the rows.
        hits: Which rows count.
        name: What the report calls it.
        weighs: Whether the rows that are not taken are multiplied by 0 and added.
    """

    hits: Hits
    name: str
    weighs: bool = False
    keeps_shape = "by its terms"

    def check_shape(self, joined: Joined) -> None:
        """Check that what is compared with a carried value is no larger than that, either."""
        super().check_shape(joined)
        compared = self.hits.carried
        if compared is not None and not same_dims(
            joined.typing, compared.initial, joined.types[0].dims
        ):
            raise unproven_shape(self.carried)

    def write(self, joined: Joined) -> ir.Value:
        """Record the row that won."""
        if joined.is_collected:
            keeps = self._keeps_rows(joined)
            return joined.last_of(self._kept(joined) if keeps else self.whole(joined))
        builder, typing, initial = joined.builder, joined.typing, self.carried.initial
        asked, rows = joined.values[0], joined.values[-1]
        dims = typing.dims(initial)
        if self._spreads(joined):
            return self._spread(joined)
        known = [same_dims(typing, initial, joined.types[-1].dims)]
        if self.hits.carried is not None:
            known.append(same_dims(typing, self.hits.carried.initial, joined.types[0].dims))
        is_scalar = self.hits.is_whole or joined.types[0].dims == ()
        if not is_scalar:
            known.append(same_dims(typing, initial, joined.types[0].dims))
        if dims is None or not all(known):
            raise unproven_shape(self.carried)
        position = self.hits.position(joined, asked)
        first = builder.op("Unsqueeze", [initial, builder.ints(0)])
        whole = builder.op("Concat", [first, rows], {"axis": 0})
        found = self._row_at(builder, whole, position, is_scalar=is_scalar)
        if self.weighs:
            return weigh_losers(joined, found, whole, position, len(dims))
        return found

    def _spreads(self, joined: Joined) -> bool:
        """Whether each element of a larger tensor has a condition, and takes one number."""
        if len(self.terms) < 2 or self.hits.is_whole or self.weighs or self.hits.mark:
            return False
        initial, (asked, rows) = self.carried.initial, joined.types
        compared = self.hits.carried
        if compared is not None and not same_dims(joined.typing, compared.initial, asked.dims):
            return False
        is_one = asked.dims != () and rows.dims == () and joined.typing.dims(initial) != ()
        return is_one and covers(joined.typing, initial, asked.dims)

    def _spread(self, joined: Joined) -> ir.Value:
        """Record for each element the number of the row that won, or what it was at first."""
        builder, initial = joined.builder, self.carried.initial
        asked, rows = joined.values
        position = self.hits.position(joined, asked)
        spare = builder.op("Cast", [builder.ints(0)], {"to": int(self._dtype(joined))})
        table = builder.op("Concat", [spare, rows], {"axis": 0})
        found = builder.op("Gather", [table, position], {"axis": 0})
        won = builder.op("Greater", [position, builder.scalar(0)])
        return pick(builder, won, found, initial, self._dtype(joined))

    def _dtype(self, joined: Joined) -> ir.DataType:
        dtype = joined.typing.dtype(self.carried.initial)
        assert dtype is not None
        return dtype

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the values of all iterations are rows up to the last one that counted."""
        return not self.weighs or self.hits.carried is None

    def recorded(self, joined: Joined) -> ir.Value:
        """Record the initial value and the values of all iterations."""
        given = self._begun(self._marked(joined))
        kept = filled(joined.builder, given)
        if not self.weighs:
            return kept
        return weigh_all(joined.builder, given, kept, self._dtype(joined))

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the values behind each iteration, or those in front of it."""
        if not self._keeps_rows(joined):
            return super().write_all(joined, is_after=is_after)
        flags = row_flags(self._marked(joined), 0)
        return last_kept(joined.builder, self._kept(joined), flags, is_after=is_after)

    def _keeps_rows(self, joined: Joined) -> bool:
        """Whether a whole row stays as it is until another one takes its place."""
        return not self.weighs and (self.hits.is_whole or joined.types[0].dims == ())

    def _kept(self, joined: Joined) -> ir.Value:
        """Record the initial value and the rows that take its place, once."""

        def write() -> ir.Value:
            return kept_rows(joined.builder, self._begun(self._marked(joined)))

        return joined.once(self.carried.inner, write)

    def _marked(self, joined: Joined) -> Joined:
        """Record which rows take the place of the one before, in place of what is asked."""
        flags = self.hits.taken(joined, joined.values[0])
        return dataclasses.replace(joined, values=[flags, *joined.values[1:]])

    def _begun(self, marked: Joined) -> Begun:
        return begun(marked, self.carried, 0, len(self.terms) - 1, is_whole=self.hits.is_whole)

    def _row_at(
        self, builder: Builder, whole: ir.Value, position: ir.Value, *, is_scalar: bool
    ) -> ir.Value:
        """Record the row of one place, or for each element that of its own place."""
        if is_scalar:
            return builder.op("Gather", [whole, position], {"axis": 0})
        at = builder.op("Unsqueeze", [position, builder.ints(0)])
        found = builder.op("GatherElements", [whole, at], {"axis": 0})
        return builder.op("Squeeze", [found, builder.ints(0)])


@dataclasses.dataclass(frozen=True)
class Best(Chosen):
    """The best value so far; NaN is never better."""

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the best values of all iterations are running extremes."""
        return not self.weighs

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the running extremes of what is not NaN; an initial NaN stays."""
        return running(joined, self.carried, *self._compared(joined), is_after=is_after)

    def write(self, joined: Joined) -> ir.Value:
        """Record the best value; where the values of all iterations are read, the last of them."""
        if joined.is_collected:
            return total_of(joined, self.carried, *self._compared(joined))
        return super().write(joined)

    def _compared(self, joined: Joined) -> tuple[ir.Value, str]:
        """Record what is compared in each iteration; the operator that compares it."""
        (rows,), extreme = joined.values, self.hits.extreme
        assert extreme is not None
        joined.needs_same_shape(self.carried)
        return self.hits.without_nan(joined.builder, rows), extreme
