"""Operators that look each element of flat samples up in what all samples share.

A table of 5 rows that all samples share is read by the six and four numbers of images ``[2, 3]``
and ``[1, 4]`` in one Gather.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.quantization import scale_and_point
from passes.batching.flat.axis_reads import read_along
from passes.batching.flat.families import beside
from passes.batching.flat.families.reducing import reduced
from passes.batching.flat.moves import flat_alone, read_off, read_simply, rows_again
from passes.batching.layouts import Batched, present
from passes.batching.places import places_in_all
from passes.decisions import Code, Decline

__all__ = ["dynamic_quantization", "gather", "one_hot", "quantization"]


def gather(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Three mixes.

    1. Flat indices: each row looks up in its own sample's data, or in data that all share.
    2. Flat data along an axis along which samples differ: `read_along`.
    3. Flat data along another one, by shared indices.
    """
    simple = read_simply(ctx, node, operands)
    if simple is not None:
        return simple
    data, indices = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "indices")
    axis = int(ctx.attribute(node, "axis", 0)) % data.rank
    if data.flat is not None and data.flat.is_ragged(axis):
        return [read_along(ctx, data, indices, axis)]
    if indices.flat is None or data.flat is not None:
        return beside.gather(ctx, node, operands)
    if not indices.flat.is_plain:
        # What no sample reads may be no place at all.
        indices = rows_again(ctx, indices)
    return [_looked_up(ctx, data, indices, axis)]


def _looked_up(ctx: Context, data: Batched, indices: Batched, axis: int) -> Output:
    """Return what rows of indices mean along an axis of data that is not flat.

    The axis comes first, so that each row finds whole rows; those axes of the data that stood
    before it lie behind the axes of the indices.
    """
    flat = indices.own_flat
    if data.is_packed and axis != data.axis:
        raise Decline(Code.RAGGED, "it looks up what differs along another axis")
    others = [a for a in range(data.rank) if a != axis]
    shift, value = int(data.is_stacked), data.value
    if axis:
        perm = [*range(shift), *(a + shift for a in (axis, *others))]
        value = ctx.op("Transpose", [value], {"perm": perm})
    where = indices.value
    if not data.is_shared:
        value, where = _own_places(ctx, data, value, indices)
    rows = ctx.op("Gather", [value, where], {"axis": 0})
    rank = len(flat.order)
    behind = [rank + i for i in range(len(others))]
    order = (*behind[:axis], *flat.order, *behind[axis:])
    return ctx.flat(rows, dataclasses.replace(flat, order=order))


def _own_places(
    ctx: Context, data: Batched, value: ir.Value, indices: Batched
) -> tuple[ir.Value, ir.Value]:
    """Return the rows of all samples, and which of them rows of indices mean.

    Args:
        ctx: The context.
        data: What is read: stacked, or packed.
        value: The same with the axis that is read in front.
        indices: The indices.
    """
    flat = indices.own_flat
    samples = ctx.unsqueeze(flat.grid.rows.samples, range(1, len(flat.order) - flat.grid.rank + 1))
    where = ctx.op("Cast", [indices.value], {"to": int(ir.DataType.INT64)})
    if data.lengths is not None:
        starts, sizes = (
            ctx.op("Gather", [v, samples], {"axis": 0})
            for v in (data.lengths.starts, data.lengths.value)
        )
        return value, places_in_all(ctx, where, starts, sizes, data.lengths.total)
    size = ctx.shape(value, 1, 2)
    starts = ctx.op("Mul", [samples, size])
    table = ctx.merged(value)
    return table, places_in_all(ctx, where, starts, size, ctx.shape(table, 0, 1))


def one_hot(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """OneHot of flat indices: the new axis lies behind all others."""
    simple = read_simply(ctx, node, operands)
    if simple is not None:
        return simple
    x, depth, values = (ctx.operand(operands, i) for i in range(3))
    if x.flat is None or not (depth.is_shared and values.is_shared):
        raise Decline(Code.BATCHED_OPERAND, "its depth or values differ from sample to sample")
    x = read_off(ctx, x)
    flat = x.own_flat
    rank = len(flat.order)
    (new,) = ctx.same(node, [x.value, depth.value, values.value], {"axis": -1})
    axis = int(ctx.attribute(node, "axis", -1)) % (rank + 1)
    order = (*flat.order[:axis], rank, *flat.order[axis:])
    return [ctx.flat(new.value, dataclasses.replace(flat, order=order))]


def quantization(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """QuantizeLinear and DequantizeLinear by one scale, or one of each sample or channel."""
    scale = ctx.operand(operands, 1, "scale")
    if ctx.attribute(node, "block_size", 0):
        raise Decline(Code.NO_RULE, "its scale has the axes of the samples")
    if scale.rank == 1 and scale.dims[0] != 1:
        return [out for out in beside.along(1)(ctx, node, operands) if out is not None]
    simple = read_simply(ctx, node, operands)
    if simple is not None:
        return simple
    if any(x is not None and x.is_stacked for x in operands[1:]):
        return _by_own_scale(ctx, node, operands)
    x, _ = flat_alone(ctx, operands, "x")
    x = read_off(ctx, x)
    new = ctx.same(node, [x.value, *(None if o is None else o.value for o in operands[1:])])
    return [ctx.flat(out.value, x.own_flat) for out in new]


def _by_own_scale(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Quantize each row by the scale and zero point of its sample."""
    if ctx.opset < 13:
        raise Decline(Code.OPSET, "a scale of its own for every sample needs opset 13")
    x, given = ctx.operand(operands, 0, "x"), present(operands[1:])
    if x.flat is None or not all(one.has_an_axis for one in given):
        raise Decline(Code.BATCHED_OPERAND, "its scale differs along several axes")
    each = [ctx.squeeze(ctx.expanded(one), [1] if one.rank else []) for one in given]
    return [_quantized(ctx, node.op_type, x, each)]


def _quantized(ctx: Context, op_type: str, x: Batched, each: Sequence[ir.Value]) -> Output:
    """Quantize rows, or take them back, by numbers ``[B]`` of their samples."""
    x = rows_again(ctx, x)
    samples = x.own_flat.grid.rows.samples
    rows = [ctx.op("Gather", [one, samples], {"axis": 0}) for one in each]
    return ctx.flat(ctx.op(op_type, [x.value, *rows], {"axis": 0}), x.own_flat)


def dynamic_quantization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """DynamicQuantizeLinear: each sample has a scale and a zero point of its own."""
    x, _ = flat_alone(ctx, operands, "x")
    if ctx.opset < 13:
        raise Decline(Code.OPSET, "a scale of its own for every sample needs opset 13")
    extremes = [reduced(ctx, f"Reduce{kind}", x, [], keeps=False) for kind in ("Min", "Max")]
    scale, point = scale_and_point(ctx, *(one.value for one in extremes))
    quantized = _quantized(ctx, "QuantizeLinear", x, [scale, point])
    return [quantized, ctx.stacked(scale), ctx.stacked(point)]
