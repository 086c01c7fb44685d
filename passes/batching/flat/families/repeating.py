"""Expand, Tile, DepthToSpace and SpaceToDepth of flat samples.

Repeated twice along its columns, ``[2, 3]`` is ``[2, 6]``: column ``k`` reads column ``k % 3``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.regridding import regridded
from passes.batching.flat.grid import Grid, Side
from passes.batching.flat.moves import entry, restacked
from passes.batching.flat.rows_read import Read, rows_of_places
from passes.batching.flat.samples import FlatSamples
from passes.batching.flat.spreading import in_their_order, on_first, sides_of, spread_to
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.batching.packed.fills import sides_of_shape
from passes.decisions import Code, Decline
from passes.graph.made import operand

__all__ = ["blocks", "expand", "tile"]


def expand(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Expand: an axis that differs in size meets a 1, or its own size."""
    x = ctx.operand(operands, 0, "input")
    if x.flat is None:
        raise Decline(Code.BATCHED_OPERAND, "its new shape differs along several axes")
    return [spread_to(ctx, x, sides_of_shape(ctx, operand(node, 1)))]


def tile(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Repeat each sample along any axes, as often as all or as a number of its own says."""
    x = ctx.operand(operands, 0, "input")
    if x.flat is None:
        raise Decline(Code.BATCHED_OPERAND, "its new shape differs along several axes")
    times = _times(ctx, node, ctx.operand(operands, 1, "repeats"), x.rank)
    if x.flat.has_one_shape and all(isinstance(n, int) for n in times):
        return restacked(ctx, node, operands)
    (laid,) = in_their_order(ctx, [x])
    assert laid is not None
    own = sides_of(laid)
    sides = [_longer(ctx, side, n) for side, n in zip(own, times, strict=True)]
    ragged = [axis for axis, side in enumerate(sides) if isinstance(side, Lengths)]
    count = max([*ragged, *(axis for axis, n in enumerate(times) if n != 1)]) + 1
    source, rows = on_first(ctx, laid, own, count)
    grid = Grid.of_sides(ctx.builder, sides[:count], ctx.batch)
    at = _repeated(ctx, grid, source, own, times)
    flat = FlatSamples(grid, tuple(range(len(sides))), (None,) * count)
    return [ctx.flat(ctx.op("Gather", [rows, at], {"axis": 0}), flat)]


def _times(ctx: Context, node: ir.Node, repeats: Batched, rank: int) -> list[int | ir.Value]:
    """Return how often samples are repeated along each axis, int64 ``[B]`` where that differs."""
    known = ctx.constant(repeats)
    if known is not None:
        return [int(n) for n in known.reshape(-1)]
    numbers = ctx.numbers.of(node.inputs[1])
    if not repeats.is_stacked or numbers is None or len(numbers) != rank:
        raise Decline(Code.BATCHED_OPERAND, "its new shape is no constant")
    found = [one.number for one in numbers]
    return [_own_times(ctx, repeats, at) if n is None else n for at, n in enumerate(found)]


def _own_times(ctx: Context, repeats: Batched, axis: int) -> ir.Value:
    """Return a number of each sample; one below 0 is an error."""
    times = entry(ctx, repeats, axis)
    return failing_where(ctx, times, [ctx.op("Less", [times, ctx.builder.scalar(0)])])


def _longer(ctx: Context, side: Side, times: int | ir.Value) -> Side:
    """Return a dimension that is repeated."""
    if isinstance(times, int):
        return side * times if isinstance(side, int) else side.times(times)
    size = ctx.ints(side) if isinstance(side, int) else side.value
    return Lengths(ctx.builder, ctx.op("Mul", [size, times]))


def _repeated(
    ctx: Context,
    grid: Grid,
    source: Grid,
    own: Sequence[Side],
    times: Sequence[int | ir.Value],
) -> ir.Value:
    """Return the row of the samples that each place of the repeated ones is."""
    samples, read = grid.rows.samples, list[Read](range(grid.rank))
    for axis in range(grid.rank):
        if times[axis] != 1:
            side = own[axis]
            size = ctx.ints(side) if isinstance(side, int) else side.value
            if isinstance(side, Lengths):
                size = ctx.op("Gather", [size, samples], {"axis": 0})
            least = ctx.op("Max", [size, ctx.ints(1)])
            read[axis] = ctx.op("Mod", [grid.place(axis), least])
    return rows_of_places(ctx, source, grid, read)


def blocks(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """DepthToSpace and SpaceToDepth: axes that are split, moved and joined."""
    x = ctx.operand(operands, 0, "input")
    size = int(ctx.attribute(node, "blocksize"))
    if node.op_type == "SpaceToDepth":
        return [_moved(ctx, x, _split_space(ctx, size), [0, 3, 5, 1, 2, 4], (1, 2))]
    if ctx.attribute(node, "mode", "DCR") == "DCR":
        return [_moved(ctx, x, _split_depth(size, first=True), [0, 3, 4, 1, 5, 2], (2, 4))]
    return [_moved(ctx, x, _split_depth(size, first=False), [0, 1, 4, 2, 5, 3], (2, 4))]


_Change = Callable[[Sequence[Side]], Sequence[Side]]


def _split_depth(size: int, *, first: bool) -> _Change:
    def change(sides: Sequence[Side]) -> Sequence[Side]:
        count, depth, *space = sides
        if not isinstance(depth, int):
            raise Decline(Code.RAGGED, "its samples differ in depth")
        left = depth // (size * size)
        split = [size, size, left] if first else [left, size, size]
        return [count, *split, *space]

    return change


def _split_space(ctx: Context, size: int) -> _Change:
    def part(side: Side) -> Side:
        if isinstance(side, int):
            return side // size
        return Lengths(ctx.builder, ctx.op("Div", [side.value, ctx.ints(size)]))

    def change(sides: Sequence[Side]) -> Sequence[Side]:
        count, depth, height, width = sides
        return [count, depth, part(height), size, part(width), size]

    return change


def _moved(
    ctx: Context, x: Batched, split: _Change, perm: Sequence[int], joined: Sequence[int]
) -> Output:
    """Return samples whose axes are split, moved, and joined again.

    Args:
        ctx: The context.
        x: The samples.
        split: Their new dimensions.
        perm: The order of these.
        joined: Those among them, once moved, that join the next one.
    """
    moved = regridded(ctx, x, split).permuted(perm)

    def join(sides: Sequence[Side]) -> Sequence[Side]:
        found: list[Side] = []
        for axis, side in enumerate(sides):
            if axis and axis - 1 in joined:
                found[-1] = _product(found[-1], side)
            else:
                found.append(side)
        return found

    made = regridded(ctx, moved, join)
    return Batched(made.layout, made.value, flat=made.flat)


def _product(one: Side, other: Side) -> Side:
    if isinstance(one, Lengths):
        one, other = other, one
    assert isinstance(one, int)
    return one * other if isinstance(other, int) else other.times(one)
