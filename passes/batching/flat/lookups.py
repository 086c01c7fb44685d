"""Operators that look each element of flat samples up in what all samples share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat import beside
from passes.batching.flat.moves import has_fill, read_simply, rows_again
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline

__all__ = ["gather", "one_hot", "quantization"]


def gather(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Gather of flat samples, or of the rows of a shared table by flat indices."""
    table, indices = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "indices")
    if indices.flat is None or not table.is_shared or int(ctx.attribute(node, "axis", 0)):
        return beside.gather(ctx, node, operands)
    simple = read_simply(ctx, node, operands)
    if simple is not None:
        return simple
    found = _read(ctx, indices)
    flat = found.flat
    assert flat is not None
    (new,) = ctx.same(node, [table.value, found.value])
    rank = len(flat.order)
    order = (*flat.order, *range(rank, rank + table.rank - 1))
    return [ctx.flat(new.value, dataclasses.replace(flat, order=order))]


def one_hot(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """OneHot of flat indices: the new axis lies behind all others."""
    simple = read_simply(ctx, node, operands)
    if simple is not None:
        return simple
    x, depth, values = (ctx.operand(operands, i) for i in range(3))
    if x.flat is None or not (depth.is_shared and values.is_shared):
        raise Decline(Code.BATCHED_OPERAND, "its depth or values differ from sample to sample")
    x = _read(ctx, x)
    flat = x.flat
    assert flat is not None
    rank = len(flat.order)
    (new,) = ctx.same(node, [x.value, depth.value, values.value], {"axis": -1})
    axis = int(ctx.attribute(node, "axis", -1)) % (rank + 1)
    order = (*flat.order[:axis], rank, *flat.order[axis:])
    return [ctx.flat(new.value, dataclasses.replace(flat, order=order))]


def quantization(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """QuantizeLinear and DequantizeLinear by one scale, or by one for each channel."""
    scale = ctx.operand(operands, 1, "scale")
    if ctx.attribute(node, "block_size", 0):
        raise Decline(Code.NO_RULE, "its scale has the axes of the samples")
    if scale.rank == 1 and scale.dims[0] != 1:
        return [out for out in beside.along(1)(ctx, node, operands) if out is not None]
    simple = read_simply(ctx, node, operands)
    if simple is not None:
        return simple
    x = ctx.operand(operands, 0, "x")
    if x.flat is None or any(o is not None and not o.is_shared for o in operands[1:]):
        raise Decline(Code.BATCHED_OPERAND, "its scale differs from sample to sample")
    x = _read(ctx, x)
    assert x.flat is not None
    new = ctx.same(node, [x.value, *(None if o is None else o.value for o in operands[1:])])
    return [ctx.flat(out.value, x.flat) for out in new]


def _read(ctx: Context, x: Batched) -> Batched:
    """Return samples whose rows hold one element each."""
    flat: FlatSamples | None = x.flat
    assert flat is not None
    return rows_again(ctx, x) if flat.sampler is not None or has_fill(flat) else x
