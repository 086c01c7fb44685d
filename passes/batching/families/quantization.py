"""Operators that quantize floats and take quantized numbers back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import merge
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline

__all__ = ["dynamic_quantization", "quantization", "scale_and_point"]


def quantization(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """QuantizeLinear and DequantizeLinear.

    1. Per tensor, shared scale and zero point: the operator itself.
    2. Per axis, both shared: the axis moves behind the batch axis.
    3. Per block: scale and zero point have the axes of the data, so all gain the batch axis.
    4. Per tensor or per axis where they differ from sample to sample: the data is seen with one
       axis that runs over the samples, or over all channels of all samples.
    """
    data, scale = ctx.operand(operands, 0, "x"), ctx.operand(operands, 1, "scale")
    zero = ctx.optional(operands, 2)
    given = [scale, *([] if zero is None else [zero])]
    if ctx.attribute(node, "block_size", 0):
        axis = ctx.axis_attribute(node, data.rank, 1)
        return ctx.same(node, [ctx.expanded(x) for x in (data, *given)], {"axis": axis})
    per_axis = scale.rank == 1 and scale.dims[0] != 1
    if all(x.is_shared for x in given):
        axes = {"axis": ctx.axis_attribute(node, data.rank, 1)} if per_axis else {}
        return ctx.same(node, [data.value, *(x.value for x in given)], axes)
    if ctx.opset < 13:
        raise Decline(Code.OPSET, "a scale of its own for every sample needs opset 13")
    if per_axis:
        return _per_channel(ctx, node, data, given)
    rows = [ctx.squeeze(ctx.expanded(x), [1] if x.rank else []) for x in given]
    return ctx.same(node, [ctx.expanded(data), *rows], {"axis": 0})


def _per_channel(
    ctx: Context, node: ir.Node, data: Batched, given: Sequence[Batched]
) -> Sequence[Output]:
    """Quantize ``[B * C, ...]`` along its first axis, the scale being ``[B * C]``."""
    axis = ctx.axis_attribute(node, data.rank, 1)
    swap = list(range(data.rank + 1))
    swap[1], swap[axis] = swap[axis], swap[1]
    moved = ctx.expanded(data)
    if axis != 1:
        moved = ctx.op("Transpose", [moved], {"perm": swap})
    (new,) = ctx.same(node, [ctx.merged(moved), *(merge(ctx, x) for x in given)], {"axis": 0})
    y = ctx.unmerged(new.value, moved)
    if axis != 1:
        y = ctx.op("Transpose", [y], {"perm": swap})
    return [ctx.stacked(y)]


def dynamic_quantization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """DynamicQuantizeLinear: each sample has a scale and a zero point of its own.

    A sample of zeros gets the scale 1, as in onnxruntime; by the specification's formula it
    would be 0, and nothing could be divided by it.
    """
    if ctx.opset < 13:
        raise Decline(Code.OPSET, "a scale of its own for every sample needs opset 13")
    data = ctx.operand(operands, 0, "x")
    low, high = (_extremum(ctx, f"Reduce{kind}", data) for kind in ("Min", "Max"))
    scale, point = scale_and_point(ctx, low, high)
    y = ctx.op("QuantizeLinear", [data.value, scale, point], {"axis": 0})
    return [ctx.stacked(y), ctx.stacked(scale), ctx.stacked(point)]


def scale_and_point(ctx: Context, low: ir.Value, high: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the scale and the zero point of samples by their extremes, ``[B]`` each."""
    zero, most, one = (ctx.builder.constant(np.array(n, np.float32)) for n in (0, 255, 1))
    low, high = ctx.op("Min", [low, zero]), ctx.op("Max", [high, zero])
    scale = ctx.op("Div", [ctx.op("Sub", [high, low]), most])
    scale = ctx.op("Where", [ctx.op("Equal", [high, low]), one, scale])
    offset = ctx.op("Sub", [zero, ctx.op("Div", [low, scale])])
    rounded = ctx.op("Round", [ctx.op("Clip", [offset, zero, most])])
    return scale, ctx.op("Cast", [rounded], {"to": int(ir.DataType.UINT8)})


def _extremum(ctx: Context, op_type: str, data: Batched) -> ir.Value:
    """Return the extremum of each sample, ``[B]``."""
    axes = range(1, data.rank + 1)
    return ctx.reduce(op_type, data.value, axes, keepdims=False) if axes else data.value
