"""Operators that pick from packed samples, or by packed positions or conditions.

Lengths ``[3, 2]``: position 1 of the second sample is row ``3 + 1`` of all rows, and position -1
is row ``3 + 2 - 1``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched, Layout, present
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import equally_long
from passes.batching.packed.reshaping import flattened
from passes.batching.packed.row_by_row import (
    crosses,
    lengths_of,
    packed_data,
    rows,
    same_rows,
    sample_axis,
)
from passes.batching.packed.segments import axis_in_front, axis_moved_back
from passes.batching.packed.spread_rows import spread
from passes.batching.places import places_in_all
from passes.decisions import Code, Decline
from passes.graph.builder import END

__all__ = [
    "compress_rows",
    "element_rows",
    "gather_nd_rows",
    "gather_rows",
    "scatter_nd_rows",
]


def gather_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Three mixes.

    1. Packed positions in shared data: the operator itself.
    2. Shared positions along another axis than that of different lengths: the operator itself.
    3. Positions along that axis, or packed positions in stacked data: the row is looked up behind
       the sample's first. A position outside of the sample becomes one outside of all rows, which
       is an error. Another axis than the first is moved there, and what is found back.
    """
    data, positions = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "indices")
    axis = sample_axis(int(ctx.attribute(node, "axis", 0)), data.rank)
    inputs = [data.value, positions.value]
    if data.is_shared:
        place = axis + positions.axis
        made = same_rows(ctx, node, inputs, lengths_of(operands), axis=place)
        if _are_first_places(ctx, node.inputs[0], axis, positions):
            ctx.wholes[made[0].value] = data.value
        return made
    if data.is_packed and axis != data.axis:
        _, lengths = packed_data(ctx, operands)
        place = data.axis if data.axis < axis else data.axis - 1 + positions.rank
        return same_rows(ctx, node, inputs, lengths, axis=place)
    table, where = _looked_up(ctx, axis_in_front(ctx, data, axis), positions, positions.value)
    found = ctx.op("Gather", [table, where], {"axis": 0})
    if axis:
        shift, behind = int(not positions.is_packed), positions.rank + axis
        end = data.rank - 1 + positions.rank
        perm = [*range(positions.rank, behind), *range(positions.rank), *range(behind, end)]
        found = ctx.op("Transpose", [found], {"perm": [*range(shift), *(a + shift for a in perm)]})
    return [_like_positions(ctx, found, positions, axis)]


def _are_first_places(ctx: Context, data: ir.Value | None, axis: int, positions: Batched) -> bool:
    """Whether each sample has the first of all places along an axis, one by one, by proof."""
    places = ctx.wholes.get(positions.value)
    if data is None or places is None or positions.rank != 1:
        return False
    count = ctx.numbers.counted_to(places)
    return count is not None and count == ctx.numbers.dimension(data, axis)


def _like_positions(ctx: Context, found: ir.Value, positions: Batched, axis: int = 0) -> Output:
    """Return what was found, with the axes of the positions from an axis on."""
    if positions.is_packed:
        return ctx.packed(found, positions.own_lengths, axis + positions.axis)
    return ctx.stacked(found)


