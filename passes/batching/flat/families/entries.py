"""Elements of flat samples by their positions: NonZero, GatherND and ScatterND.

The element at ``(y, x)`` of a sample of ``[h, w]`` is ``y * w + x`` rows behind its first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.counted_rows import lengths_of_rows
from passes.batching.flat.families.named_parts import names_parts, parts_of, parts_set
from passes.batching.flat.grid import Grid
from passes.batching.flat.laying import packed_laid_out
from passes.batching.flat.meeting import alike
from passes.batching.flat.moves import read_if_simple, read_simply, stacked_again
from passes.batching.flat.reading import in_order
from passes.batching.flat.row_positions import coordinates, row_positions
from passes.batching.flat.samples import FlatSamples
from passes.batching.flat.spreading import in_their_order, laid_in_order, on_first, sides_of
from passes.batching.layouts import Batched, Layout, flats_of, present
from passes.decisions import Code, Decline
from passes.graph.builder import END

__all__ = ["gather_nd", "non_zero", "scatter_nd", "with_samples"]


def non_zero(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The places of the rows that hold something, then the coordinates within those rows."""
    data = ctx.operand(operands, 0)
    simple = None if _lies_across(data) else read_simply(ctx, node, operands)
    if simple is not None:
        return simple
    rows, flat = in_order(ctx, data)
    found = ctx.op("NonZero", [rows])
    at = ctx.op("Gather", [found, ctx.builder.scalar(0)], {"axis": 0})
    parts = [
        ctx.unsqueeze(ctx.op("Gather", [flat.grid.place(axis), at], {"axis": 0}), [0])
        for axis in range(flat.grid.rank)
    ]
    if flat.grid.rank < len(flat.order):
        parts.append(ctx.op("Slice", [found, ctx.ints(1), ctx.ints(END), ctx.ints(0)]))
    samples = ctx.op("Gather", [flat.grid.rows.samples, at], {"axis": 0})
    lengths = ctx.lengths_by(
        data.value, lambda: lengths_of_rows(ctx.builder, samples, flat.grid.count)
    )
    return [ctx.packed(ctx.op("Concat", parts, {"axis": 0}), lengths, 1)]


def _lies_across(data: Batched) -> bool:
    """Whether samples differ along one axis, behind the first: its places do not come in order."""
    return data.flat is not None and data.differs and bool(data.flat.ragged_axis)


