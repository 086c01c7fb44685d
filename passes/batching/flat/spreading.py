"""Broadcasting of samples that differ along some axes with such as differ along others.

``[h, 1] + [1, w]`` has rows and columns, and neither operand has both. The places of the result
are counted, and each operand is read at its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.grid import Grid, Side
from passes.batching.flat.laying import packed_laid_out
from passes.batching.flat.meeting import broadcast, place_read
from passes.batching.flat.reading import in_order
from passes.batching.flat.rows_read import gathered
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, present, with_flat
from passes.batching.lengths import Lengths
from passes.batching.packed.spread_rows import spread
from passes.decisions import Code, Decline

__all__ = [
    "aligned",
    "in_their_order",
    "laid_in_order",
    "on_first",
    "on_sides",
    "sides_of",
    "spread_alike",
    "spread_out",
    "spread_to",
]


def spread_out(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Broadcast samples that differ along one axis each to such as differ along several."""
    given, flat = spread_alike(ctx, operands)
    (new,) = ctx.same(node, [None if x is None else aligned(ctx, x, flat) for x in given])
    return [ctx.flat(new.value, flat)]


def spread_alike(ctx: Context, operands: Sequence[Operand]) -> tuple[list[Operand], FlatSamples]:
    """Return the operands, the flat and packed ones read at all places of a result.

    Raises:
        Decline: They are not proven to fit.
    """
    given = in_their_order(ctx, operands)
    sides = _broadcast_sides(ctx, [sides_of(x) for x in present(given)])
    flat = on_sides(ctx, sides)
    return with_flat(given, lambda x: _spread(ctx, x, sides, flat)), flat


def _broadcast_sides(ctx: Context, several: Sequence[Sequence[Side]]) -> list[Side]:
    """Return the dimensions of samples of given dimensions that are broadcast.

    Raises:
        Decline: Two are known not to fit, or one is of no sample.
    """
    rank = max(map(len, several))
    found: list[Side] = [1] * rank
    for sides in several:
        for axis, side in enumerate(sides, rank - len(sides)):
            found[axis] = broadcast(ctx, found[axis], side)
    return found


def on_sides(ctx: Context, sides: Sequence[Side]) -> FlatSamples:
    """Return how samples lie in order; some of their dimensions differ."""
    behind = max(axis for axis, side in enumerate(sides) if isinstance(side, Lengths)) + 1
    grid = Grid.of_sides(ctx.builder, sides[:behind], ctx.batch)
    return FlatSamples(grid, tuple(range(len(sides))), (None,) * behind)


def spread_to(ctx: Context, x: Batched, wanted: Sequence[Side]) -> Output:
    """Return samples expanded to dimensions that may differ from sample to sample."""
    (laid,) = in_their_order(ctx, [x])
    assert laid is not None
    sides = _broadcast_sides(ctx, [sides_of(laid), wanted])
    flat = on_sides(ctx, sides)
    rows = _spread(ctx, laid, sides, flat).value
    numbers = [side for side in sides[flat.grid.rank :] if isinstance(side, int)]
    if numbers:
        head = ctx.shape(rows, 0, 1)
        rows = ctx.op("Expand", [rows, ctx.op("Concat", [head, ctx.ints(*numbers)], {"axis": 0})])
    return ctx.flat(rows, flat)


def in_their_order(ctx: Context, operands: Sequence[Operand]) -> list[Operand]:
    """Return packed operands as flat ones, and flat ones in the order of their axes."""
    return [None if x is None else laid_in_order(ctx, x) for x in operands]


def laid_in_order(ctx: Context, x: Batched) -> Batched:
    """Return a packed operand as a flat one, and a flat one in the order of its axes."""
    if x.has_an_axis:
        return x
    if x.is_packed:
        x = packed_laid_out(ctx, x)
    rows, flat = in_order(ctx, x)
    return Batched(x.layout, rows, x.type, x.stage, x.rounding, flat=flat)


def sides_of(x: Batched) -> list[Side]:
    """Return the dimensions of samples; flat ones lie in order.

    Raises:
        Decline: One is not known, of samples that are not flat.
    """
    flat = x.flat
    grid = [] if flat is None else [flat.grid.side(at) for at in range(flat.grid.rank)]
    rest = x.dims[len(grid) :]
    numbers = [dim for dim in rest if isinstance(dim, int)]
    if len(numbers) < len(rest):
        raise Decline(Code.RAGGED, f"nothing tells how '{x.value.name}' is broadcast")
    return [*grid, *numbers]