def _looked_up(
    ctx: Context, data: Batched, positions: Batched, where: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return the rows of all samples, and which of them positions mean.

    Args:
        ctx: The context.
        data: What is read: packed, or stacked if the positions are packed.
        positions: How the positions are held.
        where: The positions along the first axis of a sample.
    """
    number = ctx.op("Cast", [where], {"to": ir.DataType.INT64})
    lengths = positions.lengths
    behind = positions.rank - positions.axis
    if lengths is None:
        axes = range(1, positions.rank + 1)
        starts, sizes = (
            ctx.unsqueeze(v, axes) for v in (data.own_lengths.starts, data.own_lengths.value)
        )
        return data.value, places_in_all(ctx, number, starts, sizes, data.own_lengths.total)
    if data.lengths is not None:
        starts, sizes = (
            ctx.unsqueeze(spread(ctx, v, lengths), range(1, behind))
            for v in (data.lengths.starts, data.lengths.value)
        )
        return data.value, places_in_all(ctx, number, starts, sizes, data.lengths.total)
    table, size = ctx.merged(data.value, data.dims), ctx.shape(data.value, 1, 2)
    starts = ctx.unsqueeze(ctx.op("Mul", [lengths.samples, size]), range(1, behind))
    return table, places_in_all(ctx, number, starts, size, ctx.shape(table, 0, 1))


def gather_nd_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Packed positions in shared data, positions in packed data, or packed ones in stacked data.

    With batch axes, both are packed alike along the first of them.
    """
    data, positions = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "indices")
    inputs = [data.value, positions.value]
    _check_coordinates(positions)
    if ctx.attribute(node, "batch_dims", 0):
        if not (data.is_packed and positions.is_packed) or data.axis or positions.axis:
            raise crosses(node.op_type)
        return same_rows(ctx, node, inputs, lengths_of(operands))
    if data.axis or (positions.is_packed and positions.axis == positions.rank - 1):
        raise crosses(node.op_type)
    if data.is_shared:
        return same_rows(ctx, node, inputs, lengths_of(operands), axis=positions.axis)
    table, where = _full_positions(ctx, data, positions)
    return [_like_positions(ctx, ctx.op("GatherND", [table, where]), positions)]


def _check_coordinates(positions: Batched) -> None:
    """Decline unless a position has coordinates: one of none is the whole sample."""
    coordinates = positions.dims[-1]
    if not isinstance(coordinates, int) or coordinates == 0:
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells how many coordinates a position has")


def _full_positions(ctx: Context, data: Batched, positions: Batched) -> tuple[ir.Value, ir.Value]:
    """Return the rows of all samples, and coordinates that begin with the number of a row."""
    _check_coordinates(positions)
    where = positions.value if positions.is_packed else ctx.expanded(positions)
    along = ctx.ints(positions.rank - 1 + (not positions.is_packed))
    first = ctx.op("Slice", [where, ctx.ints(0), ctx.ints(1), along])
    rest = ctx.op("Slice", [where, ctx.ints(1), ctx.ints(END), along])
    table, row = _looked_up(ctx, data, positions, first)
    return table, ctx.op("Concat", [row, rest], {"axis": -1})


