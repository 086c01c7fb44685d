"""Slices of several axes some of whose bounds are the same for all samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand
from passes.batching.layouts import Batched
from passes.batching.packed.row_by_row import sample_axis
from passes.graph.made import operand
from passes.reading.vector_reads import number_at
from passes.typing import ValueType

__all__ = ["axes_cut", "cut_alike"]


def axes_cut(ctx: Context, operands: Sequence[Operand]) -> list[int] | None:
    """Return the axes of a sample that a Slice names, None where they are not known."""
    count = ctx.operand(operands, 1, "starts").dims[0]
    given = ctx.optional(operands, 3)
    if given is None:
        return list(range(count)) if isinstance(count, int) else None
    named, rank = ctx.constant(given), ctx.operand(operands, 0, "data").rank
    return None if named is None else [sample_axis(int(axis), rank) for axis in named.ravel()]


def cut_alike(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> tuple[Sequence[Operand], list[int]]:
    """Cut along the axes whose bounds are known numbers, for all samples at once.

    Args:
        ctx: The context.
        node: The Slice.
        operands: Its operands; the data are shared or stacked.

    Returns:
        The operands of the Slice that is left to do, and at which places of the bounds of the
        node its own stood: all of them where nothing can be cut beforehand.
    """
    axes, steps = axes_cut(ctx, operands), ctx.optional(operands, 4)
    by = None if steps is None else ctx.constant(steps)
    if axes is None or (steps is not None and by is None):
        return operands, []
    numbers = [_numbers(ctx, node, place) for place in range(len(axes))]
    alike = [place for place, bounds in enumerate(numbers) if bounds is not None]
    left = [place for place in range(len(axes)) if place not in alike]
    if not alike or not left:
        return operands, list(range(len(axes)))
    data = ctx.operand(operands, 0, "data")
    begin, end = zip(*(bounds for bounds in numbers if bounds is not None), strict=True)
    along = [axes[place] for place in alike]
    given = [begin, end, [axis + data.is_stacked for axis in along]]
    if by is not None:
        given.append(by.ravel()[alike].tolist())
    value = ctx.op("Slice", [data.value, *(ctx.ints(*column) for column in given)])
    dims = tuple(None if axis in along else dim for axis, dim in enumerate(data.dims))
    cut = dataclasses.replace(data, value=value, type=ValueType(data.type.type, dims))
    bounds_left = [_entries(ctx, ctx.operand(operands, at, "bounds"), left) for at in (1, 2)]
    rest = [_numbers_as(ctx, [axes[place] for place in left])]
    if by is not None:
        rest.append(_numbers_as(ctx, by.ravel()[left].tolist()))
    return [cut, *bounds_left, *rest], left


def _numbers(ctx: Context, node: ir.Node, place: int) -> tuple[int, int] | None:
    start, end = (number_at(ctx.numbers, operand(node, at), place) for at in (1, 2))
    if start is None or end is None or start.number is None or end.number is None:
        return None
    return start.number, end.number


def _entries(ctx: Context, vector: Batched, places: Sequence[int]) -> Batched:
    """Return some entries of a vector, of each sample where it is stacked."""
    axis = {"axis": int(vector.is_stacked)}
    value = ctx.op("Gather", [vector.value, ctx.ints(*places)], axis)
    kind = ValueType(vector.type.type, (len(places),))
    return dataclasses.replace(vector, value=value, type=kind)


def _numbers_as(ctx: Context, numbers: Sequence[int]) -> Batched:
    return ctx.typed(ctx.ints(*numbers), ir.DataType.INT64, len(numbers))
