"""Boxes whose bounds differ from sample to sample, cut out of a shared or stacked value.

A crop of a crop, or one that is resized, only changes the tables by which rows are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.cutting import known_bounds, slice_, takes_all
from passes.batching.flat.laying import laid_out
from passes.decisions import Code, Decline
from passes.graph.graphs import is_operator

__all__ = ["boxes", "boxes_of_spans", "cut_axes"]


def boxes(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Slice of shared or stacked data by bounds of each sample, along any axes."""
    data, axes = ctx.operand(operands, 0, "data"), cut_axes(ctx, operands)
    steps = ctx.constant(ctx.optional(operands, 4))
    cut = [
        axis
        for position, axis in enumerate(axes)
        if not takes_all(
            known_bounds(ctx, node, operands, position),
            1 if steps is None else int(steps.ravel()[position]),
            data.dims[axis],
        )
    ]
    return slice_(ctx, node, [laid_out(ctx, data, cut or axes), *operands[1:]])


def boxes_of_spans(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Slice of what a Slice along another axis yields: both cut the value that stood before.

    Raises:
        Decline: No such Slice stands before it.
    """
    between = node.inputs[0]
    before = None if between is None else between.producer()
    if not is_operator(before, "Slice"):
        raise Decline(Code.RAGGED, "its bounds differ beside samples of different length")
    assert between is not None
    first = [None if value is None else ctx.read(value) for value in before.inputs]
    data = ctx.operand(first, 0, "data")
    if not data.has_an_axis:
        raise Decline(Code.RAGGED, "its bounds differ beside samples of different length")
    axes = {axis % data.rank for given in (first, operands) for axis in cut_axes(ctx, given)}
    whole = laid_out(ctx, data, sorted(axes))
    (cut,) = slice_(ctx, before, [whole, *first[1:]])
    once = dataclasses.replace(whole, value=cut.value, flat=cut.flat, type=ctx.type_of(between))
    return slice_(ctx, node, [once, *operands[1:]])


def cut_axes(ctx: Context, operands: Sequence[Operand]) -> Sequence[int]:
    """Return the axes that a Slice cuts, as they are written; by default the first ones."""
    starts = ctx.operand(operands, 1, "starts")
    count = starts.dims[0] if starts.rank == 1 else None
    return ctx.known_axes(operands, range(count) if isinstance(count, int) else None)
