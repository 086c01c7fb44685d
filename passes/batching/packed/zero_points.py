"""MatMulInteger of packed rows, each sample with a zero point of its own.

``(a - z) @ w`` is ``a @ w - z * (the sums of w's columns)``, in int32 to the bit. That is what
onnxruntime's dynamic quantization makes of every product: DynamicQuantizeLinear, MatMulInteger.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.packed.spread_rows import spread

__all__ = ["product_beside_zero_points"]


def product_beside_zero_points(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Output | None:
    """Return the product of rows by a shared matrix; None where it is none with zero points."""
    a, b = ctx.operand(operands, 0, "A"), ctx.operand(operands, 1, "B")
    zero, other = ctx.optional(operands, 2), ctx.optional(operands, 3)
    lengths = a.lengths
    if node.op_type != "MatMulInteger" or lengths is None or a.axis >= a.rank - 1:
        return None
    if zero is None or not zero.is_stacked or zero.rank:
        return None
    if not b.is_shared or b.rank != 2 or not (other is None or other.is_shared):
        return None
    (plain,) = ctx.same(node, [a.value, b.value, None, None if other is None else other.value])
    weights = _as_int32(ctx, b.value)
    if other is not None:
        weights = ctx.op("Sub", [weights, _as_int32(ctx, other.value)])
    sums = ctx.squeeze(ctx.reduce("ReduceSum", weights, [0]), [0])
    points = spread(ctx, _as_int32(ctx, zero.value), lengths)
    points = ctx.unsqueeze(points, range(1, a.rank - a.axis))
    value = ctx.op("Sub", [plain.value, ctx.op("Mul", [points, sums])])
    return ctx.packed(value, lengths, a.axis)


def _as_int32(ctx: Context, value: ir.Value) -> ir.Value:
    return ctx.op("Cast", [value], {"to": ir.DataType.INT32})
