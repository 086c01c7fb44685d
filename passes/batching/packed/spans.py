"""Slices of one tensor whose bounds differ from sample to sample."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.merging import sample_numbers
from passes.batching.packed.segments import spread
from passes.decisions import Code, Decline

__all__ = ["cut_forwards", "span"]


def span(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Slice of shared or stacked data along its first axis: samples of different length."""
    data = ctx.operand(operands, 0, "data")
    bounds = [ctx.operand(operands, i, name) for i, name in ((1, "starts"), (2, "ends"))]
    if any(x.rank != 1 or x.dims != (1,) for x in bounds):
        raise Decline(Code.DATA_DEPENDENT, "its bounds along several axes differ by sample")
    _require_first_axis(ctx, operands, data.rank)
    if data.is_stacked and data.dtype == ir.DataType.STRING and data.rank > 1:
        raise Decline(Code.NO_RULE, "onnxruntime's Gather breaks rows of strings")
    axis = 1 if data.is_stacked else 0
    shape = ctx.op("Shape", [data.value])
    size = ctx.op("Gather", [shape, ctx.builder.scalar(axis)], {"axis": 0})
    if data.is_shared:
        return [cut_forwards(ctx, data.value, bounds, size)]
    starts = sample_numbers(ctx, size, 0)
    return [cut_forwards(ctx, ctx.merged(data.value, data.dims), bounds, size, starts)]


def cut_forwards(
    ctx: Context,
    value: ir.Value,
    bounds: Sequence[Batched],
    size: ir.Value,
    starts: ir.Value | None = None,
    axis: int = 0,
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
    """
    first, last = (_clamped(ctx, x, size) for x in bounds)
    sizes = ctx.op("Max", [ctx.op("Sub", [last, first]), ctx.builder.scalar(0)])
    lengths = Lengths(ctx.builder, sizes)
    total = ctx.op("Squeeze", [lengths.total, ctx.ints(0)])
    places = ctx.op("Range", [ctx.builder.scalar(0), total, ctx.builder.scalar(1)])
    begins = first if starts is None else ctx.op("Add", [first, starts])
    offsets = spread(ctx, ctx.op("Sub", [begins, lengths.starts]), lengths)
    rows = ctx.op("Add", [places, offsets])
    return ctx.packed(ctx.op("Gather", [value, rows], {"axis": axis}), lengths, axis)


def _require_first_axis(ctx: Context, operands: Sequence[Operand], rank: int) -> None:
    axes, steps = ctx.optional(operands, 3), ctx.optional(operands, 4)
    known = None if axes is None else ctx.constant(axes)
    if axes is not None and (known is None or int(known.reshape(-1)[0]) % rank):
        raise Decline(Code.RAGGED, "it cuts an axis that is not the first")
    step = None if steps is None else ctx.constant(steps)
    if steps is not None and (step is None or int(step.reshape(-1)[0]) != 1):
        raise Decline(Code.NO_RULE, "its bounds differ by sample, and its step is not 1")


def _clamped(ctx: Context, bound: Batched, size: ir.Value) -> ir.Value:
    """Return a bound of each sample as one of its rows, int64 ``[B]``."""
    number = bound.value
    if bound.is_stacked:
        number = ctx.squeeze(number, [1])
    else:
        number = ctx.op("Expand", [number, ctx.batch])
    if bound.dtype != ir.DataType.INT64:
        number = ctx.op("Cast", [number], {"to": ir.DataType.INT64})
    zero = ctx.builder.scalar(0)
    wrapped = ctx.op("Add", [number, size])
    from_front = ctx.op("Where", [ctx.op("Less", [number, zero]), wrapped, number])
    return ctx.op("Min", [ctx.op("Max", [from_front, zero]), size])
