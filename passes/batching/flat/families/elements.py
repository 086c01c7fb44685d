"""GatherElements, ScatterElements and Unique of samples that differ along several axes.

Each element of the indices has a place along all other axes, which is its own, and one along the
axis that it names. All elements lie in one row of numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.named_parts import rows_along
from passes.batching.flat.families.regridding import in_a_line
from passes.batching.flat.grid import Grid
from passes.batching.flat.meeting import alike, are_equal
from passes.batching.flat.moves import read_if_simple, read_simply
from passes.batching.flat.row_positions import FAR
from passes.batching.flat.rows_read import Read, gathered, rows_of_places
from passes.batching.flat.samples import FlatSamples
from passes.batching.flat.spreading import laid_in_order, sides_of
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.distinct import unique_rows
from passes.batching.places import places_in_all
from passes.decisions import Code, Decline

__all__ = ["gather_elements", "scatter_elements", "unique"]


def gather_elements(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Elements by indices along an axis."""
    simple = read_if_simple(ctx, node, operands)
    if simple is not None:
        return simple
    data, indices = (laid_in_order(ctx, ctx.operand(operands, i)) for i in range(2))
    source, elements = rows_along(ctx, data, data.rank)
    grid = Grid.of_sides(ctx.builder, sides_of(indices), ctx.batch)
    at = _positions(ctx, node, source, indices, grid)
    return [_as_lying_on(ctx, ctx.op("Gather", [elements, at], {"axis": 0}), grid)]


def scatter_elements(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Elements set by indices along an axis."""
    simple = read_if_simple(ctx, node, operands)
    if simple is not None:
        return simple
    data, indices, updates = (laid_in_order(ctx, ctx.operand(operands, i)) for i in range(3))
    pairs = zip(sides_of(updates), sides_of(indices), strict=True)
    grid = Grid.of_sides(ctx.builder, [alike(ctx, pair) for pair in pairs], ctx.batch)
    if data.is_shared:
        data = dataclasses.replace(data, layout=Layout.STACKED, value=ctx.expanded(data))
    source, elements = rows_along(ctx, data, data.rank)
    at, values = _positions(ctx, node, source, indices, grid), _elements_on(ctx, updates, grid)
    (new,) = ctx.same(node, [elements, at, values], {"axis": 0})
    if data.flat is None:
        return [ctx.stacked(ctx.reshape(new.value, ctx.op("Shape", [data.value])))]
    return [_as_lying_on(ctx, new.value, source)]


def _positions(
    ctx: Context, node: ir.Node, source: Grid, indices: Batched, grid: Grid
) -> ir.Value:
    """Return which element of the data each index means, int64 ``[P]``."""
    axis = int(ctx.attribute(node, "axis", 0)) % source.rank
    where = ctx.op("Cast", [_elements_on(ctx, indices, grid)], {"to": int(ir.DataType.INT64)})
    read: list[Read] = [*range(source.rank)]
    for at in range(source.rank):
        if at == axis or not are_equal(source.side(at), grid.side(at)):
            place = where if at == axis else grid.place(at)
            read[at] = _inside(ctx, place, source, grid, at)
    return rows_of_places(ctx, source, grid, read)


def _inside(ctx: Context, where: ir.Value, source: Grid, grid: Grid, axis: int) -> ir.Value:
    """Return places along an axis of a sample, those outside of it far behind all."""
    size = ctx.op("Gather", [source.column(axis), grid.rows.samples], {"axis": 0})
    zero, far = ctx.builder.scalar(0), ctx.builder.scalar(FAR)
    return places_in_all(ctx, where, zero, size, far)


def _elements_on(ctx: Context, x: Batched, grid: Grid) -> ir.Value:
    """Return the elements of samples in the order of a grid of the same dimensions, in one row."""
    source, elements = rows_along(ctx, x, grid.rank)
    if not source.is_shared:
        return elements
    return gathered(ctx, elements, source, grid, range(grid.rank))


def _as_lying_on(ctx: Context, elements: ir.Value, grid: Grid) -> Output:
    """Return elements in one row as samples; axes of one size at the end are those of a row."""
    rank, sides = grid.rank, [grid.side(axis) for axis in range(grid.rank)]
    first = max((a + 1 for a, side in enumerate(sides) if isinstance(side, Lengths)), default=rank)
    numbers = [side for side in sides[first:] if isinstance(side, int)]
    if numbers:
        grid = Grid.of_sides(ctx.builder, sides[:first], grid.count)
        target = ctx.op("Concat", [grid.rows.total, ctx.ints(*numbers)], {"axis": 0})
        elements = ctx.reshape(elements, target)
    return ctx.flat(elements, FlatSamples(grid, tuple(range(rank)), (None,) * grid.rank))


def unique(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
    """The elements of images of any size.

    Raises:
        Decline: It tells rows or columns apart, which differ in size, or the elements are floats.
    """
    simple = read_simply(ctx, node, operands)
    if simple is not None:
        return simple
    if ctx.attribute(node, "axis") is not None:
        raise Decline(Code.NO_RULE, "it compares rows or columns of samples of several sizes")
    return unique_rows(ctx, node, [in_a_line(ctx, ctx.operand(operands, 0))])
