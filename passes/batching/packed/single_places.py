"""Slices of one place, from ``p`` to ``p + 1``, whose axis is removed at once: ``x[p]``."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.layouts import Batched
from passes.batching.merging import sample_numbers
from passes.graph.graphs import is_operator
from passes.graph.made import axes_of, operand
from passes.reading.vector_reads import number_at

__all__ = ["reads_one_place", "single_place"]


def reads_one_place(ctx: Context, node: ir.Node, rank: int, axis: int, place: int) -> bool:
    """Whether a Slice takes one place of an axis, and fails with what reads it if there is none.

    Args:
        ctx: The context.
        node: The Slice.
        rank: How many axes a sample has.
        axis: The axis that is cut.
        place: At which place of the bounds those of the axis stand.
    """
    start, end = (number_at(ctx.numbers, operand(node, at), place) for at in (1, 2))
    if start is None or end is None or (end - start).number != 1:
        return False
    (cut,) = node.outputs
    readers = [use.node for use in cut.uses()]
    if not readers or cut.is_graph_output():
        return False
    # A sample that does not take the branch of its reader fails nowhere.
    beside = all(reader.graph is node.graph for reader in readers)
    return beside and all(axis in _removed(reader, rank) for reader in readers)


def _removed(node: ir.Node, rank: int) -> Sequence[int]:
    axes = axes_of(node) if is_operator(node, "Squeeze") else None
    return [axis % rank for axis in axes or ()]


def single_place(ctx: Context, data: Batched, start: Batched, axis: int) -> Output:
    """Return one place of each sample, its axis of size 1 kept; none is an error at run time.

    Args:
        ctx: The context.
        data: Shared ``[*before, n, *rest]``, or stacked.
        start: The place, ``[1]``: from the end where it is negative, as Slice has it.
        axis: The axis of a sample that is cut.
    """
    along = axis + data.is_stacked
    size = ctx.shape(data.value, along, along + 1)
    place, is_inside = _from_front(ctx, start, size)
    rows, count = _rows_first(ctx, data, axis), size
    if data.is_stacked:
        place = ctx.op("Add", [place, sample_numbers(ctx, size, 0)])
        count = ctx.op("Mul", [size, ctx.batch])
    place = ctx.op("Where", [is_inside, place, count])
    return ctx.stacked(ctx.unsqueeze(ctx.op("Gather", [rows, place], {"axis": 0}), [axis + 1]))


def _from_front(ctx: Context, start: Batched, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the place counted from the front, int64 ``[B]``, and whether there is one."""
    number = ctx.op("Cast", [start.value], {"to": ir.DataType.INT64})
    if start.is_stacked:
        number = ctx.squeeze(number, [1])
    else:
        number = ctx.op("Expand", [number, ctx.batch])
    zero, last = ctx.ints(0), ctx.ints(-1)
    wrapped = ctx.op("Add", [number, size])
    place = ctx.op("Where", [ctx.op("Less", [number, zero]), wrapped, number])
    is_behind = ctx.op("Not", [ctx.op("Less", [place, zero])])
    is_before = ctx.op("Less", [place, size])
    is_last = ctx.op("Equal", [number, last])  # up to 0, which is the front
    inside = ctx.op("And", [is_behind, is_before])
    return place, ctx.op("And", [inside, ctx.op("Not", [is_last])])


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
