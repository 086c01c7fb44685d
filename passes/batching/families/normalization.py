"""Operators that normalize along axes of a sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import merge, unmerge_outputs, volume
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline
from passes.graph.zero_sizes import LEAST_OPSET

__all__ = [
    "along_axis",
    "batch_normalization",
    "group_normalization",
    "instance_normalization",
    "mean_variance_normalization",
    "trailing_normalization",
]


def along_axis(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Softmax and its kin along one axis.

    Before opset 13 they flatten a sample to two axes in front of the given one, 1 by default; a
    stack flattened in front of the next axis has the same rows.
    """
    data = ctx.operand(operands, 0, "input")
    flattens = ctx.opset < 13 and node.op_type != "LpNormalization"
    axis = ctx.axis_attribute(node, data.rank, 1 if flattens else -1)
    return ctx.same(node, [data.value], {"axis": axis})


def trailing_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """LayerNormalization and RMSNormalization over the axes from one axis on, the last by default.

    Scale and bias align from the right. Where they differ from sample to sample, the operator
    runs with a scale of ones, and they are applied to its result.
    """
    data, scale = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "scale")
    bias = ctx.optional(operands, 2)
    axis = ctx.axis_attribute(node, data.rank, -1)
    if scale.is_shared and (bias is None or bias.is_shared):
        given = [data.value, scale.value, *([] if bias is None else [bias.value])]
        return ctx.same(node, given, {"axis": axis})
    first = axis if data.is_stacked else axis - 1
    ones = _filled(ctx, 1, scale, ctx.shape(data.value, first))
    new = ctx.same(node, [data.value, ones], {"axis": first})
    y = ctx.op("Mul", [new[0].value, ctx.padded_rank(scale, data.rank)])
    if bias is not None:
        y = ctx.op("Add", [y, ctx.padded_rank(bias, data.rank)])
    rest = new[1:] if data.is_stacked else [ctx.shared(out.value) for out in new[1:]]
    return [ctx.stacked(y), *rest]


def _filled(ctx: Context, number: float, like: Batched, shape: ir.Value) -> ir.Value:
    """Return a tensor of one number in the element type of an operand."""
    one = ctx.builder.constant(np.array(number, like.element_type.numpy()))
    return ctx.op("Expand", [one, shape])


def mean_variance_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """MeanVarianceNormalization over given axes, 0, 2 and 3 by default."""
    data = ctx.operand(operands, 0, "X")
    axes = [ctx.axis(n, data.rank) for n in ctx.attribute(node, "axes", (0, 2, 3))]
    return ctx.same(node, [data.value], {"axes": axes})


def batch_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """BatchNormalization.

    1. Inference with shared parameters: the images of all samples are one longer list.
    2. Training, where the images of a sample have statistics of their own, or parameters that
       differ: each channel of each sample is a channel of its own.
    """
    data, *parameters = (ctx.operand(operands, i) for i in range(5))
    trains = ctx.attribute(node, "training_mode", 0) or len(node.outputs) > 1
    if trains or not all(x.is_shared for x in parameters):
        return _channels_of_samples(ctx, node, data, parameters)
    return _images_of_samples(ctx, node, data, parameters)


def _images_of_samples(
    ctx: Context, node: ir.Node, data: Batched, parameters: Sequence[Batched]
) -> Sequence[Output]:
    new = ctx.same(node, [merge(ctx, data), *(x.value for x in parameters)])
    return unmerge_outputs(ctx, new, data.value)


def _channels_of_samples(
    ctx: Context, node: ir.Node, data: Batched, parameters: Sequence[Batched]
) -> Sequence[Output]:
    """Run the operator on ``[N, B * C, *s]``, its parameters being ``[B * C]``.

    A sample of rank 1 has one channel.
    """
    images, rank = ctx.expanded(data), max(data.rank, 2)
    if data.rank == 1:
        images = ctx.unsqueeze(images, [2])
    swap = {"perm": [1, 0, *range(2, rank + 1)]}
    by_image = ctx.op("Transpose", [images], swap)
    channels = volume(ctx, by_image, 1, 3)
    dims = [ctx.shape(by_image, 0, 1), channels, ctx.shape(by_image, 3)]
    folded = ctx.reshape(by_image, ctx.op("Concat", dims, {"axis": 0}))
    new = ctx.same(node, [folded, *(merge(ctx, x) for x in parameters)])
    y = ctx.reshape(new[0].value, ctx.op("Shape", [by_image]))
    y = ctx.op("Transpose", [y], swap)
    if data.rank == 1:
        y = ctx.squeeze(y, [2])
    like = ctx.expanded(parameters[0])
    return [ctx.stacked(y), *unmerge_outputs(ctx, new[1:], like)]


def instance_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """InstanceNormalization: every channel of every image is by itself.

    With parameters that differ from sample to sample, all channels of all samples are channels
    of one image: ``[1, B * N * C, *s]``.
    """
    data, *parameters = (ctx.operand(operands, i) for i in range(3))
    if all(x.is_shared for x in parameters):
        return _images_of_samples(ctx, node, data, parameters)
    if ctx.opset < LEAST_OPSET and ctx.may_be_empty:
        raise Decline(Code.OPSET, f"without samples it needs operators of opset {LEAST_OPSET}")
    images = ctx.expanded(data)
    channels = volume(ctx, images, 0, 3)
    dims = [ctx.ints(1), channels, ctx.shape(images, 3)]
    given = [ctx.reshape(images, ctx.op("Concat", dims, {"axis": 0}))]
    for x in parameters:
        of_image = ctx.unsqueeze(ctx.expanded(x), [1])
        of_images = ctx.op("Expand", [of_image, ctx.shape(images, 0, 3)])
        given.append(ctx.reshape(of_images, channels))
    (new,) = ctx.same(node, given)
    return [ctx.stacked(ctx.reshape(new.value, ctx.op("Shape", [images])))]


def group_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """GroupNormalization: a LayerNormalization of ``[..., groups, rest]``.

    Scale and bias have one number for each channel, before opset 21 one for each group. The
    operator itself fails on an empty batch in onnxruntime, which opens it as a function.
    """
    data = ctx.operand(operands, 0, "X")
    scale, bias = ctx.operand(operands, 1, "scale"), ctx.operand(operands, 2, "bias")
    x, lead = data.value, 2 if data.is_stacked else 1
    groups = ctx.ints(ctx.attribute(node, "num_groups"))
    rest = ctx.op("Div", [volume(ctx, x, lead), groups])
    dims = ctx.op("Concat", [ctx.shape(x, 0, lead), groups, rest], {"axis": 0})
    options = {name: node.attributes.get(name) for name in ("epsilon", "stash_type")}
    ones = _filled(ctx, 1, data, rest)
    y = ctx.op("LayerNormalization", [ctx.reshape(x, dims), ones], {"axis": -1, **options})
    if ctx.opset >= 21:
        per_channel = [ctx.shape(x, 0, lead + 1), volume(ctx, x, lead + 1)]
        y = ctx.reshape(y, ctx.op("Concat", per_channel, {"axis": 0}))
    y = ctx.op("Mul", [y, _of_parts(ctx, scale)])
    y = ctx.op("Add", [y, _of_parts(ctx, bias)])
    shape = ctx.op("Shape", [x]) if data.is_stacked else ctx.batched_shape(x)
    return [ctx.stacked(ctx.reshape(y, shape))]


def _of_parts(ctx: Context, parameter: Batched) -> ir.Value:
    """Return a parameter of ``C`` numbers so that it aligns with ``[N, C, rest]``."""
    return ctx.unsqueeze(parameter.value, [1, 3] if parameter.is_stacked else [1])
