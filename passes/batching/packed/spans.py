"""Slices of one tensor whose bounds differ from sample to sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.merging import sample_numbers
from passes.batching.packed.segments import spread
from passes.decisions import Code, Decline

__all__ = ["cut", "span"]

_FAR = 2**31
"""Bounds that are further than any row are written as this one, which compares right."""


def span(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Slice of shared or stacked data along its first axis: samples of different length."""
    data = ctx.operand(operands, 0, "data")
    bounds = [ctx.operand(operands, i, name) for i, name in ((1, "starts"), (2, "ends"))]
    if any(x.rank != 1 or x.dims != (1,) for x in bounds):
        raise Decline(Code.DATA_DEPENDENT, "its bounds along several axes differ by sample")
    step = _step_along_first_axis(ctx, operands, data.rank)
    axis = 1 if data.is_stacked else 0
    shape = ctx.op("Shape", [data.value])
    size = ctx.op("Gather", [shape, ctx.builder.scalar(axis)], {"axis": 0})
    if data.is_shared:
        return [cut(ctx, data.value, bounds, size, step=step)]
    starts = sample_numbers(ctx, size, 0)
    return [cut(ctx, ctx.merged(data.value, data.dims), bounds, size, starts, step=step)]


def cut(
    ctx: Context,
    value: ir.Value,
    bounds: Sequence[Batched],
    size: ir.Value,
    starts: ir.Value | None = None,
    axis: int = 0,
    step: int = 1,
) -> Output:
    """Cut rows of each sample out of the rows of all.

    The rows are read by one Gather. Bounds count and are clamped as Slice has it: a negative one
    counts from the end, and a slice that ends before it starts is empty.

    Args:
        ctx: The context.
        value: All rows.
        bounds: Where each sample begins and ends, ``[1]``: shared or stacked.
        size: How many rows a sample has: an int64 scalar, or int64 ``[B]``.
        starts: The first row of each sample, int64 ``[B]``; None if it is row 0.
        axis: The axis of the rows.
        step: From one row to the next, not 0.
    """
    sizes, begins = _forwards(ctx, bounds, size) if step > 0 else _backwards(ctx, bounds, size)
    if starts is not None:
        begins = ctx.op("Add", [begins, starts])
    if abs(step) > 1:
        more = ctx.op("Add", [sizes, ctx.builder.scalar(abs(step) - 1)])
        sizes = ctx.op("Div", [more, ctx.builder.scalar(abs(step))])
    lengths = Lengths(ctx.builder, sizes)
    if step == 1:
        total = ctx.op("Squeeze", [lengths.total, ctx.ints(0)])
        places = ctx.op("Range", [ctx.builder.scalar(0), total, ctx.builder.scalar(1)])
        begins = ctx.op("Sub", [begins, lengths.starts])
    else:
        places = ctx.op("Mul", [lengths.positions, ctx.builder.scalar(step)])
    rows = ctx.op("Add", [places, spread(ctx, begins, lengths)])
    return ctx.packed(ctx.op("Gather", [value, rows], {"axis": axis}), lengths, axis)


def _forwards(
    ctx: Context, bounds: Sequence[Batched], size: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return how many rows lie between bounds, and the first of them."""
    zero = ctx.builder.scalar(0)
    first, last = (
        ctx.op("Min", [ctx.op("Max", [_from_front(ctx, x, size), zero]), size]) for x in bounds
    )
    return ctx.op("Max", [ctx.op("Sub", [last, first]), zero]), first


def _backwards(
    ctx: Context, bounds: Sequence[Batched], size: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return how many rows lie between bounds, the second one in front, and the last of them."""
    zero, one = ctx.builder.scalar(0), ctx.builder.scalar(1)
    begin, end = (_from_front(ctx, x, size) for x in bounds)
    first = ctx.op("Max", [ctx.op("Min", [begin, ctx.op("Sub", [size, one])]), zero])
    last = ctx.op("Max", [end, ctx.builder.scalar(-1)])
    between = ctx.op("Max", [ctx.op("Sub", [first, last]), zero])
    return ctx.op("Min", [between, size]), first


def _step_along_first_axis(ctx: Context, operands: Sequence[Operand], rank: int) -> int:
    axes, steps = ctx.optional(operands, 3), ctx.optional(operands, 4)
    known = None if axes is None else ctx.constant(axes)
    if axes is not None and (known is None or int(known.reshape(-1)[0]) % rank):
        raise Decline(Code.RAGGED, "it cuts an axis that is not the first")
    step = None if steps is None else ctx.constant(steps)
    if steps is not None and step is None:
        raise Decline(Code.NO_RULE, "its bounds differ by sample, and its step is not known")
    return 1 if step is None else int(step.reshape(-1)[0])


def _from_front(ctx: Context, bound: Batched, size: ir.Value) -> ir.Value:
    """Return a bound of each sample as counted from its first row, int64 ``[B]``."""
    number = bound.value
    known = ctx.constant(bound)
    if known is not None:
        number = ctx.builder.constant(np.clip(known.astype(np.int64), -_FAR, _FAR - 1))
    if bound.is_stacked:
        number = ctx.squeeze(number, [1])
    else:
        number = ctx.op("Expand", [number, ctx.batch])
    if known is None and bound.dtype != ir.DataType.INT64:
        number = ctx.op("Cast", [number], {"to": ir.DataType.INT64})
    wrapped = ctx.op("Add", [number, size])
    is_negative = ctx.op("Less", [number, ctx.builder.scalar(0)])
    return ctx.op("Where", [is_negative, wrapped, number])
