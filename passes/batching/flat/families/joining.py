"""Concat of flat samples, along an axis of the rows or along one whose sizes differ.

Images ``[2, 3]`` and ``[2, 1]`` joined along their columns are ``[2, 4]``: columns 0 to 2 read
the first one, and column 3 the second.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.row_by_row import are_alike, on_one_grid
from passes.batching.flat.grid import Grid, Side
from passes.batching.flat.meeting import alike
from passes.batching.flat.moves import one_place_each, read_simply
from passes.batching.flat.rows_read import Read, rows_of_places
from passes.batching.flat.samples import FlatSamples
from passes.batching.flat.spreading import in_their_order, on_first, sides_of
from passes.batching.layouts import Batched, flats_of, present
from passes.batching.lengths import Lengths
from passes.decisions import Code, Decline

__all__ = ["concat"]


def concat(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Join samples along any axis."""
    given = present(operands)
    if any(x.has_an_axis for x in given):
        simple = read_simply(ctx, node, operands)
        if simple is None:
            raise Decline(Code.RAGGED, "what it joins with does not differ along several axes")
        return simple
    axis = int(ctx.attribute(node, "axis", 0)) % given[0].rank
    flats = flats_of(given)
    if (
        len(flats) == len(given)
        and are_alike(flats)
        and flats[0].order[axis] >= flats[0].grid.rank
    ):
        return [_beside(ctx, node, operands, axis)]
    return [_joined(ctx, given, axis)]


def _beside(ctx: Context, node: ir.Node, operands: Sequence[Operand], axis: int) -> Output:
    """Join rows along an axis of theirs."""
    reads_first = not all(map(one_place_each, flats_of(operands)))
    rows, flat = on_one_grid(ctx, operands, reads_first=reads_first)
    behind = flat.order[axis] - flat.grid.rank + 1
    (new,) = ctx.same(node, [None if x is None else x.value for x in rows], {"axis": behind})
    return ctx.flat(new.value, flat)


def _joined(ctx: Context, given: Sequence[Batched], axis: int) -> Output:
    """Join samples place by place: each place of the result has a row of one of them."""
    laid = present(in_their_order(ctx, given))
    sides = [sides_of(x) for x in laid]
    joined = _joined_sides(ctx, sides, axis)
    ragged = [at for at, side in enumerate(joined) if isinstance(side, Lengths)]
    count = max(axis, *ragged) + 1
    grid = Grid.of_sides(ctx.builder, joined[:count], ctx.batch)
    sources = [on_first(ctx, x, own, count) for x, own in zip(laid, sides, strict=True)]
    samples = grid.rows.samples
    place = grid.place(axis)
    at: ir.Value | None = None
    before: ir.Value | None = None
    start: ir.Value | None = None
    for (source, rows), own in zip(sources, sides, strict=True):
        read: list[Read] = [*range(count)]
        if start is not None:
            read[axis] = ctx.op("Sub", [place, start])
        own_at = rows_of_places(ctx, source, grid, read)
        if before is not None:
            own_at = ctx.op("Add", [own_at, before])
        if at is None or start is None:
            at = own_at
        else:
            at = ctx.op("Where", [ctx.op("Less", [place, start]), at, own_at])
        size = ctx.shape(rows, 0, 1)
        before = size if before is None else ctx.op("Add", [before, size])
        width = _of_rows(ctx, own[axis], samples)
        start = width if start is None else ctx.op("Add", [start, width])
    assert at is not None
    every = ctx.op("Concat", [rows for _, rows in sources], {"axis": 0})
    flat = FlatSamples(grid, tuple(range(len(joined))), (None,) * count)
    return ctx.flat(ctx.op("Gather", [every, at], {"axis": 0}), flat)


def _joined_sides(ctx: Context, several: Sequence[Sequence[Side]], axis: int) -> list[Side]:
    """Return the dimensions of what is joined, which are alike along all other axes.

    Raises:
        Decline: Two are known to differ along another axis.
    """
    beside = list(zip(*several, strict=True))
    first = [one[0] if at == axis else alike(ctx, one) for at, one in enumerate(beside)]
    parts = [sides[axis] for sides in several]
    numbers = [side for side in parts if isinstance(side, int)]
    if len(numbers) == len(parts):
        first[axis] = sum(numbers)
        return first
    total: ir.Value | None = None
    for side in parts:
        value = ctx.ints(side) if isinstance(side, int) else side.value
        total = value if total is None else ctx.op("Add", [total, value])
    assert total is not None
    first[axis] = Lengths(ctx.builder, total)
    return first


def _of_rows(ctx: Context, side: Side, samples: ir.Value) -> ir.Value:
    if isinstance(side, int):
        return ctx.ints(side)
    return ctx.op("Gather", [side.value, samples], {"axis": 0})
