"""Slices of one tensor whose bounds differ from sample to sample.

Of a shared tensor of 7 rows, ``x[start : start + 3]`` with the starts ``[0, 2]`` is one Gather, by
the rows ``[[0, 1, 2], [2, 3, 4]]``. Bounds ``[0:3]`` and ``[2:4]`` leave packed samples of the
lengths ``[3, 2]``, see `passes.batching.packed.slicing.bounded_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import sample_numbers
from passes.batching.flat.families.boxes import boxes
from passes.batching.layouts import Batched
from passes.batching.packed.row_by_row import sample_axis
from passes.batching.packed.slicing.alike_cuts import cut_alike, named_axes
from passes.batching.packed.slicing.bounded_rows import LengthsKey, cut_rows
from passes.batching.packed.slicing.overlapping import limit_overlapping
from passes.batching.packed.slicing.rows_left import rows_left
from passes.batching.packed.slicing.single_places import (
    cut_places,
    entry,
    reads_one_place,
    single_place,
)
from passes.decisions import Code, Decline
from passes.graph.graphs import constant_value
from passes.graph.made import operand
from passes.numbers.entry_reads import number_at
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.last_iteration import most
from passes.numbers.number_order import is_nonnegative
from passes.numbers.slice_bounds import Bounds

__all__ = ["span"]


def span(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Slice of shared or stacked data: windows of one size, or samples of different sizes."""
    given, data = operands, ctx.operand(operands, 0, "data")
    bounds = [ctx.operand(operands, i, name) for i, name in ((1, "starts"), (2, "ends"))]
    place, at, is_place = 0, 0, False
    if any(x.dims != (1,) for x in bounds):
        operands, left = cut_alike(ctx, node, given)
        cut = _cut(ctx, node, operands, left)
        if len(cut) > 1:
            named = len(left)
            operands, left = cut_places(ctx, node, operands, left, cut)
            is_place = len(left) < named
            cut = _cut(ctx, node, operands, left)
        only = cut[0] if len(cut) == 1 else None
        if only is None and ctx.takes_flat:
            return boxes(ctx, node, given)
        if only is None:
            raise Decline(Code.DATA_DEPENDENT, "its bounds along several axes differ by sample")
        data, place, at = ctx.operand(operands, 0, "data"), left[only], only
        bounds = [entry(ctx, ctx.operand(operands, i, "bounds"), only) for i in (1, 2)]
    axis, step = _axis(ctx, operands, data.rank, at), _step(ctx, operands)
    width = _width(ctx, node, axis, place) if step == 1 and data.is_shared else None
    if width is None and reads_one_place(ctx, node, data.rank, axis, place, step):
        return [single_place(ctx, data, bounds[0], axis, bounds[1] if step > 1 else None)]
    if axis and data.is_stacked:
        if ctx.takes_flat and not is_place:
            return boxes(ctx, node, given)
        key = _key(ctx, node, axis, place) if step == 1 else None
        return [_behind_the_first(ctx, data, bounds, axis, step, key)]
    shape = ctx.op("Shape", [data.value])
    along = ctx.builder.scalar(axis + data.is_stacked)
    size = ctx.op("Gather", [shape, along], {"axis": 0})
    if width is not None:
        return [_windows(ctx, data, bounds[0], _scalar(ctx, width), axis)]
    most = _width_of_several(ctx, node, axis, place) if step == 1 and data.is_shared else None
    if most is not None:
        return [_windows(ctx, data, bounds[0], _of_several(ctx, size, most), axis)]
    key = _key(ctx, node, axis, place) if step == 1 else None
    if data.is_shared:
        made = cut_rows(ctx, data.value, bounds, size, axis=axis, step=step, key=key)
        limit_overlapping(ctx, made, data, axis, bounds, key)
        if step == 1 and _is_zero(ctx, bounds[0]):
            ctx.wholes[made.value] = data.value
        return [made]
    starts = sample_numbers(ctx, size, 0)
    value = ctx.merged(data.value, data.dims)
    return [cut_rows(ctx, value, bounds, size, starts, step=step, key=key)]


def _cut(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], places: Sequence[int]
) -> list[int]:
    """Return which of the axes that a Slice names it cuts: none where that is not known.

    Args:
        ctx: The context.
        node: The Slice.
        operands: What is left of its operands.
        places: At which places of its bounds they stood.
    """
    axes, steps = named_axes(ctx, operands), ctx.optional(operands, 4)
    known = None if steps is None else ctx.constant(steps)
    if axes is None or (steps is not None and (known is None or (known != 1).any())):
        return []
    pairs = enumerate(zip(axes, places, strict=True))
    return [at for at, (axis, place) in pairs if not _is_whole(ctx, node, place, axis)]


def _is_whole(ctx: Context, node: ir.Node, place: int, axis: int) -> bool:
    """Whether a Slice in steps of 1 takes all of an axis."""
    start, end = (number_at(ctx.numbers, operand(node, i), place) for i in (1, 2))
    if start is None or end is None:
        return False
    size = ctx.numbers.dimension(operand(node, 0), axis)
    return Bounds(start, end, axis, size=size).is_whole


