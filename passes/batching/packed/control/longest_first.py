"""Samples whose numbers of steps are known: a step is for the first ones, the longest first.

Numbers of steps ``[1, 3, 2]``: the order is ``[1, 2, 0]``, and the three steps are for its first
3, 2 and 1 samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.control.some_samples import inverse_of
from passes.batching.packed.spread_rows import spread
from passes.graph.builder import END, Builder

__all__ = ["SortedByLength"]


class SortedByLength:
    """See `passes.batching.packed.control.rosters.Roster`.

    All that the steps do together is linear in the sum of the samples' steps, however uneven
    these are.
    """

    def __init__(self, ctx: Context, lengths: Lengths) -> None:
        """Record the order of the samples.

        Args:
            ctx: The context of the loop.
            lengths: How many steps each sample has.
        """
        self._ctx, self._lengths = ctx, lengths
        top = ctx.builder.node("TopK", [lengths.value, lengths.count], {"axis": 0}, outputs=2)
        self._order = top.outputs[1]
        self._rank = inverse_of(ctx, self._order)
        zero, one = ir.tensor(np.zeros(1, np.int64)), ir.tensor(np.ones(1, np.int64))
        none = ctx.op("ConstantOfShape", [lengths.longest], {"value": zero})
        ones = ctx.op("ConstantOfShape", [lengths.total], {"value": one})
        added = {"axis": 0, "reduction": "add"}
        self._alive = ctx.op("ScatterElements", [none, lengths.positions, ones], added)
        self._at_least = ctx.op("Concat", [lengths.count, self._alive, ctx.ints(0)], {"axis": 0})
        self._after = ctx.op("Slice", [self._at_least, ctx.ints(2), ctx.ints(END)])
        self._sorted: dict[ir.Value, ir.Value] = {}
        begun = ctx.op("Slice", [self._at_least, ctx.ints(1), ctx.ints(2)])
        sizes = ctx.op("Concat", [begun, ctx.op("Sub", [lengths.count, begun])], {"axis": 0})
        parts = ctx.builder.node("Split", [self._order, sizes], {"axis": 0}, outputs=2).outputs
        self.first = (parts[0], parts[1])
        self.trips: ir.Value | None = ctx.op("Squeeze", [lengths.longest, ctx.ints(0)])
        self.carried: Sequence[ir.Value] = ()
        self.noted: Sequence[ir.Value] = ()

    def goes_on(self, builder: Builder, carried: Sequence[ir.Value]) -> ir.Value:
        """See `Schedule`; the number of steps is known."""
        return builder.flag(True)

    def team(self, inner: Builder, step: ir.Value, carried: Sequence[ir.Value]) -> _Prefix:
        """See `Schedule`."""
        index = inner.op("Unsqueeze", [step, inner.ints(0)])
        alive, after = (
            inner.op("Gather", [v, index], {"axis": 0}) for v in (self._alive, self._after)
        )
        return _Prefix(self, inner, alive, after)

    def in_order(self, value: ir.Value) -> ir.Value:
        """Return a value ``[B, *s]`` in the order of the samples."""
        if value not in self._sorted:
            self._sorted[value] = self._ctx.op("Gather", [value, self._order], {"axis": 0})
        return self._sorted[value]

    def finish(self, noted: Sequence[ir.Value]) -> ir.Value:
        """See `Schedule`; who has fewer steps is done before, and equals keep their order."""
        ctx, lengths = self._ctx, self._lengths
        longer = ctx.op("Add", [lengths.value, ctx.builder.scalar(1)])
        from_here, from_next = (
            ctx.op("Gather", [self._at_least, n], {"axis": 0}) for n in (lengths.value, longer)
        )
        before = ctx.op("Sub", [lengths.count, from_here])
        return ctx.op("Add", [before, ctx.op("Sub", [self._rank, from_next])])

    def rows(self, mirrored: bool) -> tuple[ir.Value, Lengths]:
        """See `Schedule`."""
        ctx, lengths = self._ctx, self._lengths
        behind = ctx.op("CumSum", [self._alive, ctx.builder.scalar(0)])
        before = ctx.op("Sub", [behind, self._alive])
        step = lengths.positions
        if mirrored:
            last = ctx.op("Sub", [lengths.value, ctx.builder.scalar(1)])
            step = ctx.op("Sub", [spread(ctx, last, lengths), step])
        begun = ctx.op("Gather", [before, step], {"axis": 0})
        return ctx.op("Add", [begun, spread(ctx, self._rank, lengths)]), lengths


class _Prefix:
    """See `passes.batching.packed.control.rosters.Team`: the first samples of an order."""

    def __init__(
        self, roster: SortedByLength, inner: Builder, batch: ir.Value, after: ir.Value
    ) -> None:
        self._roster, self._inner = roster, inner
        self.batch, self._after = batch, after
        self.done = inner.op("Sub", [batch, after])

    def take(self, value: ir.Value) -> ir.Value:
        return self._first(self._roster.in_order(value), self.batch)

    def part(self, go_on: ir.Value | None) -> None:
        assert go_on is None

    def split(self, x: Batched) -> tuple[ir.Value, ir.Value]:
        inner, kept, gone = self._inner, self._after, self.done
        if x.lengths is not None:
            sizes = self._first(x.lengths.value, self._after)
            kept = inner.op("ReduceSum", [sizes], {"keepdims": 1})
            gone = inner.op("Sub", [x.lengths.total, kept])
        bounds = inner.op("Concat", [kept, gone], {"axis": 0})
        parts = inner.node("Split", [x.value, bounds], {"axis": x.axis}, outputs=2).outputs
        return parts[0], parts[1]

    def carried(self) -> list[ir.Value]:
        return []

    def notes(self) -> list[ir.Value]:
        return []

    def _first(self, value: ir.Value, count: ir.Value) -> ir.Value:
        return self._inner.op("Slice", [value, self._inner.ints(0), count, self._inner.ints(0)])
