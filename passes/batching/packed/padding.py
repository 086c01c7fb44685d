"""Packed samples side by side, as operators with lengths of their own want them, and back."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.lengths import Lengths

__all__ = ["padded", "places_inside", "unpadded", "width_of"]


def width_of(ctx: Context, lengths: Lengths) -> ir.Value:
    """Return the length of the longest sample, at least 1, int64 ``[1]``."""
    return ctx.op("Max", [lengths.longest, ctx.ints(1)])


def places_inside(ctx: Context, lengths: Lengths, width: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the places ``[L]`` of a sample, and which of them samples have, ``bool[B, L]``."""
    zero, one = ctx.builder.scalar(0), ctx.builder.scalar(1)
    places = ctx.op("Range", [zero, ctx.squeeze(width, [0]), one])
    return places, ctx.op("Less", [places, ctx.unsqueeze(lengths.value, [1])])


def padded(
    ctx: Context,
    value: ir.Value,
    lengths: Lengths,
    width: ir.Value,
    fill: np.ndarray | None = None,
) -> ir.Value:
    """Lay samples side by side, ``[B, L, *rest]``, with rows of one number behind shorter ones.

    Args:
        ctx: The context.
        value: The rows of all samples, ``[T, *rest]``.
        lengths: The lengths of the samples.
        width: ``L``, int64 ``[1]``.
        fill: The number, of the element type of the rows; None is 0.
    """
    row = ctx.op("Concat", [ctx.ints(1), ctx.shape(value, 1)], {"axis": 0})
    if fill is None:
        spare = ctx.op("CastLike", [ctx.op("ConstantOfShape", [row]), value])
    else:
        spare = ctx.op("ConstantOfShape", [row], {"value": ir.tensor(fill.reshape(1))})
    rows = ctx.op("Concat", [value, spare], {"axis": 0})
    places, inside = places_inside(ctx, lengths, width)
    own = ctx.op("Add", [places, ctx.unsqueeze(lengths.starts, [1])])
    where = ctx.op("Where", [inside, own, lengths.total])
    return ctx.op("Gather", [rows, where], {"axis": 0})


def unpadded(ctx: Context, value: ir.Value, lengths: Lengths, width: ir.Value) -> ir.Value:
    """Cut what lies behind the samples' last rows: ``[B, L, *rest]`` to ``[T, *rest]``."""
    first = ctx.op("Mul", [lengths.samples, width])
    where = ctx.op("Add", [first, lengths.positions])
    return ctx.op("Gather", [ctx.merged(value), where], {"axis": 0})
