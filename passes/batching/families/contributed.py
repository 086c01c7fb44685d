"""Operators that onnxruntime contributes, as its optimizers write them.

Source: onnxruntime's documentation of its contributed operators.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.linear import multiplied
from passes.batching.packed.row_by_row import crosses
from passes.batching.packed.rows_as_samples import ANY, rows_as_samples
from passes.decisions import Code, Decline
from passes.graph.graphs import is_used

__all__ = ["fused_matmul", "fused_rows", "per_channel", "skipped_normalization"]

_BATCHES = ("transBatchA", "transBatchB")


def per_channel(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """FastGelu and BiasGelu: each element by itself, with a shared bias along the last axis."""
    ctx.require_shared(ctx.optional(operands, 1), "bias")
    return ctx.same(node, [None if x is None else x.value for x in operands])


def fused_matmul(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """FusedMatMul: MatMul of matrices that may be turned, times a number."""
    a, b = ctx.operand(operands, 0, "A"), ctx.operand(operands, 1, "B")
    turned = zip((a, b), ("transA", "transB"), strict=True)
    if any(ctx.attribute(node, name, 0) for name in _BATCHES):
        raise Decline(Code.NO_RULE, "it turns the axes in front of its matrices")
    if any(x.rank < 2 and ctx.attribute(node, name, 0) for x, name in turned):
        raise Decline(Code.NO_RULE, "it turns a vector")

    def product(left: ir.Value, right: ir.Value) -> ir.Value:
        return ctx.same(node, [left, right])[0].value

    return [ctx.stacked(multiplied(ctx, a, b, product))]


def fused_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output | None]:
    """FusedMatMul of packed rows and a matrix that is none of them."""
    a, b = ctx.operand(operands, 0, "A"), ctx.operand(operands, 1, "B")
    if not a.is_packed or b.is_packed or a.rank < 2 or ctx.attribute(node, "transA", 0):
        raise crosses(node.op_type)
    return rows_as_samples(fused_matmul, {1: ANY})(ctx, node, operands)


def skipped_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output | None]:
    """SkipLayerNormalization and its simplified form: the rows of both inputs are one batch."""
    x, skip = ctx.operand(operands, 0, "input"), ctx.operand(operands, 1, "skip")
    for other in operands[2:]:
        ctx.require_shared(other, "gamma, beta or bias")
    if any(is_used(out) for out in node.outputs[1:3]):
        raise Decline(Code.NO_RULE, "its mean and its deviation have no rule")
    if x.rank != skip.rank:
        raise Decline(Code.NO_RULE, "what it adds is repeated for each input")
    both = [ctx.expanded(x), ctx.expanded(skip)]
    like, merges = both[0], x.rank > 2
    if merges:
        both = [ctx.merged(value) for value in both]
    new = ctx.same(node, [*both, *(None if y is None else y.value for y in operands[2:])])
    if merges:
        new = [ctx.stacked(ctx.unmerged(out.value, like)) for out in new]
    return [out if is_used(y) else None for out, y in zip(new, node.outputs, strict=True)]
