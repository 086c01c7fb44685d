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
from passes.batching.lengths import Lengths
from passes.batching.packed.slicing.bounded_rows import FAR
from passes.batching.packed.slicing.rows_left import rows_left
from passes.decisions import Code, Decline
from passes.graph.made import operand
from passes.numbers.entry_reads import number_at
from passes.numbers.integers import Linear
from passes.typing import ValueType

__all__ = ["cut_along", "known_bounds", "slice_", "takes_all"]


def slice_(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Slice each sample along axes of the grid, or all rows along axes behind them."""
    x = ctx.operand(operands, 0, "data")
    flat = x.flat
    if flat is None:
        raise Decline(Code.BATCHED_OPERAND, "its bounds come from samples of several sizes")
    starts, ends = ctx.operand(operands, 1, "starts"), ctx.operand(operands, 2, "ends")
    given, steps = ctx.optional(operands, 3), ctx.optional(operands, 4)
    count = starts.dims[0]
    axes = None if given is None else _integers(ctx, node, operands, 3)
    strides = None if steps is None else _integers(ctx, node, operands, 4)
    if given is None and isinstance(count, int):
        axes = np.arange(count)
    if axes is None or (steps is not None and strides is None):
        raise Decline(Code.NO_RULE, "its axes and steps are no constants")
    if not (starts.has_an_axis and ends.has_an_axis):
        raise Decline(Code.RAGGED, "its bounds differ along several axes")
    by = np.ones(axes.size, int) if strides is None else np.clip(strides.ravel(), -FAR, FAR)
    rank = len(flat.order)
    cuts = [_Along(int(axis) % rank, at, int(by[at])) for at, axis in enumerate(axes.ravel())]
    are_shared = starts.is_shared and ends.is_shared
    bounds = {cut: known_bounds(ctx, node, operands, cut.position) for cut in cuts}
    cuts = [one for one in cuts if not takes_all(bounds[one], one.step, x.dims[one.axis])]
    if flat.sampler is None:
        for axis in sorted(c.axis for c in cuts if not are_shared and None in bounds[c]):
            x = (
                x
                if x.own_flat.order[axis] < x.own_flat.grid.rank
                else with_axis_in_grid(ctx, x, axis)
            )
        flat = x.own_flat
    tables, rows = list(flat.tables), x.value
    for cut in cuts:
        at, known = flat.order[cut.axis], bounds[cut]
        given_bounds = [entry(ctx, v, cut.position) for v in (starts, ends)]
        is_shared = are_shared or None not in known
        if at < flat.grid.rank:
            table = cut_along(ctx, flat, at, given_bounds, cut.step, known, are_shared=is_shared)
            tables[at] = _with_size(ctx, node, flat, cut, table)
            continue
        if not is_shared or flat.sampler is not None:
            raise Decline(Code.RAGGED, "its bounds along an axis beside the ragged ones differ")
        if not are_shared:
            given_bounds = [ctx.ints(number) for number in known if number is not None]
        behind = ctx.ints(at - flat.grid.rank + 1)
        rows = ctx.op("Slice", [rows, *given_bounds, behind, ctx.ints(cut.step)])
    made = ctx.flat(rows, dataclasses.replace(flat, tables=tuple(tables)))
    cut_axes = {cut.axis for cut in cuts}
    kept = (None if a in cut_axes or isinstance(d, str) else d for a, d in enumerate(x.dims))
    return [dataclasses.replace(made, type=ValueType(x.type.type, tuple(kept)))]


def _with_size(
    ctx: Context, node: ir.Node, flat: FlatSamples, cut: _Along, table: AxisTable
) -> AxisTable:
    """Return a table with its count as a sum, where the bounds of a Slice tell it.

    Counts of one sum are one value, so that what follows from them is recorded once.
    """
    size = flat.dimension(cut.axis)
    if cut.step != 1 or size is None or table.is_fixed:
        return table
    left = rows_left(ctx, node, size, cut.position)
    if not isinstance(left, Linear):
        return table
    known = ctx.lengths_by(left, lambda: Lengths(ctx.builder, table.count, size=left))
    return dataclasses.replace(table, count=known.value, size=left, lengths=known)


@dataclasses.dataclass(frozen=True)
class _Along:
    """A cut along one axis.

    Attributes:
        axis: The axis of a sample.
        position: Where the bounds have it.
        step: From one place to the next.
    """

    axis: int
    position: int
    step: int


def _integers(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], at: int
) -> np.ndarray | None:
    """Return the integers that an input has for all samples, None if they are not known."""
    known = ctx.constant(operands[at])
    numbers = None if known is not None else ctx.numbers.of(operand(node, at))
    if numbers is None or any(n.number is None for n in numbers):
        return known
    return np.array([n.number for n in numbers], np.int64)


def known_bounds(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], position: int
) -> list[int | None]:
    """Return the bounds along one axis, None for each that is no number for all samples."""
    return [_number(ctx, node, operands, at, position) for at in (1, 2)]


def _number(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], at: int, position: int
) -> int | None:
    known = ctx.constant(operands[at])
    if known is not None:
        return int(known.ravel()[position])
    number = number_at(ctx.numbers, operand(node, at), position)
    return None if number is None else number.number


def takes_all(known: Sequence[int | None], step: int, size: object) -> bool:
    """Whether a Slice by bounds that may be known takes all of an axis."""
    start, end = known
    is_all = start == 0 and end is not None and isinstance(size, int) and end >= size
    return step == 1 and (_is_whole(known, 1) or is_all)


def cut_along(
    ctx: Context,
    flat: FlatSamples,
    at: int,
    bounds: Sequence[ir.Value],
    step: int,
    known: Sequence[int | None],
    *,
    are_shared: bool,
) -> AxisTable:
    """Return the places of a slice along one axis, its bounds clamped as Slice clamps them.

    Args:
        ctx: The context.
        flat: The samples.
        at: An axis of their grid.
        bounds: Start and end, int64 ``[1]`` or ``[B]``.
        step: From one place to the next.
        known: Start and end as numbers, where they are known.
        are_shared: Whether all samples have these bounds.
    """
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
    first, last = (
        _clamped(integers(ctx, value), size, step)
        if number is None or step < 0
        else _clamped_number(ctx, number, size)
        for value, number in zip(bounds, known, strict=True)
    )
    span = (last - first) if step > 0 else (first - last)
    count = span.max(0)
    if abs(step) > 1:
        count = (count + (abs(step) - 1)) / abs(step)
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


def _clamped_number(ctx: Context, bound: int, size: Formula) -> Formula:
    """Return a bound that is known as a Slice forwards takes it, see `_clamped`."""
    if bound < 0:
        return (size + bound).max(0)
    return integers(ctx, ctx.ints(bound)).min(size)


def _clamped(bound: Formula, size: Formula, step: int) -> Formula:
    """Return a bound as Slice takes it: from behind if negative, and within the axis."""
    bound = bound.compare("Less", 0).where(bound + size, bound)
    if step > 0:
        return bound.max(0).min(size)
    return bound.max(-1).min(size - 1)
