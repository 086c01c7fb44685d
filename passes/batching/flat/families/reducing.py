"""Reductions of flat samples.

The sums along the columns of images ``[2, 3]`` and ``[1, 4]`` are vectors of the lengths 2 and 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output, unknown_axes
from passes.batching.families.reductions import given_axes
from passes.batching.flat.families.lines import lines_along
from passes.batching.layouts import Batched
from passes.batching.packed.segments import reduction_of_rows
from passes.decisions import Code, Decline

__all__ = ["global_pool", "reduced", "reduction"]

_POOLED = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}
_NORMS = {1: "ReduceL1", 2: "ReduceL2"}
"""By power."""


def reduction(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Reduce over any axes: the rows along those of the grid are packed rows."""
    x = ctx.operand(operands, 0, "data")
    if x.flat is None:
        raise Decline(Code.BATCHED_OPERAND, "its axes differ along several axes")
    axes = given_axes(ctx, node, ctx.optional(operands, 1))
    if axes is None:
        raise unknown_axes()
    if not axes and ctx.attribute(node, "noop_with_empty_axes", 0):
        return [ctx.flat(x.value, x.flat)]
    keeps = bool(ctx.attribute(node, "keepdims", 1))
    return [reduced(ctx, node.op_type, x, axes, keeps=keeps)]


def global_pool(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The mean, the greatest, or the norm over all axes of an image but the first two."""
    x = ctx.operand(operands, 0, "X")
    op_type = _POOLED.get(node.op_type)
    if op_type is None:
        power = int(ctx.attribute(node, "p", 2))
        op_type = _NORMS.get(power)
    if op_type is None:
        raise Decline(Code.NO_RULE, f"no reduction is the norm of power {power}")
    return [reduced(ctx, op_type, x, range(2, x.rank), keeps=True)]


def reduced(ctx: Context, op_type: str, x: Batched, axes: Sequence[int], *, keeps: bool) -> Output:
    """Return flat samples reduced over some axes; none stand for all.

    Args:
        ctx: The context.
        op_type: The reduction.
        x: The samples, which do not all have one shape.
        axes: Axes of a sample.
        keeps: Whether they stay, with size 1.
    """
    found = lines_along(ctx, x, axes)
    if isinstance(found, Batched):
        return _beside(ctx, op_type, found, axes, keeps=keeps)
    value = reduction_of_rows(ctx, op_type, found.packed, found.lengths, found.behind())
    return found.ended(ctx, value, keeps=keeps)


def _beside(ctx: Context, op_type: str, x: Batched, over: Sequence[int], *, keeps: bool) -> Output:
    """Reduce each row along axes of its own."""
    flat = x.own_flat
    rank, first = len(flat.order), flat.grid.rank
    gone = sorted({flat.order[a % rank] for a in over})
    axes = [at - first + 1 for at in gone]
    value = ctx.reduce(op_type, x.value, axes)
    if keeps:
        return ctx.flat(value, flat)
    value = ctx.squeeze(value, axes)
    left = [at for at in range(rank) if at not in gone]
    order = tuple(left.index(at) for at in flat.order if at not in gone)
    return ctx.flat(value, dataclasses.replace(flat, order=order))