def scatter_nd_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Updates of packed data, or packed updates of data of one shape."""
    data, positions, updates = (ctx.operand(operands, i) for i in range(3))
    if positions.is_packed != updates.is_packed:
        raise Decline(Code.RAGGED, "its operands are not proven to be equally long")
    if data.is_shared:
        data = dataclasses.replace(data, value=ctx.expanded(data), layout=Layout.STACKED)
    positions, updates = _as_long(ctx, [positions, updates])
    table, where = _full_positions(ctx, data, positions)
    values = updates.value if updates.is_packed else ctx.expanded(updates)
    (new,) = ctx.same(node, [table, where, values])
    if data.lengths is not None:
        return [ctx.packed(new.value, data.lengths)]
    return [ctx.stacked(ctx.unmerged(new.value, data.value, data.dims))]


def element_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """GatherElements and ScatterElements: all operands have rows of their own.

    Along an axis of the rows, all are packed alike. Along that of different lengths, what is read
    may differ from what it is read by, and what is read or written to may be stacked or shared.
    Where samples differ along another axis than the first, it is moved there, and back.
    """
    given = [ctx.operand(operands, i) for i in range(len(operands))]
    positions = given[1]
    ragged = positions.axis
    if not all(x.is_packed and x.axis == ragged for x in given[1:]):
        raise Decline(Code.RAGGED, "its operands are not proven to be equally long")
    if given[0].is_packed and given[0].axis != ragged:
        raise Decline(Code.RAGGED, "its data differ in length along another axis")
    axis = sample_axis(int(ctx.attribute(node, "axis", 0)), positions.rank)
    turned = [axis_in_front(ctx, x, ragged) for x in given]
    axis = 0 if axis == ragged else axis + (axis < ragged)
    made = _elements_of_rows(ctx, node, turned, axis)
    return [axis_moved_back(ctx, out, ragged, positions.rank) for out in made]


def _elements_of_rows(
    ctx: Context, node: ir.Node, given: Sequence[Batched], axis: int
) -> Sequence[Output]:
    """Return `element_rows` along an axis of samples that differ in length along their first."""
    data = given[0]
    if axis and data.is_packed:
        inputs = [x.value for x in given]
        return same_rows(ctx, node, inputs, lengths_of(given), {"axis": axis})
    if axis:
        raise crosses(node.op_type)
    given = [data, *_as_long(ctx, given[1:])]
    positions = given[1]
    if not data.is_packed:
        return _elements_of_one_size(ctx, node, data, given)
    table, where = _looked_up(ctx, data, positions, positions.value)
    lengths = positions.lengths if len(given) == 2 else data.lengths
    assert lengths is not None
    inputs = [table, where, *(x.value for x in given[2:])]
    return same_rows(ctx, node, inputs, lengths, {"axis": 0})


def _as_long(ctx: Context, given: Sequence[Batched]) -> list[Batched]:
    """Return places and what is written there: they are equally long, or it is an error."""
    return present(equally_long(ctx, given))


def _elements_of_one_size(
    ctx: Context, node: ir.Node, data: Batched, given: Sequence[Batched]
) -> Sequence[Output]:
    """Read elements of samples of one size by packed positions, or write such elements."""
    positions, lengths = given[1], lengths_of(given[1:])
    every = dataclasses.replace(data, layout=Layout.STACKED, value=ctx.expanded(data))
    table, where = _looked_up(ctx, every, positions, positions.value)
    inputs = [table, where, *(x.value for x in given[2:])]
    if len(given) == 2:
        return same_rows(ctx, node, inputs, lengths, {"axis": 0})
    (new,) = ctx.same(node, inputs, {"axis": 0})
    return [ctx.stacked(ctx.unmerged(new.value, every.value, data.dims))]


def compress_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Pick rows by conditions: fewer rows of each sample are left.

    A condition is packed as the rows are, or has one place for each of the first rows.
    """
    data, condition = ctx.operand(operands, 0, "input"), ctx.operand(operands, 1, "condition")
    axis = ctx.attribute(node, "axis")
    if axis is not None and sample_axis(int(axis), data.rank) != data.axis:
        return rows(ctx, node, operands)
    if not data.is_packed:
        raise Decline(Code.RAGGED, "its condition is not one for each row")
    value, lengths, place = data.value, data.lengths, data.axis
    if axis is None:
        flat = flattened(ctx, data)
        value, lengths, place = flat.value, flat.lengths, 0
    assert lengths is not None
    flags = _flag_of_rows(ctx, condition, lengths)
    kept = ctx.op("Compress", [value, flags], {"axis": place})
    left = ctx.lengths_by(flags, functools.partial(lengths.kept, ctx.builder, flags))
    return [ctx.packed(kept, left, place)]


def _flag_of_rows(ctx: Context, condition: Batched, lengths: Lengths) -> ir.Value:
    """Return one flag for each row: that of its place, False behind the last of them."""
    if condition.is_packed:
        if not lengths.equal(condition.lengths):
            raise Decline(Code.RAGGED, "its condition is not one for each row")
        return condition.value
    none = ctx.builder.constant(np.zeros(1, np.bool_))
    if condition.is_shared:
        flags = ctx.op("Concat", [condition.value, none], {"axis": 0})
        size = ctx.shape(condition.value, 0, 1)
        return ctx.op("Gather", [flags, ctx.op("Min", [lengths.positions, size])], {"axis": 0})
    column = ctx.op("Expand", [none, ctx.op("Concat", [lengths.count, ctx.ints(1)], {"axis": 0})])
    flags = ctx.merged(ctx.op("Concat", [condition.value, column], {"axis": 1}))
    size = ctx.shape(condition.value, 1, 2)
    first = ctx.op("Mul", [lengths.samples, ctx.op("Add", [size, ctx.ints(1)])])
    where = ctx.op("Add", [first, ctx.op("Min", [lengths.positions, size])])
    return ctx.op("Gather", [flags, where], {"axis": 0})
