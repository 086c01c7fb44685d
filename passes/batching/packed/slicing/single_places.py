"""Slices of one place whose axis is removed behind them: ``x[p]``.

Exporters write it from ``p`` to ``p + 1``, and TensorFlow's as the first place of many, far from
each other. Of ``x[p, q]``, one Slice of two axes, each axis is read in its turn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import sample_numbers
from passes.batching.layouts import Batched
from passes.batching.packed.slicing.alike_cuts import left_to_cut, named_axes
from passes.graph.made import operand
from passes.numbers.entry_reads import number_at
from passes.numbers.integer_reads import FAR
from passes.typing import ValueType
from passes.typing.needed_places import needs_one

__all__ = ["cut_places", "entry", "reads_one_place", "single_place"]


def reads_one_place(
    ctx: Context, node: ir.Node, rank: int, axis: int, place: int, step: int
) -> bool:
    """Whether a Slice takes one place of an axis, and fails with what reads it if there is none.

    Args:
        ctx: The context.
        node: The Slice.
        rank: How many axes a sample has.
        axis: The axis that is cut.
        place: At which place of the bounds those of the axis stand.
        step: From one place to the next.
    """
    if step >= FAR:
        return needs_one(ctx.numbers, node.outputs[0], axis, rank)
    start, end = (number_at(ctx.numbers, operand(node, at), place) for at in (1, 2))
    if step != 1 or start is None or end is None or (end - start).number != 1:
        return False
    return needs_one(ctx.numbers, node.outputs[0], axis, rank)


def cut_places(
    ctx: Context,
    node: ir.Node,
    operands: Sequence[Operand],
    places: Sequence[int],
    cut: Sequence[int],
) -> tuple[Sequence[Operand], list[int]]:
    """Read one place of each axis where a Slice takes but one, and leave one axis to cut.

    Args:
        ctx: The context.
        node: The Slice.
        operands: What is left of its operands; its axes are known, and its steps are 1.
        places: At which places of its bounds they stood.
        cut: Those of the operands' bounds that cut an axis.

    Returns:
        The operands of the Slice that is left to do, and at which places of the bounds of the
        node its own stood: those given where more than one axis was left to cut.
    """
    axes, data = named_axes(ctx, operands), ctx.operand(operands, 0, "data")
    assert axes is not None
    single = [at for at in cut if reads_one_place(ctx, node, data.rank, axes[at], places[at], 1)]
    if len(cut) - len(single) > 1:
        return operands, list(places)
    read = single[: len(cut) - 1]
    for at in read:
        start = entry(ctx, ctx.operand(operands, 1, "starts"), at)
        dims = tuple(1 if axis == axes[at] else dim for axis, dim in enumerate(data.dims))
        row = single_place(ctx, data, start, axes[at])
        data = dataclasses.replace(row, type=ValueType(data.type.type, dims))
    left = [at for at in range(len(axes)) if at not in read]
    return left_to_cut(ctx, operands, data, left), [places[at] for at in left]


def entry(ctx: Context, vector: Batched, place: int) -> Batched:
    """Return one number of a vector of each sample, as a vector."""
    axis = ctx.ints(int(vector.is_stacked))
    number = ctx.op("Slice", [vector.value, ctx.ints(place), ctx.ints(place + 1), axis])
    return dataclasses.replace(vector, value=number, type=ValueType(vector.type.type, (1,)))


def single_place(
    ctx: Context, data: Batched, start: Batched, axis: int, end: Batched | None = None
) -> Output:
    """Return one place of each sample, its axis of size 1 kept; none is an error at run time.

    Args:
        ctx: The context.
        data: Shared ``[*before, n, *rest]``, or stacked.
        start: The place, ``[1]``: from the end where it is negative, as Slice has it.
        axis: The axis of a sample that is cut.
        end: The end, ``[1]``, where it is none that follows the place.
    """
    along = axis + data.is_stacked
    size = ctx.shape(data.value, along, along + 1)
    place = _from_front(ctx, start, size)
    if end is None:
        # Up to 0, which is the front, there is nothing behind the last place.
        last = ctx.op("Equal", [_number(ctx, start), ctx.ints(-1)])
        is_there = ctx.op("Not", [ctx.op("Or", [ctx.op("Less", [place, ctx.ints(0)]), last])])
    else:
        place = ctx.op("Max", [place, ctx.ints(0)])
        is_there = ctx.op("Less", [place, _from_front(ctx, end, size)])
    is_inside = ctx.op("And", [is_there, ctx.op("Less", [place, size])])
    rows, count = _rows_first(ctx, data, axis), size
    if data.is_stacked:
        place = ctx.op("Add", [place, sample_numbers(ctx, size, 0)])
        count = ctx.op("Mul", [size, ctx.batch])
    place = ctx.op("Where", [is_inside, place, count])
    return ctx.stacked(ctx.unsqueeze(ctx.op("Gather", [rows, place], {"axis": 0}), [axis + 1]))


def _number(ctx: Context, bound: Batched) -> ir.Value:
    """Return a bound of each sample, int64 ``[B]``."""
    number = ctx.op("Cast", [bound.value], {"to": ir.DataType.INT64})
    return ctx.squeeze(number, [1]) if bound.is_stacked else ctx.op("Expand", [number, ctx.batch])


def _from_front(ctx: Context, bound: Batched, size: ir.Value) -> ir.Value:
    """Return a bound counted from the front, int64 ``[B]``."""
    number = _number(ctx, bound)
    wrapped = ctx.op("Add", [number, size])
    return ctx.op("Where", [ctx.op("Less", [number, ctx.ints(0)]), wrapped, number])


def _rows_first(ctx: Context, data: Batched, axis: int) -> ir.Value:
    """Return the data with the axis in front, one sample behind the other."""
    others = [i for i in range(data.rank) if i != axis]
    order = [axis, *others]
    if data.is_stacked:
        order = [0, *(i + 1 for i in order)]
    turned = ctx.op("Transpose", [data.value], {"perm": order}) if axis else data.value
    return (
        ctx.merged(turned, [data.dims[i] for i in (axis, *others)]) if data.is_stacked else turned
    )
