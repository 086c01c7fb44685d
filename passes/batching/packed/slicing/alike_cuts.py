"""Slices of several axes some of whose bounds are the same for all samples.

Of ``x[0:2, start : start + 3]`` with a start of each sample, one Slice cuts the first axis of all
samples to 2 places. What is left to do names axis 1 alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand
from passes.batching.flat.families.cutting import known_bounds
from passes.batching.layouts import Batched
from passes.batching.packed.row_by_row import sample_axis
from passes.typing import ValueType

__all__ = ["cut_alike", "left_to_cut", "named_axes"]


def named_axes(ctx: Context, operands: Sequence[Operand]) -> list[int] | None:
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
        node its own stood: all of them where nothing can be cut beforehand, none where its axes
        or steps are not known.
    """
    axes, steps = named_axes(ctx, operands), ctx.optional(operands, 4)
    by = None if steps is None else ctx.constant(steps)
    if axes is None or (steps is not None and by is None):
        return operands, []
    numbers = [known_bounds(ctx, node, operands, place) for place in range(len(axes))]
    alike = [place for place, bounds in enumerate(numbers) if None not in bounds]
    left = [place for place in range(len(axes)) if place not in alike]
    if not alike or not left:
        return operands, list(range(len(axes)))
    data = ctx.operand(operands, 0, "data")
    known = [[n for n in numbers[place] if n is not None] for place in alike]
    along = [axes[place] for place in alike]
    columns = [*zip(*known, strict=True), [axis + data.is_stacked for axis in along]]
    if by is not None:
        columns.append(by.ravel()[alike].tolist())
    value = ctx.op("Slice", [data.value, *(ctx.ints(*column) for column in columns)])
    dims = tuple(None if axis in along else dim for axis, dim in enumerate(data.dims))
    cut = dataclasses.replace(data, value=value, type=ValueType(data.type.type, dims))
    return left_to_cut(ctx, operands, cut, left), left


def left_to_cut(
    ctx: Context, operands: Sequence[Operand], data: Batched, left: Sequence[int]
) -> list[Operand]:
    """Return the operands of a Slice of what some of its axes are cut to.

    Args:
        ctx: The context.
        operands: Its operands; its axes and steps are known.
        data: What it is left to cut.
        left: At which places of its bounds those stand that are left.
    """
    axes, steps = named_axes(ctx, operands), ctx.optional(operands, 4)
    assert axes is not None
    by = None if steps is None else ctx.constant(steps)
    bounds = [_entries(ctx, ctx.operand(operands, at, "bounds"), left) for at in (1, 2)]
    rest = [_numbers_as(ctx, [axes[place] for place in left])]
    if by is not None:
        rest.append(_numbers_as(ctx, by.ravel()[list(left)].tolist()))
    return [data, *bounds, *rest]


def _entries(ctx: Context, vector: Batched, places: Sequence[int]) -> Batched:
    """Return some entries of a vector, of each sample where it is stacked."""
    axis = {"axis": int(vector.is_stacked)}
    value = ctx.op("Gather", [vector.value, ctx.ints(*places)], axis)
    kind = ValueType(vector.type.type, (len(places),))
    return dataclasses.replace(vector, value=value, type=kind)


def _numbers_as(ctx: Context, numbers: Sequence[int]) -> Batched:
    return ctx.typed(ctx.ints(*numbers), ir.DataType.INT64, len(numbers))
