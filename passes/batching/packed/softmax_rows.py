"""Softmax and LogSoftmax along the axis in which packed samples differ in length."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.packed.row_by_row import packed_data
from passes.batching.packed.segments import (
    FLOATS,
    known_dtype,
    lengths_moved_back,
    segment,
    with_lengths_in_front,
)
from passes.batching.packed.spread_rows import spread
from passes.batching.packed.widened import narrowed, widened

__all__ = ["softmax_over_rows"]


def softmax_over_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """Softmax and LogSoftmax along the axis of different lengths."""
    given, lengths = packed_data(ctx, operands)
    data = widened(ctx, with_lengths_in_front(ctx, given))
    dtype, _ = known_dtype(data, FLOATS), lengths.lines  # which tell the rows of samples too
    highest = spread(ctx, segment(ctx, data.value, lengths, "max", dtype, data.dims), lengths)
    moved = ctx.op("Sub", [data.value, highest])
    powers = ctx.op("Exp", [moved])
    total = spread(ctx, segment(ctx, powers, lengths, "add", dtype, data.dims), lengths)
    if node.op_type == "LogSoftmax":
        value = ctx.op("Sub", [moved, ctx.op("Log", [total])])
    else:
        value = ctx.op("Div", [powers, total])
    value = narrowed(ctx, value, given)
    return [ctx.packed(lengths_moved_back(ctx, value, given), lengths, given.axis)]
