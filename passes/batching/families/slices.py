"""Operators that cut, pad, mask and reorder along axes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import with_spare_sample, without_spare_sample
from passes.batching.families.shapes import sample_dims, shaping
from passes.batching.layouts import Batched
from passes.batching.packed.slicing.spans import span
from passes.decisions import Code, Decline
from passes.graph.picking import pick

__all__ = [
    "blocks",
    "center_crop_pad",
    "col2im",
    "pad",
    "reverse_sequence",
    "slice_",
    "trilu",
]


def slice_(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The axes move up by one; where none are given, they are the first ones of a sample."""
    data = ctx.operand(operands, 0, "data")
    if ctx.opset < 10:
        starts = ctx.attribute(node, "starts")
        axes = ctx.attribute(node, "axes", range(len(starts)))
        shifted = [ctx.axis(axis, data.rank) for axis in axes]
        return ctx.same(node, [data.value], {"axes": shifted})
    begins, steps = ctx.operand(operands, 1, "starts"), ctx.optional(operands, 4)
    if not begins.is_shared or not ctx.operand(operands, 2, "ends").is_shared:
        return span(ctx, node, operands)
    bounds = [shaping(begins, "starts"), shaping(ctx.operand(operands, 2, "ends"), "ends")]
    given = ctx.optional(operands, 3)
    ctx.require_shared(given, "axes")
    if given is not None:
        along = ctx.moved_axes(given, data.rank)
    else:
        known = ctx.constant(begins)
        count = begins.dims[0] if known is None else known.size
        if not isinstance(count, int):
            raise Decline(Code.UNKNOWN_SHAPE, "nothing tells how many axes it cuts")
        dtype = begins.element_type.numpy()
        along = ctx.builder.constant(np.arange(1, count + 1, dtype=dtype))
    inputs = [data.value, *bounds, along]
    if steps is not None:
        inputs.append(shaping(steps, "steps"))
    return ctx.same(node, inputs)


