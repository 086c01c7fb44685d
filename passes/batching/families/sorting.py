"""TopK, by which exporters sort, of samples of one shape."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.batching.packed.padding import unpadded
from passes.batching.packed.row_by_row import sample_axis
from passes.numbers.number_order import is_nonnegative

__all__ = ["top_k"]


def top_k(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The K largest or smallest along one axis, the last by default.

    Where K differs from sample to sample, so do the lengths of what it leaves.
    """
    data, count = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "K")
    if not count.is_shared:
        return _of_own_numbers(ctx, node, data, count)
    axis = ctx.axis_attribute(node, data.rank, -1)
    return ctx.same(node, [data.value, count.value], {"axis": axis})


def _of_own_numbers(
    ctx: Context, node: ir.Node, data: Batched, count: Batched
) -> Sequence[Output]:
    """Return a number of rows of each of the samples of one shape: packed.

    Of 3 and 1 of 5 rows each, 3 are taken of all samples, and 4 of those 6 stay.
    """
    axis = sample_axis(int(ctx.attribute(node, "axis", -1)), data.rank)
    number, value = ctx.numbers.number(node.inputs[1]), ctx.expanded(data)
    order = [0, axis + 1, *(i for i in range(1, data.rank + 1) if i != axis + 1)]
    if axis:
        value = ctx.op("Transpose", [value], {"perm": order})
    sizes, flags = ctx.op("Reshape", [count.value, ctx.batch]), []
    if number is None or not is_nonnegative(number):
        flags.append(ctx.op("Less", [sizes, ctx.builder.scalar(0)]))
    made = Lengths(ctx.builder, failing_where(ctx, sizes, flags), size=number)
    most = made.width
    attributes = {"axis": 1, "sorted": 1, "largest": int(ctx.attribute(node, "largest", 1))}
    found = ctx.builder.node("TopK", [value, most], attributes, outputs=2).outputs
    back = [*range(1, axis + 1), 0, *range(axis + 1, data.rank)]
    rows_left = [unpadded(ctx, v, made, most) for v in found]
    if axis:
        rows_left = [ctx.op("Transpose", [v], {"perm": back}) for v in rows_left]
    return [ctx.packed(v, made, axis) for v in rows_left]