def _spread(ctx: Context, x: Batched, sides: Sequence[Side], flat: FlatSamples) -> Batched:
    """Return samples, which lie in order, read at all places of a result."""
    own, first = sides_of(x), len(sides) - len(sides_of(x))
    count = flat.grid.rank - first
    source, rows = on_first(ctx, x, own, count)
    if own[:count] != list(sides[: flat.grid.rank]) or first:
        read = [place_read(ctx, flat.grid, first + a, own[a]) for a in range(count)]
        rows = gathered(ctx, rows, source, flat.grid, read)
    return Batched(x.layout, rows, x.type, x.stage, x.rounding, flat=flat)


def on_first(ctx: Context, x: Batched, own: Sequence[Side], count: int) -> tuple[Grid, ir.Value]:
    """Return samples with so many of their axes as those of a grid."""
    grid = x.own_flat.grid
    if grid.rank == count:
        return grid, x.value
    rest = [side for side in own[count:] if isinstance(side, int)]
    moved = math.prod(side for side in own[grid.rank : count] if isinstance(side, int))
    total = ctx.op("Mul", [ctx.shape(x.value, 0, 1), ctx.ints(moved)])
    target = ctx.op("Concat", [total, ctx.ints(*rest)], {"axis": 0}) if rest else total
    return Grid.of_sides(ctx.builder, own[:count], grid.count), ctx.reshape(x.value, target)


def aligned(ctx: Context, x: Batched, flat: FlatSamples) -> ir.Value:
    """Return an operand aligned with rows ``[P, *rest]``.

    Raises:
        Decline: It reaches an axis along which samples differ, or has a higher rank.
    """
    if x.flat is not None:
        return x.value
    rank, first = len(flat.order), flat.grid.rank
    if x.rank > rank or not x.has_an_axis:
        raise Decline(Code.RAGGED, f"'{x.value.name}' has other axes than the samples")
    if x.is_shared and not x.rank:
        return x.value
    missing = rank - x.rank
    along: list[int] = []
    for axis in range(missing, rank):
        at = flat.order[axis]
        if at >= first or x.dims[axis - missing] == 1:
            continue
        if not isinstance(flat.grid.dims[at], int):
            raise Decline(Code.RAGGED, f"'{x.value.name}' meets an axis that differs in size")
        if x.dims[axis - missing] != flat.grid.dims[at]:
            raise Decline(Code.RAGGED, f"'{x.value.name}' may broadcast along axis {axis}")
        along.append(at)
    along.sort()
    value = _in_memory_order(ctx, x, flat, along)
    if x.is_shared and not along:
        return value
    assert flat.is_plain
    if x.is_stacked and not along:
        return spread(ctx, value, flat.grid.rows)
    indices = [flat.grid.rows.samples] if x.is_stacked else []
    indices += [flat.grid.place(at) for at in along]
    if len(indices) == 1:
        return ctx.op("Gather", [value, indices[0]], {"axis": 0})
    entry = ctx.op("Concat", [ctx.unsqueeze(i, [1]) for i in indices], {"axis": 1})
    return ctx.op("GatherND", [value, entry])


def _in_memory_order(
    ctx: Context, x: Batched, flat: FlatSamples, along: Sequence[int]
) -> ir.Value:
    """Return an operand with its axes in memory order, those of size 1 along the grid left out.

    The batch axis of a stacked one comes first, then what it has along the grid, then the rest.
    """
    rank, first = len(flat.order), flat.grid.rank
    missing, shift = rank - x.rank, int(x.is_stacked)
    value = x.value
    if missing:
        value = ctx.unsqueeze(value, range(shift, shift + missing))
    order = [flat.order.index(at) + shift for at in range(rank)]
    perm = [*range(shift), *order]
    if perm != sorted(perm):
        value = ctx.op("Transpose", [value], {"perm": perm})
    gone = [at + shift for at in range(first) if at not in along]
    return ctx.squeeze(value, gone)