def pad(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """No padding along the batch axis.

    A fill value per sample: samples are padded with 0 and so is a mask of one sample, and the
    value stands where the mask says so.
    """
    data = ctx.operand(operands, 0, "data")
    if ctx.opset < 11:
        pads = ctx.attribute(node, "pads")
        return ctx.same(node, [data.value], {"pads": list(_with_batch_axis(pads, data.rank))})
    fill, axes = ctx.optional(operands, 2), ctx.optional(operands, 3)
    amounts = shaping(ctx.operand(operands, 1, "pads"), "pads")
    ctx.require_shared(axes, "axes")
    if ctx.attribute(node, "mode", "constant") != "constant":
        fill = None
    if ctx.attribute(node, "mode") == "wrap":
        return _wrapped(ctx, node, data, operands)
    if fill is None or fill.is_shared:
        return ctx.same(node, _pad_inputs(ctx, data, operands, fill))
    padded = data.value
    if data.is_stacked:
        (new,) = ctx.same(node, _pad_inputs(ctx, data, operands, None))
        padded = new.value
    else:
        padded = ctx.op("Pad", [data.value, *_own(amounts, axes)])
    one = ir.tensor(np.ones(1, np.float32))
    ones = ctx.op("ConstantOfShape", [sample_dims(ctx, data)], {"value": one})
    inside = ctx.op(
        "Cast", [ctx.op("Pad", [ones, *_own(amounts, axes)])], {"to": ir.DataType.BOOL}
    )
    value = _scalars(ctx, fill, data.rank)
    return [ctx.stacked(pick(ctx.builder, inside, padded, value, data.dtype))]


def _wrapped(
    ctx: Context, node: ir.Node, data: Batched, operands: Sequence[Operand]
) -> Sequence[Output]:
    """Pad by wrapping; onnxruntime refuses to where there is nothing."""
    whole = dataclasses.replace(data, value=with_spare_sample(ctx, data))
    (new,) = ctx.same(node, _pad_inputs(ctx, whole, operands, None))
    return [ctx.stacked(without_spare_sample(ctx, new.value))]


def _own(pads: ir.Value | None, axes: Operand) -> list[ir.Value | None]:
    """Return the inputs of a Pad of one sample, behind the data."""
    return [pads] if axes is None else [pads, None, axes.value]


def _scalars(ctx: Context, x: Batched, rank: int) -> ir.Value:
    """Return one value per sample, ``[B]`` or ``[B, 1]``, as ``[B, 1, ..., 1]``."""
    target = ctx.op("Concat", [ctx.batch, ctx.ints(*[1] * rank)], {"axis": 0})
    return ctx.reshape(x.value, target)


def _with_batch_axis(pads: Sequence[int], rank: int) -> list[int]:
    return [0, *(int(n) for n in pads[:rank]), 0, *(int(n) for n in pads[rank:])]


def _pad_inputs(
    ctx: Context, data: Batched, operands: Sequence[Operand], fill: Operand
) -> list[ir.Value | None]:
    """Return the inputs of a Pad of the stack."""
    pads, axes = ctx.operand(operands, 1, "pads"), ctx.optional(operands, 3)
    value = None if fill is None else fill.value
    known = ctx.constant(pads)
    if axes is not None:
        known = _along_all(ctx, known, ctx.constant(axes), data.rank)
        if known is None:
            return [data.value, pads.value, value, ctx.moved_axes(axes, data.rank)]
    if known is not None:
        amounts = ctx.ints(*_with_batch_axis(known.tolist(), data.rank))
    else:
        middle = ctx.ints(data.rank)
        begins = ctx.op("Slice", [pads.value, ctx.ints(0), middle])
        ends = ctx.op("Slice", [pads.value, middle, ctx.ints(2 * data.rank)])
        none = ctx.ints(0)
        amounts = ctx.op("Concat", [none, begins, none, ends], {"axis": 0})
    return [data.value, amounts] if value is None else [data.value, amounts, value]


def _along_all(
    ctx: Context, pads: np.ndarray | None, axes: np.ndarray | None, rank: int
) -> np.ndarray | None:
    """Return the amounts for all axes of those for some, None if they are not known."""
    if pads is None or axes is None:
        return None
    amounts = np.zeros((2, rank), np.int64)
    places = [ctx.axis(int(axis), rank) - 1 for axis in axes.reshape(-1)]
    amounts[:, places] = pads.reshape(2, -1)
    return amounts.reshape(-1)


def center_crop_pad(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The axes, by default all of a sample, move up by one."""
    data = ctx.operand(operands, 0, "input_data")
    target = shaping(ctx.operand(operands, 1, "shape"), "shape")
    axes = ctx.attribute(node, "axes", range(data.rank))
    shifted = [ctx.axis(axis, data.rank) for axis in axes]
    return ctx.same(node, [data.value, target], {"axes": shifted})


def trilu(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Leading axes are allowed. A diagonal per sample is a mask ``[B, 1, ..., rows, columns]``."""
    data, diagonal = ctx.operand(operands, 0, "input"), ctx.optional(operands, 1)
    if diagonal is None or diagonal.is_shared:
        given = [data.value] if diagonal is None else [data.value, diagonal.value]
        return ctx.same(node, given)
    dims = sample_dims(ctx, data)
    rows, columns = (_count_to(ctx, dims, axis) for axis in (data.rank - 2, data.rank - 1))
    offsets = ctx.op("Sub", [columns, ctx.unsqueeze(rows, [1])])
    upper = ctx.attribute(node, "upper", 1)
    compare = "GreaterOrEqual" if upper else "LessOrEqual"
    kept = ctx.op(compare, [offsets, _scalars(ctx, diagonal, data.rank)])
    zero = ctx.builder.constant(np.zeros((), data.element_type.numpy()))
    return [ctx.stacked(pick(ctx.builder, kept, data.value, zero, data.dtype))]


def _count_to(ctx: Context, dims: ir.Value, axis: int) -> ir.Value:
    """Return ``0, 1, ..., dims[axis] - 1``."""
    return ctx.arange(ctx.op("Gather", [dims, ctx.builder.scalar(axis)], {"axis": 0}))


def reverse_sequence(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The batch axis of the operator absorbs the samples; it is brought in front first."""
    data, lengths = ctx.operand(operands, 0, "input"), ctx.operand(operands, 1, "sequence_lens")
    value = ctx.expanded(data)
    turned = ctx.attribute(node, "time_axis", 0) == 0
    dims = list(data.dims)
    order = [0, 2, 1, *range(3, data.rank + 1)]
    if turned:
        value = ctx.op("Transpose", [value], {"perm": order})
        dims[:2] = dims[1::-1]
    rows = ctx.merged(value, dims)
    counts = ctx.merged(ctx.expanded(lengths), dims[:1])
    (new,) = ctx.same(node, [rows, counts], {"batch_axis": 0, "time_axis": 1})
    result = ctx.unmerged(new.value, value, dims)
    if turned:
        result = ctx.op("Transpose", [result], {"perm": order})
    return [ctx.stacked(result)]


def blocks(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """DepthToSpace and SpaceToDepth: the images of all samples form one batch."""
    data = ctx.operand(operands, 0, "input")
    return _images(ctx, node, data, [])


def col2im(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Col2Im: the columns of all samples form one batch; both shapes are shared."""
    data = ctx.operand(operands, 0, "input")
    sizes = [
        shaping(ctx.operand(operands, i), name)
        for i, name in ((1, "image_shape"), (2, "block_shape"))
    ]
    return _images(ctx, node, data, sizes)


def _images(
    ctx: Context, node: ir.Node, data: Batched, others: Sequence[ir.Value | None]
) -> Sequence[Output]:
    (new,) = ctx.same(node, [ctx.merged(data.value, data.dims), *others])
    dims = ctx.type_of(node.outputs[0]).dims or ()
    return [ctx.stacked(ctx.unmerged(new.value, data.value, dims))]
