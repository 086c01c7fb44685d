"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline

__all__ = [
    "causal_convolution",
    "convolution",
    "deformable_convolution",
    "quantized_convolution",
]


def _result_dims(
    ctx: Context, node: ir.Node, x: Batched, output: int = 0
) -> Sequence[int | str | None]:
    """Return the dimensions of an output of a sample as far as they help to unmerge it."""
    dims = ctx.type_of(node.outputs[output]).dims
    return dims or ((1,) if x.dims[0] == 1 else ())


def _on_merged(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], merge: Sequence[int]
) -> list[Output]:
    """Run the operator on the images of all samples.

    Args:
        ctx: The context.
        node: The node of the body.
        operands: Its operands; those that are not merged are shared.
        merge: Positions of the operands that have the axis of images.
    """
    first = ctx.operand(operands, 0)
    like = ctx.expanded(first)
    inputs: list[ir.Value | None] = []
    for i, x in enumerate(operands):
        if x is None or i not in merge:
            inputs.append(None if x is None else x.value)
        else:
            inputs.append(ctx.merged(ctx.expanded(x) if i else like, x.dims))
    outputs = ctx.same(node, inputs)
    return [
        ctx.stacked(ctx.unmerged(out.value, like, _result_dims(ctx, node, first, i)))
        for i, out in enumerate(outputs)
    ]


def _plus_bias(ctx: Context, value: ir.Value, bias: Operand, rank: int) -> ir.Value:
    """Add ``[C]`` or ``[B, C]`` to samples ``[N, C, ...]`` of rank ``rank``."""
    if bias is None:
        return value
    axes = range(1, rank - 1) if bias.is_shared else [1, *range(3, rank + 1)]
    return ctx.op("Add", [value, ctx.unsqueeze(bias.value, axes)])


def _without(operands: Sequence[Operand], index: int) -> list[Operand]:
    return [None if i == index else x for i, x in enumerate(operands)]