def _is_zero(ctx: Context, bound: Batched) -> bool:
    known = ctx.constant(bound)
    return known is not None and not known.any()


def _behind_the_first(
    ctx: Context, data: Batched, bounds: Sequence[Batched], axis: int, step: int, key: LengthsKey
) -> Output:
    """Cut stacked samples ``[B, *before, n, *rest]`` along an axis that is not their first.

    The axis goes to the front, and back behind what is left of each sample.
    """
    order = [0, axis + 1, *(i for i in range(1, data.rank + 1) if i != axis + 1)]
    turned = ctx.op("Transpose", [data.value], {"perm": order})
    dims = (data.dims[axis], *(dim for i, dim in enumerate(data.dims) if i != axis))
    size = ctx.op("Gather", [ctx.op("Shape", [turned]), ctx.builder.scalar(1)], {"axis": 0})
    starts = sample_numbers(ctx, size, 0)
    rows = cut_rows(ctx, ctx.merged(turned, dims), bounds, size, starts, step=step, key=key)
    back = [*range(1, axis + 1), 0, *range(axis + 1, data.rank)]
    value = ctx.op("Transpose", [rows.value], {"perm": back})
    return ctx.packed(value, rows.own_lengths, axis)


def _width(ctx: Context, node: ir.Node, axis: int, place: int) -> Linear | None:
    """Return how many rows every sample has, None if one may begin or end outside of the data."""
    size = ctx.numbers.dimension(operand(node, 0), axis)
    first, last = (number_at(ctx.numbers, operand(node, i), place) for i in (1, 2))
    if size is None or first is None or last is None or not is_nonnegative(first):
        return None
    width, end = last - first, most(ctx.numbers, last)
    if not is_nonnegative(width) or end is None or not is_nonnegative(size - end):
        return None
    return width if ctx.numbers.is_shared(width) and ITERATION not in width.atoms() else None


def _scalar(ctx: Context, number: Linear) -> ir.Value:
    """Return a number that all samples share as an int64 scalar."""
    if number.number is not None:
        return ctx.builder.scalar(number.number)
    return ctx.squeeze(ctx.numbers.write(ctx, number), [0])


def _width_of_several(ctx: Context, node: ir.Node, axis: int, place: int) -> int | None:
    """Return how many rows every sample has if there are several, and one alone at most."""
    size = ctx.numbers.dimension(operand(node, 0), axis)
    first, last = (number_at(ctx.numbers, operand(node, i), place) for i in (1, 2))
    if size is None or first is None or last is None or first.without(ITERATION) != Linear():
        return None
    width, most = (last - first).number, ctx.numbers.most_of_several(last)
    if width is None or width < 0 or most is None or not is_nonnegative(size - most):
        return None
    return width


def _of_several(ctx: Context, size: ir.Value, only: int) -> ir.Value:
    """Return how many rows one sample has at most, and each of none or of several."""
    width, count = ctx.builder.scalar(only), ctx.op("Squeeze", [ctx.batch, ctx.ints(0)])
    beside = ctx.op("Sub", [ctx.builder.scalar(1), count])
    free = ctx.op("Max", [size, ctx.op("Mul", [beside, width])])
    return ctx.op("Min", [free, width])


def _windows(ctx: Context, data: Batched, start: Batched, width: ir.Value, axis: int) -> Output:
    """Return windows of one size; a row outside of the data is an error."""
    begin = ctx.op("Cast", [start.value], {"to": ir.DataType.INT64})
    places = _places(ctx, width)
    rows = ctx.op("Add", [begin, places])
    value = ctx.op("Gather", [data.value, rows], {"axis": axis})
    if axis:
        order = [axis, *(i for i in range(data.rank + 1) if i != axis)]
        value = ctx.op("Transpose", [value], {"perm": order})
    return ctx.stacked(value)


def _places(ctx: Context, width: ir.Value) -> ir.Value:
    """Return the numbers from 0 to a width: a constant of a constant."""
    known = constant_value(width)
    if known is not None:
        return ctx.builder.constant(np.arange(int(known), dtype=np.int64))
    return ctx.arange(width)


def _key(ctx: Context, node: ir.Node, axis: int, place: int) -> LengthsKey:
    """Return how long slices are, or what tells it: two that have it in common are as long."""
    size = ctx.numbers.dimension(operand(node, 0), axis)
    left = None if size is None else rows_left(ctx, node, size, place)
    if size is None or left is None or not isinstance(left, Linear):
        return left
    bounds = [number_at(ctx.numbers, operand(node, i), place) for i in (1, 2)]
    return left if ctx.numbers.is_at_hand(left) else (*(n for n in bounds if n is not None), size)


def _axis(ctx: Context, operands: Sequence[Operand], rank: int, place: int) -> int:
    """Return the axis of a sample that is cut."""
    return sample_axis(ctx.known_axes(operands, range(place + 1))[place], rank)


def _step(ctx: Context, operands: Sequence[Operand]) -> int:
    steps = ctx.optional(operands, 4)
    step = None if steps is None else ctx.constant(steps)
    if steps is not None and step is None:
        raise Decline(Code.NO_RULE, "its bounds differ by sample, and its step is not known")
    return 1 if step is None else int(step.reshape(-1)[0])
