"""Attention and what stands beside it: the samples join the batch that the operators have."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import (
    merge,
    unmerge_outputs,
    with_spare_sample,
    without_spare_sample,
)
from passes.batching.layouts import Batched

__all__ = ["attention", "linear_attention", "rotary_embedding"]

_MASK = 3


def attention(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
    """Every operand but the mask has the axis ``N`` in front; onnxruntime refuses ``N`` = 0."""
    like = with_spare_sample(ctx, ctx.operand(operands, 0, "Q"))
    given: list[ir.Value | None] = [ctx.merged(like)]
    for index, operand in enumerate(operands[1:], start=1):
        if operand is None:
            given.append(None)
        elif index == _MASK:
            given.append(_mask(ctx, operand, like))
        else:
            given.append(ctx.merged(with_spare_sample(ctx, operand)))
    return _results(ctx, node, given, like)


def _results(
    ctx: Context, node: ir.Node, given: Sequence[ir.Value | None], like: ir.Value
) -> list[Output | None]:
    new = unmerge_outputs(ctx, [o for o in ctx.same(node, given) if o.value.name], like)
    cut = iter([ctx.stacked(without_spare_sample(ctx, out.value)) for out in new])
    return [None if old.name == "" else next(cut) for old in node.outputs]


def _mask(ctx: Context, mask: Batched, like: ir.Value) -> ir.Value:
    """Return a mask that broadcasts to ``[B * N, heads, queries, keys]``."""
    if mask.is_shared and (mask.rank < 4 or mask.dims[0] == 1):
        return mask.value
    value = with_spare_sample(ctx, mask)
    value = ctx.unsqueeze(value, range(1, 5 - mask.rank))
    rows = ctx.op("Concat", [ctx.shape(like, 0, 2), ctx.ints(1, 1, 1)], {"axis": 0})
    return ctx.merged(ctx.op("Expand", [value, rows]))


def linear_attention(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output | None]:
    """Every operand has the axis ``N`` in front."""
    like = with_spare_sample(ctx, ctx.operand(operands, 0, "query"))
    rest = [None if x is None else ctx.merged(with_spare_sample(ctx, x)) for x in operands[1:]]
    return _results(ctx, node, [ctx.merged(like), *rest], like)


def rotary_embedding(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Rows of the caches ``[M, D]`` are picked by position; ``[N, S, D]`` are picked rows.

    Caches that differ from sample to sample are picked from before the operator.
    """
    x = ctx.operand(operands, 0, "X")
    caches = [ctx.operand(operands, i, "cache") for i in (1, 2)]
    positions = ctx.optional(operands, 3)
    like = ctx.expanded(x)
    given: list[ir.Value | None] = [ctx.merged(like)]
    if positions is None:
        given.extend(merge(ctx, cache) for cache in caches)
    elif all(cache.is_shared for cache in caches):
        given.extend([*(cache.value for cache in caches), merge(ctx, positions)])
    else:
        given.extend(_picked(ctx, cache, positions) for cache in caches)
    return unmerge_outputs(ctx, ctx.same(node, given), like)


def _picked(ctx: Context, cache: Batched, positions: Batched) -> ir.Value:
    """Return ``cache[position]`` of every sample as ``[B * N, S, D]``."""
    places = ctx.unsqueeze(ctx.expanded(positions), [3])
    picked = ctx.op("GatherND", [ctx.expanded(cache), places], {"batch_dims": 1})
    return ctx.merged(picked)
