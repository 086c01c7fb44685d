"""Samples that say after each step whether they go on: who is done leaves the batch.

Of samples ``[0, 1, 2]`` that say ``[go on, stop, go on]`` the next step is for ``[0, 2]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.control.some_samples import inverse_of
from passes.graph.builder import Builder

__all__ = ["ActiveSet"]


class ActiveSet:
    """See `passes.batching.packed.control.rosters.Roster`.

    No step is computed for a sample that is done, so that nothing fails that would not have.
    """

    def __init__(self, ctx: Context, begins: ir.Value, limit: ir.Value | None) -> None:
        """Record who begins.

        Args:
            ctx: The context of the loop.
            begins: Whether each sample has a first step, bool ``[B]``.
            limit: The most steps of each sample, int64 ``[B]``, None for any number.
        """
        self._ctx, self._limit = ctx, limit
        sides = (begins, ctx.op("Not", [begins]))
        first, never = (ctx.squeeze(ctx.op("NonZero", [side]), [0]) for side in sides)
        self.first = (first, never)
        self.trips: ir.Value | None = None
        first.type = ir.TensorType(ir.DataType.INT64)
        none = ctx.builder.constant(np.empty(0, np.int64))
        self.carried: Sequence[ir.Value] = [first]
        self.noted: Sequence[ir.Value] = [never, none, none]
        self._rows: tuple[ir.Value, ir.Value] | None = None

    def goes_on(self, builder: Builder, carried: Sequence[ir.Value]) -> ir.Value:
        """See `Schedule`."""
        return builder.op("Greater", [builder.op("Size", [carried[0]]), builder.scalar(0)])

    def team(self, inner: Builder, step: ir.Value, carried: Sequence[ir.Value]) -> _ChosenRows:
        """See `Schedule`."""
        return _ChosenRows(inner, step, carried, self._limit)

    def finish(self, noted: Sequence[ir.Value]) -> ir.Value:
        """See `Schedule`."""
        order, samples, steps = noted
        self._rows = samples, steps
        return inverse_of(self._ctx, order)

    def rows(self, mirrored: bool) -> tuple[ir.Value, Lengths]:
        """See `Schedule`."""
        assert self._rows is not None and not mirrored
        ctx, (samples, steps) = self._ctx, self._rows
        zero, one = ir.tensor(np.zeros(1, np.int64)), ir.tensor(np.ones(1, np.int64))
        none = ctx.op("ConstantOfShape", [ctx.batch], {"value": zero})
        ones = ctx.op("ConstantOfShape", [ctx.op("Shape", [samples])], {"value": one})
        added = {"axis": 0, "reduction": "add"}
        lengths = Lengths(ctx.builder, ctx.op("ScatterElements", [none, samples, ones], added))
        begun = ctx.op("Gather", [lengths.starts, samples], {"axis": 0})
        return inverse_of(ctx, ctx.op("Add", [begun, steps])), lengths


class _ChosenRows:
    """See `passes.batching.packed.control.rosters.Team`: samples by their numbers."""

    def __init__(
        self,
        inner: Builder,
        step: ir.Value,
        carried: Sequence[ir.Value],
        limit: ir.Value | None,
    ) -> None:
        self._inner, self._step, self._limit = inner, step, limit
        self._numbers = carried[0]
        self.batch = inner.op("Shape", [self._numbers])
        self.done = self.batch
        self._sides = (self._numbers, self._numbers)

    def take(self, value: ir.Value) -> ir.Value:
        return self._inner.op("Gather", [value, self._numbers], {"axis": 0})

    def part(self, go_on: ir.Value | None) -> None:
        inner = self._inner
        flags = [] if go_on is None else [go_on]
        if self._limit is not None:
            reached = inner.op("Add", [self._step, inner.scalar(1)])
            flags.append(inner.op("Less", [reached, self.take(self._limit)]))
        kept = flags[0] if len(flags) == 1 else inner.op("And", flags)
        gone = inner.op("Not", [kept])
        self._sides = kept, gone
        numbers = inner.op("Cast", [gone], {"to": ir.DataType.INT64})
        self.done = inner.op("ReduceSum", [numbers], {"keepdims": 1})

    def split(self, x: Batched) -> tuple[ir.Value, ir.Value]:
        kept, gone = self._sides
        if x.lengths is not None:
            rows = x.lengths.samples
            kept, gone = (self._inner.op("Gather", [v, rows], {"axis": 0}) for v in self._sides)
        return self._compress(x.value, kept, x.axis), self._compress(x.value, gone, x.axis)

    def carried(self) -> list[ir.Value]:
        return [self._compress(self._numbers, self._sides[0], 0)]

    def notes(self) -> list[ir.Value]:
        done = self._compress(self._numbers, self._sides[1], 0)
        return [done, self._numbers, self._inner.op("Expand", [self._step, self.batch])]

    def _compress(self, value: ir.Value, side: ir.Value, axis: int) -> ir.Value:
        return self._inner.op("Compress", [value, side], {"axis": axis})
