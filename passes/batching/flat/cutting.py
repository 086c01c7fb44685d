"""Slices of flat samples: which places a result reads along each axis."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.axis_table import largest, picked, places
from passes.batching.flat.formula import Formula, integers
from passes.batching.flat.moves import entry, with_axis_in_grid
from passes.batching.flat.samples import AxisTable, FlatSamples
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.decisions import Code, Decline

__all__ = ["slice_"]


def slice_(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Slice each sample along axes of the grid, or all rows along axes behind them."""
    x = ctx.operand(operands, 0, "data")
    flat = x.flat
    if flat is None:
        raise Decline(Code.BATCHED_OPERAND, "its bounds come from samples of several sizes")
    starts, ends = ctx.operand(operands, 1, "starts"), ctx.operand(operands, 2, "ends")
    given, steps = ctx.optional(operands, 3), ctx.optional(operands, 4)
    count = starts.dims[0]
    axes = None if given is None else ctx.constant(given)
    strides = None if steps is None else ctx.constant(steps)
    if given is None and isinstance(count, int):
        axes = np.arange(count)
    if axes is None or (steps is not None and strides is None):
        raise Decline(Code.NO_RULE, "its axes and steps are no constants")
    if not (starts.has_an_axis and ends.has_an_axis):
        raise Decline(Code.RAGGED, "its bounds differ along several axes")
    rank, are_shared = len(flat.order), starts.is_shared and ends.is_shared
    if not are_shared and flat.sampler is None:
        for axis in sorted({int(a) % rank for a in axes.ravel()}):
            assert x.flat is not None
            x = x if x.flat.order[axis] < x.flat.grid.rank else with_axis_in_grid(ctx, x, axis)
        flat = x.flat
        assert flat is not None
    tables, rows = list(flat.tables), x.value
    for position, axis in enumerate(axes.ravel().tolist()):
        at = flat.order[int(axis) % rank]
        step = 1 if strides is None else int(strides.ravel()[position])
        bounds = [entry(ctx, v, position) for v in (starts, ends)]
        if at < flat.grid.rank:
            known = [_number(ctx, v, position) for v in (starts, ends)]
            if _is_whole(known, step) and step > 0:
                continue
            tables[at] = _cut(ctx, flat, at, bounds, step, known, are_shared=are_shared)
            continue
        if not are_shared or flat.sampler is not None:
            raise Decline(Code.RAGGED, "its bounds along an axis beside the ragged ones differ")
        behind = ctx.ints(at - flat.grid.rank + 1)
        rows = ctx.op("Slice", [rows, *bounds, behind, ctx.ints(step)])
    return [ctx.flat(rows, dataclasses.replace(flat, tables=tuple(tables)))]


def _number(ctx: Context, vector: Batched, position: int) -> int | None:
    known = ctx.constant(vector)
    return None if known is None else int(known.ravel()[position])


def _cut(
    ctx: Context,
    flat: FlatSamples,
    at: int,
    bounds: Sequence[ir.Value],
    step: int,
    known: Sequence[int | None],
    *,
    are_shared: bool,
) -> AxisTable:
    """Return the places of a slice along one axis, its bounds clamped as Slice clamps them."""
    table = flat.tables[at]
    least = 0 if table is None else table.least
    start, end = known
    size = integers(ctx, flat.size(at))
    if start is not None and end is not None and step > 0 and 0 <= start <= end <= least:
        number = -(-(end - start) // step)
        where = integers(ctx, places(ctx, ctx.ints(number))) * step + start
        cut = picked(ctx, flat, at, where.value, ctx.ints(number), is_fixed=True, may_miss=False)
        return dataclasses.replace(cut, least=number)
    if _is_whole(known, step):
        is_fixed = flat.is_counted_once(at)
        width = size.value if is_fixed else largest(ctx, size.value)
        where = size.unsqueeze(1) - 1 - integers(ctx, places(ctx, width))
        turned = picked(ctx, flat, at, where.value, size.value, is_fixed=is_fixed, may_miss=False)
        kept = flat.dimension(flat.order.index(at))
        return dataclasses.replace(turned, least=least, size=kept)
    first, last = (_clamped(integers(ctx, v), size, step) for v in bounds)
    span = (last - first) if step > 0 else (first - last)
    count = (span.max(0) + (abs(step) - 1)) / abs(step)
    is_fixed = are_shared and flat.is_counted_once(at)
    width = count.value if is_fixed else largest(ctx, count.value)
    where = integers(ctx, places(ctx, width)) * step + first.unsqueeze(1)
    cut = picked(ctx, flat, at, where.value, count.value, is_fixed=is_fixed, may_miss=False)
    return (
        cut if is_fixed else dataclasses.replace(cut, size=Lengths(ctx.builder, count.value).size)
    )


def _is_whole(bounds: Sequence[int | None], step: int) -> bool:
    """Whether all places are read whatever their number: forwards, or backwards by -1."""
    start, end = bounds
    limits = np.iinfo(np.int32)
    if start is None or end is None:
        return False
    if step < 0:
        return step == start == -1 and end <= limits.min
    return step == 1 and not start and end >= limits.max


def _clamped(bound: Formula, size: Formula, step: int) -> Formula:
    """Return a bound as Slice takes it: from behind if negative, and within the axis."""
    bound = bound.compare("Less", 0).where(bound + size, bound)
    if step > 0:
        return bound.max(0).min(size)
    return bound.max(-1).min(size - 1)
