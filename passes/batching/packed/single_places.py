"""Slices of one place whose axis is removed behind them: ``x[p]``.

Exporters write it from ``p`` to ``p + 1``, and TensorFlow's as the first place of many, far from
each other.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.layouts import Batched
from passes.batching.merging import sample_numbers
from passes.graph.made import operand
from passes.reading.integer_reads import FAR
from passes.reading.vector_reads import number_at
from passes.typing.needed_places import needs_one

__all__ = ["reads_one_place", "single_place"]


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
