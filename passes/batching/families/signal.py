"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import unmerge_outputs
from passes.batching.families.shapes import shaping

__all__ = ["dft", "stft"]


def dft(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """DFT along one axis: an attribute, 1 by default, or from opset 20 on a shared input.

    The default of the input, -2, is the same axis of the stack.
    """
    data, axis = ctx.operand(operands, 0, "input"), ctx.optional(operands, 2)
    length = shaping(ctx.optional(operands, 1), "dft_length")
    ctx.require_shared(axis, "axis")
    if ctx.opset < 20:
        moved = ctx.axis_attribute(node, data.rank, 1)
        return ctx.same(node, [data.value, length], {"axis": moved})
    if axis is None:
        return ctx.same(node, [data.value, length])
    return ctx.same(node, [data.value, length, ctx.moved_axes(axis, data.rank)])


def stft(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """STFT of signals ``[N, length]`` or ``[N, length, 1 or 2]``; step and window are shared."""
    step = shaping(ctx.operand(operands, 1, "frame_step"), "frame_step")
    window = ctx.require_shared(ctx.optional(operands, 2), "window")
    length = shaping(ctx.optional(operands, 3), "frame_length")
    signal = ctx.operand(operands, 0, "signal").value
    new = ctx.same(node, [ctx.merged(signal), step, window, length])
    return unmerge_outputs(ctx, new, signal)
