"""Slices of one tensor whose bounds differ from sample to sample."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.segments import spread
from passes.decisions import Code, Decline

__all__ = ["span"]


def span(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Slice of shared data along its first axis, forwards: samples of different length.

    The rows of all samples are read by one Gather. Bounds count and are clamped as Slice has it:
    a negative one counts from the end, and a slice that ends before it starts is empty.
    """
    data = ctx.operand(operands, 0, "data")
    bounds = [ctx.operand(operands, i, name) for i, name in ((1, "starts"), (2, "ends"))]
    if not data.is_shared:
        raise Decline(Code.DATA_DEPENDENT, "its bounds differ from sample to sample")
    if any(x.rank != 1 or x.dims != (1,) for x in bounds):
        raise Decline(Code.DATA_DEPENDENT, "its bounds along several axes differ by sample")
    _require_first_axis(ctx, operands, data.rank)
    shape = ctx.op("Shape", [data.value])
    size = ctx.op("Gather", [shape, ctx.builder.scalar(0)], {"axis": 0})
    first, last = (_clamped(ctx, x, size) for x in bounds)
    sizes = ctx.op("Max", [ctx.op("Sub", [last, first]), ctx.builder.scalar(0)])
    lengths = Lengths(ctx.builder, sizes)
    total = ctx.op("Squeeze", [lengths.total, ctx.ints(0)])
    places = ctx.op("Range", [ctx.builder.scalar(0), total, ctx.builder.scalar(1)])
    offsets = spread(ctx, ctx.op("Sub", [first, lengths.starts]), lengths)
    rows = ctx.op("Add", [places, offsets])
    return [ctx.packed(ctx.op("Gather", [data.value, rows], {"axis": 0}), lengths)]


def _require_first_axis(ctx: Context, operands: Sequence[Operand], rank: int) -> None:
    axes, steps = ctx.optional(operands, 3), ctx.optional(operands, 4)
    known = None if axes is None else ctx.constant(axes)
    if axes is not None and (known is None or int(known.reshape(-1)[0]) % rank):
        raise Decline(Code.RAGGED, "it cuts an axis that is not the first")
    step = None if steps is None else ctx.constant(steps)
    if steps is not None and (step is None or int(step.reshape(-1)[0]) != 1):
        raise Decline(Code.NO_RULE, "its bounds differ by sample, and its step is not 1")


def _clamped(ctx: Context, bound: Batched, size: ir.Value) -> ir.Value:
    """Return a bound of each sample as a row of the data, int64 ``[B]``."""
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
    return ctx.op("Clip", [from_front, zero, size])
