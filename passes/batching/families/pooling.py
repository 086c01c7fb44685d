"""Pooling over windows and over regions of interest."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import (
    merge,
    merging,
    sample_numbers,
    unmerge_outputs,
    volume,
)
from passes.batching.layouts import Batched
from passes.batching.places import places_in_all
from passes.decisions import Code, Decline

__all__ = ["max_pool", "max_roi_pool", "max_unpool", "roi_align"]


def max_pool(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
    """``Indices`` count from the first element of each sample's ``[N, C, ...]``."""
    x = ctx.operand(operands, 0, "X")
    pooled = merging(ctx, node, operands)
    if len(pooled) == 1 or node.outputs[1].name == "":
        return [pooled[0], *([None] * (len(pooled) - 1))]
    before = sample_numbers(ctx, volume(ctx, x.value, 1), x.rank)
    return [pooled[0], ctx.stacked(ctx.op("Sub", [pooled[1].value, before]))]


def max_unpool(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The indices of each sample are moved behind the elements of the samples before it."""
    x, indices = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "I")
    sizes = _unpooled_sizes(ctx, node, x, ctx.optional(operands, 2))
    like = ctx.expanded(x)
    size = volume(ctx, like, 1, 3)
    for length in sizes:
        size = ctx.op("Mul", [size, length])
    starts = sample_numbers(ctx, size, x.rank)
    every = ctx.op("Mul", [ctx.batch, size])
    moved = places_in_all(ctx, ctx.expanded(indices), starts, size, every, from_end=False)
    given: list[ir.Value | None] = [ctx.merged(like), ctx.merged(moved)]
    if ctx.optional(operands, 2) is not None:
        shape = ctx.op(
            "Concat", [volume(ctx, like, 0, 2), ctx.shape(like, 2, 3), *sizes], {"axis": 0}
        )
        given.append(shape)
    return unmerge_outputs(ctx, ctx.same(node, given), like)


def _unpooled_sizes(
    ctx: Context, node: ir.Node, x: Batched, output_shape: Operand
) -> list[ir.Value]:
    """Return the spatial sizes of one unpooled sample, each an int64 vector ``[1]``.

    Runtimes differ on what the indices count where ``output_shape`` is not the shape that
    follows from the kernel, so it must be that shape.
    """
    kernel = ctx.attribute(node, "kernel_shape")
    count = len(kernel)
    strides = ctx.attribute(node, "strides", [1] * count)
    pads = ctx.attribute(node, "pads", [0] * (2 * count))
    extras = [
        k - s - pads[i] - pads[i + count]
        for i, (k, s) in enumerate(zip(kernel, strides, strict=True))
    ]
    if output_shape is not None:
        wanted = ctx.constant(output_shape)
        dims = x.dims[2:]
        if wanted is None or not all(isinstance(d, int) for d in dims):
            raise Decline(Code.UNKNOWN_SHAPE, "output_shape is not known to follow from X")
        inferred = [
            int(d) * s + e for d, s, e in zip(dims, strides, extras, strict=True) if d is not None
        ]
        if inferred != wanted.tolist()[2:]:
            raise Decline(
                Code.NO_RULE, "runtimes differ on what indices count with this output_shape"
            )
    start = 3 if x.is_stacked else 2
    sizes = []
    for i, (stride, extra) in enumerate(zip(strides, extras, strict=True)):
        length = ctx.shape(x.value, start + i, start + i + 1)
        length = ctx.op("Mul", [length, ctx.ints(stride)])
        sizes.append(ctx.op("Add", [length, ctx.ints(extra)]))
    return sizes


def _images(ctx: Context, x: Batched, numbers: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return all images as one axis, and the numbers that those of a sample have among them.

    Args:
        ctx: The context.
        x: The images of each sample.
        numbers: Numbers of images of each sample, int64 ``[B, R]``.
    """
    if x.is_shared:
        return x.value, numbers
    size, images = ctx.shape(x.value, 1, 2), ctx.merged(x.value)
    starts, total = sample_numbers(ctx, size, 1), ctx.shape(images, 0, 1)
    return images, places_in_all(ctx, numbers, starts, size, total, from_end=False)


def roi_align(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """All regions of all samples at once; ``batch_indices`` count the images of all samples."""
    x, rois = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "rois")
    indices = ctx.operand(operands, 2, "batch_indices")
    images, numbers = _images(ctx, x, ctx.expanded(indices))
    new = ctx.same(node, [images, merge(ctx, rois), ctx.merged(numbers)])
    return unmerge_outputs(ctx, new, numbers)


def max_roi_pool(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """As `roi_align`; the number of the image stands in column 0 of ``rois``, as a float."""
    x, rois = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "rois")
    if rois.dtype == ir.DataType.FLOAT16 and x.is_stacked:
        raise Decline(Code.NO_RULE, "float16 cannot number the images of all samples")
    images, regions = x.value, ctx.expanded(rois)
    if x.is_stacked:
        axes, start, one = ctx.ints(2), ctx.ints(0), ctx.ints(1)
        column = ctx.op("Slice", [regions, start, one, axes])
        rest = ctx.op("Slice", [regions, one, ctx.ints(5), axes])
        own = ctx.op("Cast", [ctx.squeeze(column, [2])], {"to": ir.DataType.INT64})
        images, numbers = _images(ctx, x, own)
        number = ctx.op("CastLike", [ctx.unsqueeze(numbers, [2]), column])
        regions = ctx.op("Concat", [number, rest], {"axis": 2})
    new = ctx.same(node, [images, ctx.merged(regions)])
    return unmerge_outputs(ctx, new, regions)
