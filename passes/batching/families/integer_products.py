"""Products of integer matrices with zero points and scales."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.linear import multiplied, plain_product
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline

__all__ = ["matmul_integer", "qlinear_matmul"]


def _is_scalar(x: Operand) -> bool:
    """Whether an operand is one shared number."""
    return x is None or (x.is_shared and x.dims in ((), (1,)))


def _is_row(x: Operand, matrix: Batched) -> bool:
    """Whether an operand is a shared number, or one for each column of a shared matrix."""
    return _is_scalar(x) or (
        x is not None and x.is_shared and matrix.is_shared and matrix.rank == 2
    )


def _over_rows(ctx: Context, x: Batched, rank: int) -> ir.Value:
    """Align what belongs to rows, ``[]``, ``[1]``, ``[M]`` or ``[..., M, 1]``, with a matrix."""
    if x.rank != 1 or x.dims == (1,):
        return ctx.padded_rank(x, rank)
    value = ctx.unsqueeze(x.value, [2 if x.is_stacked else 1])
    return ctx.unsqueeze(value, range(1, rank - 1)) if x.is_stacked else value


def _difference(ctx: Context, x: Batched, zero: Operand, *, rows: bool) -> Batched:
    """Return ``x - zero`` as int32."""
    value = ctx.op("Cast", [x.value], {"to": ir.DataType.INT32})
    layout = x.layout
    if zero is not None:
        wide = ctx.op(
            "Cast",
            [_over_rows(ctx, zero, x.rank) if rows else ctx.padded_rank(zero, x.rank)],
            {"to": ir.DataType.INT32},
        )
        value = ctx.op("Sub", [value, wide])
        layout = layout if zero.is_shared else zero.layout
    return Batched(layout, value, x.type)


def _integer_product(
    ctx: Context, a: Batched, b: Batched, a_zero: Operand, b_zero: Operand
) -> ir.Value:
    """Record ``(a - a_zero) @ (b - b_zero)`` in int32, for zero points of every form."""
    left = _difference(ctx, a, a_zero, rows=a.rank > 1)
    right = _difference(ctx, b, b_zero, rows=False)
    return multiplied(ctx, left, right, plain_product(ctx))


def matmul_integer(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The operator itself where its zero points allow it, else int32 arithmetic, as exact."""
    a, b = ctx.operand(operands, 0, "A"), ctx.operand(operands, 1, "B")
    a_zero, b_zero = ctx.optional(operands, 2), ctx.optional(operands, 3)
    if not (_is_scalar(a_zero) and _is_row(b_zero, b) and (a.is_stacked or b.is_stacked)):
        return [ctx.stacked(_integer_product(ctx, a, b, a_zero, b_zero))]
    zeros = [None if x is None else x.value for x in operands[2:]]

    def product(left: ir.Value, right: ir.Value) -> ir.Value:
        return ctx.same(node, [left, right, *zeros])[0].value

    return [ctx.stacked(multiplied(ctx, a, b, product))]


def qlinear_matmul(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Multiply by the operator itself, or by the arithmetic that it stands for.

    The operator serves where scales and zero points are shared numbers, or rows of a shared
    matrix. The arithmetic is an int32 product, scaled, rounded, saturated.
    """
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (
        ctx.operand(operands, i) for i in range(8)
    )
    plain = all(_is_scalar(x) for x in (a_scale, a_zero, y_scale, y_zero))
    if plain and _is_row(b_scale, b) and _is_row(b_zero, b) and (a.is_stacked or b.is_stacked):

        def product(left: ir.Value, right: ir.Value) -> ir.Value:
            inputs = [None if x is None else x.value for x in operands]
            inputs[0], inputs[3] = left, right
            return ctx.same(node, inputs)[0].value

        return [ctx.stacked(multiplied(ctx, a, b, product))]
    if y_zero.dtype not in (ir.DataType.INT8, ir.DataType.UINT8) or min(a.rank, b.rank) < 2:
        raise Decline(Code.BATCHED_OPERAND, "its scales or zero points are not shared numbers")
    if y_scale.rank > 1 or y_zero.rank > 1:
        raise Decline(Code.NO_RULE, "the scale of its result is no number")
    rank = max(a.rank, b.rank)
    exact = _integer_product(ctx, a, b, a_zero, b_zero)
    both = ctx.op("Mul", [_over_rows(ctx, a_scale, rank), ctx.padded_rank(b_scale, rank)])
    factor = ctx.op("Div", [both, _over_rows(ctx, y_scale, rank)])
    floats = ctx.op("CastLike", [exact, factor])
    zero = ctx.op("CastLike", [_over_rows(ctx, y_zero, rank), factor])
    moved = ctx.op("Add", [ctx.op("Round", [ctx.op("Mul", [floats, factor])]), zero])
    limits = np.iinfo(y_zero.dtype.numpy())
    low, high = (
        ctx.op("CastLike", [ctx.builder.constant(np.array(n, np.float32)), factor])
        for n in (limits.min, limits.max)
    )
    held = ctx.op("Clip", [moved, low, high])
    return [ctx.stacked(ctx.op("Cast", [held], {"to": y_zero.dtype}))]
