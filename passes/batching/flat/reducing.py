"""Reductions of flat samples over the axes along which they differ."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.moves import has_fill, restacked, rows_again
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.segments import reduction_of_rows
from passes.batching.reductions import given_axes
from passes.decisions import Code, Decline
from passes.typing import ValueType

__all__ = ["global_pool", "reduced", "reduction"]


def reduction(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Reduce over all ragged axes, or over none of the grid.

    The rows of a sample, or of each place along the axes of the grid that all samples share, are
    then packed rows.
    """
    x = ctx.operand(operands, 0, "data")
    if x.flat is None:
        raise Decline(Code.BATCHED_OPERAND, "its axes differ along several axes")
    if x.flat.has_one_shape:
        return restacked(ctx, node, operands)
    axes = given_axes(ctx, node, ctx.optional(operands, 1))
    if axes is None:
        raise Decline(Code.RAGGED, "nothing tells its axes before it runs")
    if not axes and ctx.attribute(node, "noop_with_empty_axes", 0):
        return [ctx.flat(x.value, x.flat)]
    keeps = bool(ctx.attribute(node, "keepdims", 1))
    return [reduced(ctx, node.op_type, x, axes, keeps=keeps)]


def global_pool(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The mean, or the greatest, over all axes of an image but the first two."""
    x = ctx.operand(operands, 0, "X")
    if x.flat is not None and x.flat.has_one_shape:
        return restacked(ctx, node, operands)
    op_type = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}[node.op_type]
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
    assert x.flat is not None
    rank, first = len(x.flat.order), x.flat.grid.rank
    if x.flat.sampler is not None or has_fill(x.flat) or not x.flat.is_plain:
        x = rows_again(ctx, x)
    flat = x.flat
    assert flat is not None
    over = {flat.order[a % rank] for a in axes} or set(range(rank))
    others = sorted(at - first + 1 for at in over if at >= first)
    kept = [at for at in range(first) if at not in over]
    if len(kept) == first:
        return _beside(ctx, op_type, x, flat, others, keeps=keeps)
    if kept != list(range(len(kept))) or not all(isinstance(flat.grid.dims[a], int) for a in kept):
        raise Decline(Code.RAGGED, "it reduces some of the axes along which samples differ")
    lengths = _groups(ctx, flat, kept)
    value = reduction_of_rows(ctx, op_type, _as_packed(x, lengths), lengths, others)
    dims = [d for d in flat.grid.dims[: len(kept)] if isinstance(d, int)]
    if kept:
        target = ctx.op(
            "Concat", [flat.grid.count, ctx.ints(*dims), ctx.shape(value, 1)], {"axis": 0}
        )
        value = ctx.reshape(value, target)
    # ``[B, *kept, *rest]``, where axes of rest that were reduced have size 1.
    value = ctx.unsqueeze(value, range(len(kept) + 1, first + 1))
    perm = [0, *(at + 1 for at in flat.order)]
    if perm != sorted(perm):
        value = ctx.op("Transpose", [value], {"perm": perm})
    if not keeps:
        value = ctx.squeeze(value, sorted(flat.order.index(at) + 1 for at in over))
    return ctx.stacked(value)


def _beside(
    ctx: Context,
    op_type: str,
    x: Batched,
    flat: FlatSamples,
    axes: Sequence[int],
    *,
    keeps: bool,
) -> Output:
    """Reduce each row along axes of its own."""
    value = ctx.reduce(op_type, x.value, axes)
    if keeps:
        return ctx.flat(value, flat)
    value = ctx.squeeze(value, axes)
    gone = [axis + flat.grid.rank - 1 for axis in axes]
    left = [at for at in range(len(flat.order)) if at not in gone]
    order = tuple(left.index(at) for at in flat.order if at not in gone)
    return ctx.flat(value, dataclasses.replace(flat, order=order))


def _groups(ctx: Context, flat: FlatSamples, kept: Sequence[int]) -> Lengths:
    """Return how many rows lie behind one another for each place that is kept."""
    if not kept:
        return flat.grid.rows
    number = math.prod(d for d in flat.grid.dims[: len(kept)] if isinstance(d, int))
    area = flat.grid.stride(kept[-1])
    assert area is not None
    repeated = ctx.op(
        "Expand",
        [
            ctx.unsqueeze(area, [1]),
            ctx.op("Concat", [flat.grid.count, ctx.ints(number)], {"axis": 0}),
        ],
    )
    total = ctx.op("Mul", [flat.grid.count, ctx.ints(number)])
    return Lengths(ctx.builder, ctx.reshape(repeated, total))


def _as_packed(x: Batched, lengths: Lengths) -> Batched:
    flat = x.flat
    assert flat is not None
    rest = len(flat.order) - flat.grid.rank
    dims: tuple[int | str | None, ...] = (None, *(None for _ in range(rest)))
    type_ = ValueType(x.type.type, dims)
    return dataclasses.replace(
        x, layout=Layout.PACKED, type=type_, lengths=lengths, axis=0, flat=None
    )
