"""Samples that say after each step whether they go on: who is done leaves the batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.some_samples import inverse_of
from passes.builder import Builder

__all__ = ["Remaining"]


class Remaining:
    """See `passes.batching.packed.rosters.Roster`.

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
        self.starts = ctx.op("Greater", [ctx.op("Size", [first]), ctx.builder.scalar(0)])
        none = [ctx.builder.constant(np.empty(0, np.int64))] * 2
        notes = [ctx.op("SequenceConstruct", [x]) for x in (never, *none)]
        self.carried: Sequence[ir.Value] = [first, *notes]
        for value, note in zip((first, *notes), (False, True, True, True), strict=True):
            tensor = ir.TensorType(ir.DataType.INT64)
            value.type = ir.SequenceType(tensor) if note else tensor
        self._noted: tuple[ir.Value, ir.Value] | None = None

    def team(self, inner: Builder, step: ir.Value, carried: Sequence[ir.Value]) -> _Chosen:
        """See `Roster`."""
        return _Chosen(inner, step, carried, self._limit)

    def finish(self, carried: Sequence[ir.Value]) -> ir.Value:
        """See `Roster`."""
        order, samples, steps = (
            self._ctx.op("ConcatFromSequence", [notes], {"axis": 0}) for notes in carried[1:]
        )
        self._noted = samples, steps
        return inverse_of(self._ctx, order)

    def rows(self, mirrored: bool) -> tuple[ir.Value, Lengths]:
        """See `Roster`."""
        assert self._noted is not None and not mirrored
        ctx, (samples, steps) = self._ctx, self._noted
        zero, one = ir.tensor(np.zeros(1, np.int64)), ir.tensor(np.ones(1, np.int64))
        none = ctx.op("ConstantOfShape", [ctx.batch], {"value": zero})
        ones = ctx.op("ConstantOfShape", [ctx.op("Shape", [samples])], {"value": one})
        added = {"axis": 0, "reduction": "add"}
        lengths = Lengths(ctx.builder, ctx.op("ScatterElements", [none, samples, ones], added))
        begun = ctx.op("Gather", [lengths.starts, samples], {"axis": 0})
        return inverse_of(ctx, ctx.op("Add", [begun, steps])), lengths


class _Chosen:
    """See `passes.batching.packed.rosters.Team`: samples by their numbers."""

    def __init__(
        self,
        inner: Builder,
        step: ir.Value,
        carried: Sequence[ir.Value],
        limit: ir.Value | None,
    ) -> None:
        self._inner, self._step, self._limit = inner, step, limit
        self._numbers, self._notes = carried[0], carried[1:]
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

    def condition(self, condition: ir.Value) -> ir.Value:
        inner = self._inner
        some = inner.op("Cast", [self._sides[0]], {"to": ir.DataType.INT64})
        count = inner.op("ReduceSum", [some], {"keepdims": 0})
        return inner.op("Greater", [count, inner.scalar(0)])

    def carried(self) -> list[ir.Value]:
        inner = self._inner
        kept, gone = (self._compress(self._numbers, side, 0) for side in self._sides)
        steps = inner.op("Expand", [self._step, self.batch])
        notes = [
            inner.op("SequenceInsert", [sequence, value])
            for sequence, value in zip(self._notes, (gone, self._numbers, steps), strict=True)
        ]
        return [kept, *notes]

    def _compress(self, value: ir.Value, side: ir.Value, axis: int) -> ir.Value:
        return self._inner.op("Compress", [value, side], {"axis": axis})
