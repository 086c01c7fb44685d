"""ArgMax, ArgMin and Hardmax of packed samples.

Lengths ``[2, 3]`` of the values ``[4, 9, 7, 7, 1]``: the greatest are ``[9, 7]``. They stand at
``[1]`` in the first sample and at ``[0, 1]`` in the second; the first places are ``[1, 0]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.packed.row_by_row import packed_data, same_rows, sample_axis
from passes.batching.packed.segments import (
    FLOATS,
    SUMMED,
    known_dtype,
    lengths_moved_back,
    segment,
    with_lengths_in_front,
)
from passes.batching.packed.spread_rows import spread
from passes.batching.packed.widened import widened

__all__ = ["best_rows", "hardmax_over_rows"]

_NO_PLACE = 1 << 30
"""A place that no row has. OpenVINO computes integers in 32 bits, and some of them as floats."""


def best_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """ArgMax and ArgMin: along the axis of different lengths, the first (or last) best row.

    NaN counts as best, as in the reference evaluator, so that samples of NaN have a best row.
    """
    given, lengths = packed_data(ctx, operands)
    axis = sample_axis(int(ctx.attribute(node, "axis", 0)), given.rank)
    kept = ctx.attribute(node, "keepdims", 1)
    if axis != given.axis:
        left = given.axis - (0 if kept else axis < given.axis)
        return same_rows(ctx, node, [given.value], lengths, {"axis": axis}, left)
    data = widened(ctx, with_lengths_in_front(ctx, given))
    dtype = known_dtype(data, SUMMED)
    kind = node.op_type.removeprefix("Arg").lower()
    best = spread(ctx, segment(ctx, data.value, lengths, kind, dtype, data.dims), lengths)
    last = bool(ctx.attribute(node, "select_last_index", 0))
    column = ctx.unsqueeze(lengths.positions, range(1, data.rank))
    none = np.array(-_NO_PLACE if last else _NO_PLACE, np.int64)
    miss = ctx.builder.constant(none)
    is_best = ctx.op("Equal", [data.value, best])
    if dtype in FLOATS:
        is_best = ctx.op("Or", [is_best, ctx.op("IsNaN", [data.value])])
    places = ctx.op("Where", [is_best, column, miss])
    kind, dtype = ("max" if last else "min"), ir.DataType.INT64
    found = segment(ctx, places, lengths, kind, dtype, data.dims, none)
    return [ctx.stacked(ctx.unsqueeze(found, [axis + 1]) if kept else found)]


def hardmax_over_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """Hardmax along the axis of different lengths: one in the first best row, else zero."""
    given, lengths = packed_data(ctx, operands)
    data = with_lengths_in_front(ctx, given)
    assert data.dtype is not None
    first = ir.node("ArgMax", [], {"axis": 0, "keepdims": 0})
    (best,) = best_rows(ctx, first, [data])
    column = ctx.unsqueeze(lengths.positions, range(1, data.rank))
    is_best = ctx.op("Equal", [column, spread(ctx, best.value, lengths)])
    value = ctx.op("Cast", [is_best], {"to": int(data.dtype)})
    return [ctx.packed(lengths_moved_back(ctx, value, given), lengths, given.axis)]
