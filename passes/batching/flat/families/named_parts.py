"""Parts of flat samples by positions that name their first axes alone.

``x[rows] = y`` sets whole rows, and these differ in length from sample to sample. Each element
of a part becomes a position of its own: the coordinates that are given, and its place in the part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.flat.grid import Grid
from passes.batching.flat.laying import laid_out
from passes.batching.flat.meeting import alike
from passes.batching.flat.reading import known_from
from passes.batching.flat.rows_read import gathered
from passes.batching.flat.samples import FlatSamples
from passes.batching.flat.spreading import laid_in_order, on_first, sides_of
from passes.batching.layouts import Batched, Layout

__all__ = ["names_parts", "parts_of", "parts_set", "rows_along"]


def names_parts(data: Batched, positions: Batched) -> bool:
    """Whether positions, a list of them, leave out an axis along which the data may differ."""
    if data.flat is None or positions.rank < 2:
        return False
    count = positions.dims[-1]
    return isinstance(count, int) and count < known_from(data)


def parts_of(
    ctx: Context, data: Batched, positions: Batched
) -> tuple[Batched, ir.Value, tuple[int, ...]]:
    """Return positions of all elements of the parts that are read.

    Args:
        ctx: The context.
        data: The samples that are read, flat and in the order of their axes.
        positions: The positions, of any layout but apart.

    Returns:
        The positions, which sample each belongs to, and the axes of the parts.
    """
    positions = laid_in_order(ctx, positions)
    count, depth = _named(positions)
    sides = sides_of(positions)[:depth] + sides_of(data)[count:]
    rank = depth + known_from(data) - count
    grid = Grid.of_sides(ctx.builder, sides[:rank], ctx.batch)
    held, samples = _of_elements(ctx, positions, grid)
    return held, samples, tuple(range(len(sides)))


def parts_set(
    ctx: Context, data: Batched, positions: Batched, updates: Batched
) -> tuple[Batched, ir.Value, ir.Value]:
    """Return positions of all elements of the parts that are set.

    It is an error at run time if a part has another size than what it is to hold.

    Args:
        ctx: The context.
        data: The samples that are written to, flat and in the order of their axes.
        positions: The positions, of any layout but apart.
        updates: What the parts will hold.

    Returns:
        The positions, which sample each belongs to, and the updates, row for row.

    Raises:
        Decline: A size is not known, or does not fit in any sample.
    """
    positions, updates = laid_in_order(ctx, positions), laid_in_order(ctx, updates)
    count, depth = _named(positions)
    wanted = sides_of(positions)[:depth] + sides_of(data)[count:]
    sides = [alike(ctx, pair) for pair in zip(sides_of(updates), wanted, strict=True)]
    rank = depth + known_from(data) - count
    if updates.flat is not None:
        rank = max(rank, known_from(updates))
    grid = Grid.of_sides(ctx.builder, sides[:rank], ctx.batch)
    held, samples = _of_elements(ctx, positions, grid)
    source, rows = rows_along(ctx, updates, rank)
    if source.is_shared:
        rows = gathered(ctx, rows, source, grid, range(rank))
    return held, samples, rows


def rows_along(ctx: Context, x: Batched, count: int) -> tuple[Grid, ir.Value]:
    """Return samples of any layout but apart with a row for each place of so many first axes."""
    if x.has_an_axis:
        x = laid_out(ctx, x, range(count))
        return x.own_flat.grid, x.value
    x = laid_in_order(ctx, x)
    return on_first(ctx, x, sides_of(x), count)


def _named(positions: Batched) -> tuple[int, int]:
    """Return how many coordinates a position has, and how many axes lie before those."""
    count = positions.dims[-1]
    assert isinstance(count, int)
    return count, positions.rank - 1


def _of_elements(ctx: Context, positions: Batched, grid: Grid) -> tuple[Batched, ir.Value]:
    """Return the positions of all places of a grid, whose first axes are those of positions."""
    _, depth = _named(positions)
    source, rows = rows_along(ctx, positions, depth)
    given = gathered(ctx, rows, source, grid, range(depth))
    given = ctx.op("Cast", [given], {"to": int(ir.DataType.INT64)})
    within = [ctx.unsqueeze(grid.place(axis), [1]) for axis in range(depth, grid.rank)]
    where = ctx.op("Concat", [given, *within], {"axis": 1})
    return _held(positions, where, grid), ctx.unsqueeze(grid.rows.samples, [1])


def _held(positions: Batched, where: ir.Value, grid: Grid) -> Batched:
    """Return positions, one for each row of a grid, as a flat value."""
    count, depth = _named(positions)
    dims: Sequence[int | None] = [*(None,) * grid.rank, count + grid.rank - depth]
    flat = FlatSamples(grid, tuple(range(grid.rank + 1)), (None,) * grid.rank)
    type_ = dataclasses.replace(positions.type, dims=tuple(dims))
    return dataclasses.replace(
        positions, layout=Layout.FLAT, value=where, type=type_, lengths=None, axis=0, flat=flat
    )
