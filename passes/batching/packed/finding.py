"""NonZero: every sample yields as many positions as it has elements that are not zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.lengths import Lengths
from passes.batching.packed.row_by_row import packed_data
from passes.decisions import Code, Decline

__all__ = ["non_zero", "non_zero_rows"]

_ALL = int(np.iinfo(np.int64).max)


def non_zero(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The first coordinate of what is found in all samples is the sample, in ascending order."""
    data = ctx.operand(operands, 0)
    if not data.rank:
        raise Decline(Code.NO_RULE, "a number has no position")
    found = ctx.op("NonZero", [data.value])
    samples, positions = _first(ctx, found), _behind_first(ctx, found)
    return [_positions(ctx, positions, data.value, samples, ctx.batch)]


def non_zero_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The first coordinate is a row of all samples; its place in its sample stands for it."""
    data, lengths = packed_data(ctx, operands)
    found = ctx.op("NonZero", [data.value])
    rows = _first(ctx, found)
    samples, places = (
        ctx.op("Gather", [x, rows], {"axis": 0}) for x in (lengths.samples, lengths.positions)
    )
    positions = ctx.unsqueeze(places, [0])
    if data.rank > 1:
        positions = ctx.op("Concat", [positions, _behind_first(ctx, found)], {"axis": 0})
    return [_positions(ctx, positions, data.value, samples, lengths.count)]


def _positions(
    ctx: Context, positions: ir.Value, data: ir.Value, samples: ir.Value, count: ir.Value
) -> Output:
    """Return positions, of which there are as many wherever one tensor is searched again."""
    lengths = ctx.lengths_by(data, lambda: Lengths.of_rows(ctx.builder, samples, count))
    return ctx.packed(positions, lengths, 1)


def _first(ctx: Context, found: ir.Value) -> ir.Value:
    """Return the first coordinates, ``[M]``."""
    return ctx.op("Gather", [found, ctx.builder.scalar(0)], {"axis": 0})


def _behind_first(ctx: Context, found: ir.Value) -> ir.Value:
    """Return all coordinates but the first, ``[rank, M]``."""
    return ctx.op("Slice", [found, ctx.ints(1), ctx.ints(_ALL), ctx.ints(0)])