def gather_nd(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Elements of flat samples, or of shared data by flat positions."""
    simple = read_if_simple(ctx, node, operands)
    if simple is not None:
        return simple
    data, positions = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "indices")
    if ctx.attribute(node, "batch_dims", 0):
        raise Decline(Code.RAGGED, "its batch axes are axes along which samples differ")
    if names_parts(data, positions):
        return [_parts(ctx, data, positions)]
    held, samples = with_samples(ctx, positions)
    if data.is_shared:
        rows, where = data.value, held.value
    else:
        rows, grid = _rows_of(ctx, data)
        where = row_positions(ctx, grid, held, samples)
    return [_like_positions(ctx, ctx.op("GatherND", [rows, where]), held, data.rank)]


def _parts(ctx: Context, data: Batched, positions: Batched) -> Output:
    """Return the parts of flat samples that positions name by their first axes."""
    data = laid_in_order(ctx, data)
    held, samples, order = parts_of(ctx, data, positions)
    rows, grid = _rows_of(ctx, data)
    found = ctx.op("GatherND", [rows, row_positions(ctx, grid, held, samples)])
    return ctx.flat(found, dataclasses.replace(held.own_flat, order=order))


def scatter_nd(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Updates of flat samples, or at flat positions of samples of one shape."""
    simple = read_if_simple(ctx, node, operands)
    if simple is not None:
        return simple
    data, positions, updates = (_on_an_axis(ctx, ctx.operand(operands, i)) for i in range(3))
    if data.is_packed:
        data = packed_laid_out(ctx, data)
    if names_parts(data, positions):
        data = laid_in_order(ctx, data)
        held, samples, values = parts_set(ctx, data, positions, updates)
    elif not (positions.has_an_axis and updates.has_an_axis) and not _are_packed_alike(
        positions, updates
    ):
        held, samples, values = _row_for_row(ctx, positions, updates)
    elif data.flat is None:
        raise Decline(Code.RAGGED, "its operands are not proven to be equally long")
    else:
        held, samples = with_samples(ctx, positions)
        values = updates.value if updates.is_packed else ctx.expanded(updates)
    if data.has_an_axis:
        where = _with_first(ctx, held, samples)
        return ctx.same(node, [ctx.expanded(data), where, values])
    rows, flat = in_order(ctx, data)
    where = row_positions(ctx, flat.grid, held, samples)
    (new,) = ctx.same(node, [rows, where, values])
    return [ctx.flat(new.value, flat)]


def _on_an_axis(ctx: Context, x: Batched) -> Batched:
    """Return flat samples of one shape as stacked ones; any other value stays as it is."""
    return stacked_again(ctx, x) if x.flat is not None and not x.differs else x


def _are_packed_alike(positions: Batched, updates: Batched) -> bool:
    """Whether both are packed, and each position has its update, row for row."""
    if positions.lengths is None or updates.lengths is None:
        return False
    return positions.axis == updates.axis and positions.lengths.equal(updates.lengths)


def _row_for_row(
    ctx: Context, positions: Batched, updates: Batched
) -> tuple[Batched, ir.Value, ir.Value]:
    """Return positions and updates with a row of one for each row of the other.

    Raises:
        Decline: One of them has the same shape in all samples, or axes whose size is not known.

    Returns:
        The positions, which sample each belongs to (see `with_samples`), and the updates.
    """
    depth, both = positions.rank - 1, present(in_their_order(ctx, [positions, updates]))
    flats = flats_of(both)
    count = max(flat.grid.rank for flat in flats)
    if len(flats) < len(both) or count > depth:
        raise Decline(Code.RAGGED, "its operands are not proven to be equally long")
    own = [sides_of(x) for x in both]
    sides = [alike(ctx, pair) for pair in zip(*(one[:depth] for one in own), strict=True)]
    grid = Grid.of_sides(ctx.builder, sides[:count], ctx.batch)
    where, values = (on_first(ctx, x, one, count)[1] for x, one in zip(both, own, strict=True))
    flat = FlatSamples(grid, tuple(range(depth + 1)), (None,) * count)
    held = dataclasses.replace(positions, layout=Layout.FLAT, value=where, lengths=None, flat=flat)
    return held, ctx.unsqueeze(grid.rows.samples, range(1, depth - count + 2)), values


def _with_first(ctx: Context, held: Batched, samples: ir.Value) -> ir.Value:
    """Return positions with the number of their sample in front."""
    where = ctx.op("Cast", [held.value], {"to": int(ir.DataType.INT64)})
    none = ctx.op("Mul", [coordinates(ctx, where, 0, 1), ctx.builder.scalar(0)])
    return ctx.op("Concat", [ctx.op("Add", [none, samples]), where], {"axis": -1})


def _rows_of(ctx: Context, data: Batched) -> tuple[ir.Value, Grid]:
    """Return rows of samples in their order, and how they belong to samples."""
    if data.flat is None:
        raise Decline(Code.RAGGED, "it reads samples by positions that differ along several axes")
    rows, flat = in_order(ctx, data)
    return rows, flat.grid


def with_samples(ctx: Context, positions: Batched) -> tuple[Batched, ir.Value]:
    """Return positions that each sample has of its own, and which sample each belongs to.

    Args:
        ctx: The context.
        positions: Positions held in any way but apart.

    Returns:
        The positions, stacked, packed, or flat in their order. Numbers of samples, of a shape
        that broadcasts with them.

    Raises:
        Decline: Samples may have different numbers of coordinates.
    """
    if not isinstance(positions.dims[-1], int):
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells how many coordinates a position has")
    if positions.flat is not None:
        rows, flat = in_order(ctx, positions)
        behind = range(1, len(flat.order) - flat.grid.rank + 1)
        held = dataclasses.replace(positions, value=rows, flat=flat)
        return held, ctx.unsqueeze(flat.grid.rows.samples, behind)
    if positions.lengths is not None:
        behind = range(1, positions.rank - positions.axis)
        return positions, ctx.unsqueeze(positions.lengths.samples, behind)
    value = ctx.expanded(positions)
    count = ctx.squeeze(ctx.batch, [0])
    numbers = ctx.arange(count)
    held = dataclasses.replace(positions, layout=Layout.STACKED, value=value)
    return held, ctx.unsqueeze(numbers, range(1, positions.rank + 1))


def _like_positions(ctx: Context, found: ir.Value, held: Batched, rank: int) -> Output:
    """Return what was found at positions in data of a rank, held as they are."""
    if held.flat is not None:
        named = held.dims[-1]
        assert isinstance(named, int)
        order = tuple(range(len(held.flat.order) - 1 + rank - named))
        return ctx.flat(found, dataclasses.replace(held.flat, order=order))
    if held.lengths is not None:
        return ctx.packed(found, held.lengths, held.axis)
    return ctx.stacked(found)