def convolution(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Conv and ConvTranspose.

    1. X stacked: the images of all samples form one batch. A bias per sample is added after.
    2. W alone stacked: the filters of all samples are the channels of one convolution.
    """
    x, w = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "W")
    bias = ctx.optional(operands, 2)
    if w.is_shared and (bias is None or bias.is_shared):
        return _on_merged(ctx, node, operands, [0])
    if w.is_shared:
        (new,) = _on_merged(ctx, node, operands[:2], [0])
        return [ctx.stacked(_plus_bias(ctx, new.value, bias, x.rank))]
    if x.is_stacked:
        raise Decline(Code.BATCHED_OPERAND, "its filters and its images differ by sample")
    return [ctx.stacked(_plus_bias(ctx, _by_filters(ctx, node, x, w), bias, x.rank))]


def _by_filters(ctx: Context, node: ir.Node, x: Batched, w: Batched) -> ir.Value:
    """Record a convolution of shared images with filters per sample.

    The channels of the result stand in groups; within each group they stand by sample.
    """
    groups = ctx.ints(ctx.attribute(node, "group", 1))
    tail = range(3, w.rank + 1)
    filters = w.value
    if node.op_type == "ConvTranspose":
        # [B, C, M / g, ...] to [C, B * M / g, ...]
        turned = ctx.op("Transpose", [filters], {"perm": [1, 0, 2, *tail]})
        count = ctx.op("Mul", [ctx.batch, ctx.shape(turned, 2, 3)])
        flat = ctx.op(
            "Concat", [ctx.shape(turned, 0, 1), count, ctx.shape(turned, 3)], {"axis": 0}
        )
        filters, per_group = ctx.reshape(turned, flat), ctx.shape(turned, 2, 3)
    else:
        # [B, g * M / g, ...] to [g, B, M / g, ...] to [g * B * M / g, ...]
        per_group = ctx.op("Div", [ctx.shape(filters, 1, 2), groups])
        cut = ctx.op("Concat", [ctx.batch, groups, per_group, ctx.shape(filters, 2)], {"axis": 0})
        grouped = ctx.reshape(filters, cut)
        turned = ctx.op("Transpose", [grouped], {"perm": [1, 0, *range(2, w.rank + 2)]})
        count = ctx.op("Mul", [ctx.batch, ctx.shape(filters, 1, 2)])
        filters = ctx.reshape(
            turned, ctx.op("Concat", [count, ctx.shape(filters, 2)], {"axis": 0})
        )
    made = ctx.op(node.op_type, [x.value, filters], dict(node.attributes))
    # [N, g * B * M / g, ...] to [N, g, B, M / g, ...] to [B, N, g, M / g, ...] to [B, N, M, ...]
    parts = [ctx.shape(made, 0, 1), groups, ctx.batch, per_group, ctx.shape(made, 2)]
    cut = ctx.reshape(made, ctx.op("Concat", parts, {"axis": 0}))
    order = [2, 0, 1, 3, *range(4, x.rank + 2)]
    turned = ctx.op("Transpose", [cut], {"perm": order})
    channels = ctx.op("Mul", [groups, per_group])
    target = [ctx.batch, ctx.shape(made, 0, 1), channels, ctx.shape(made, 2)]
    return ctx.reshape(turned, ctx.op("Concat", target, {"axis": 0}))


def quantized_convolution(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """ConvInteger and QLinearConv: the images of all samples form one batch.

    A zero point of ConvInteger's images may differ by sample, as DynamicQuantizeLinear gives it.
    """
    zero = ctx.optional(operands, 2) if node.op_type == "ConvInteger" else None
    if zero is not None and zero.is_stacked:
        return [_around_zeros(ctx, node, _without(operands, 2), zero)]
    for x in operands[1:]:
        ctx.require_shared(x, "filters, scale, zero point or bias")
    return _on_merged(ctx, node, operands, [0])


def _around_zeros(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], zero: Batched
) -> Batched:
    """Record ConvInteger of images less the zero point of each sample.

    It is linear: what the images give less the zero point times what images of ones give, both
    with zeros around them, exact in int32.
    """
    x = ctx.operand(operands, 0, "x")
    for other in operands[1:]:
        ctx.require_shared(other, "filters or zero point")
    filters = [None if other is None else other.value for other in operands[1:]]
    if x.is_stacked:
        raw = _on_merged(ctx, node, operands, [0])[0]
    else:
        raw = ctx.same(node, [x.value, *filters])[0]
    image = ctx.shape(x.value, 1 + x.is_stacked)
    one = ir.tensor(np.ones(1, x.element_type.numpy()))
    shape = ctx.op("Concat", [ctx.ints(1), image], {"axis": 0})
    ones = ctx.op("ConstantOfShape", [shape], {"value": one})
    of_ones = ctx.same(node, [ones, *filters])[0].value
    wide = ctx.op("Cast", [ctx.padded_rank(zero, x.rank)], {"to": ir.DataType.INT32})
    return ctx.stacked(ctx.op("Sub", [raw.value, ctx.op("Mul", [wide, of_ones])]))


def deformable_convolution(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """DeformConv: images, offsets and masks of all samples; a bias per sample is added after."""
    x, bias = ctx.operand(operands, 0, "X"), ctx.optional(operands, 3)
    ctx.require_shared(ctx.operand(operands, 1, "W"), "W")
    if bias is None or bias.is_shared:
        return _on_merged(ctx, node, operands, [0, 2, 4])
    (new,) = _on_merged(ctx, node, _without(operands, 3), [0, 2, 4])
    return [ctx.stacked(_plus_bias(ctx, new.value, bias, x.rank))]


def causal_convolution(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """CausalConvWithState: inputs and states of all samples form one batch."""
    ctx.require_shared(ctx.operand(operands, 1, "weight"), "weight")
    ctx.require_shared(ctx.optional(operands, 2), "bias")
    return _on_merged(ctx, node, operands, [0, 3])
