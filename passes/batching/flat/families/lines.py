"""Lines of flat samples: the rows along some of their axes, one behind the other.

``[h, w, 3]`` has a line of ``w`` rows for each of its ``h`` places. As each line is a packed
sample of its own, the rules for such work along it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.beside import along
from passes.batching.flat.grid import Grid
from passes.batching.flat.moves import has_fill, rows_again, turned
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths, multiplied
from passes.batching.packed.best_rows import best_rows, hardmax_over_rows
from passes.batching.packed.softmax_rows import softmax_over_rows
from passes.batching.packed.top_k import sorted_rows, top_of_rows
from passes.decisions import Code, Decline
from passes.typing import ValueType

__all__ = ["Lines", "lines_along", "position_of_best", "softmax", "top_k"]


@dataclasses.dataclass(frozen=True)
class Lines:
    """The rows of samples, line by line.

    Attributes:
        x: The samples; the axes of their grid along which lines are, are its last ones.
        kept: How many axes of the grid come before: each of their places has a line.
        over: The axes in memory that were asked for, those behind the grid included.
        lengths: How many rows the lines have.
    """

    x: Batched
    kept: int
    over: frozenset[int]
    lengths: Lengths

    @property
    def flat(self) -> FlatSamples:
        """How the samples are read off the rows."""
        return self.x.own_flat

    @property
    def packed(self) -> Batched:
        """The lines as packed samples."""
        order = self.flat.order
        rest = (order.index(at) for at in range(self.flat.grid.rank, len(order)))
        dims = (None, *(self.x.dims[axis] for axis in rest))
        type_ = ValueType(self.x.type.type, dims)
        return dataclasses.replace(
            self.x, layout=Layout.PACKED, type=type_, lengths=self.lengths, axis=0, flat=None
        )

    def behind(self) -> list[int]:
        """Return the axes behind the grid that were asked for, as axes of the rows."""
        first = self.flat.grid.rank
        return sorted(at - first + 1 for at in self.over if at >= first)

    def ended(self, ctx: Context, value: ir.Value, *, keeps: bool) -> Output:
        """Return what came of each line, ``[G, *rest]``; axes that went have size 1 in ``rest``.

        Args:
            ctx: The context.
            value: A row for each line.
            keeps: Whether the axes that went stay, with size 1.
        """
        flat, kept = self.flat, self.kept
        order = flat.order
        value = ctx.unsqueeze(value, range(1, flat.grid.rank - kept + 1))
        if not keeps:
            value = ctx.squeeze(value, sorted(at - kept + 1 for at in self.over))
            left = [at for at in range(len(order)) if at not in self.over]
            order = tuple(left.index(at) for at in order if at not in self.over)
        return self.of_places(ctx, value, order)

    def of_places(self, ctx: Context, value: ir.Value, order: tuple[int, ...]) -> Output:
        """Return values ``[G, *rest]``, a row for each line, as samples.

        Args:
            ctx: The context.
            value: The values.
            order: Where in memory the axes of a sample are: those before the lines, then ``rest``.
        """
        flat, kept = self.flat, self.kept
        sides = [flat.grid.side(at) for at in range(kept)]
        numbers = [side for side in sides if isinstance(side, int)]
        if len(numbers) < kept:
            grid = _before(ctx, flat.grid, kept)
            return ctx.flat(value, FlatSamples(grid, order, (None,) * kept))
        if kept:
            value = ctx.reshape(value, _shape_of_lines(ctx, value, flat.grid, numbers, len(order)))
        perm = [0, *(at + 1 for at in order)]
        return ctx.stacked(
            value if perm == sorted(perm) else ctx.op("Transpose", [value], {"perm": perm})
        )


def lines_along(ctx: Context, x: Batched, axes: Collection[int]) -> Lines | Batched:
    """Return the lines along some axes of samples.

    Args:
        ctx: The context.
        x: Samples that do not all have one shape.
        axes: Axes of a sample; none stand for all.

    Returns:
        The lines. Where each row has all places along these axes, the samples as plain rows.
    """
    if has_fill(x.own_flat) or not x.own_flat.is_plain:
        x = rows_again(ctx, x)
    wanted = {a % x.rank for a in axes} or set(range(x.rank))
    x = _behind(ctx, x, wanted)
    flat = x.own_flat
    kept, over = _apart(flat, wanted)
    if not over:
        return x
    memory = frozenset(flat.order[a] for a in wanted)
    return Lines(x, len(kept), memory, _lengths(ctx, flat.grid, len(kept)))


def _behind(ctx: Context, x: Batched, wanted: Collection[int]) -> Batched:
    """Return samples of whose grid the axes that are asked for come last."""
    flat = x.own_flat
    kept, over = _apart(flat, wanted)
    if not kept or not over or kept[-1] < over[0]:
        return x
    rest = range(flat.grid.rank, len(flat.order))
    return turned(ctx, x, [flat.order.index(at) for at in (*kept, *over, *rest)])


def _apart(flat: FlatSamples, wanted: Collection[int]) -> tuple[list[int], list[int]]:
    """Return the axes of the grid that are not asked for, and those that are."""
    over = {flat.order[axis] for axis in wanted}
    grid = range(flat.grid.rank)
    return [at for at in grid if at not in over], [at for at in grid if at in over]


def _before(ctx: Context, grid: Grid, kept: int) -> Grid:
    """Return the grid of the first axes of a grid."""
    sides = [grid.side(at) for at in range(kept)]
    make = lambda: Grid.of_sides(ctx.builder, sides, grid.count)  # noqa: E731
    return grid.derived(("before", ctx.builder, kept), make)


def _shape_of_lines(
    ctx: Context, lines: ir.Value, grid: Grid, numbers: Sequence[int], rank: int
) -> ir.Value:
    """Return the shape ``[B, *numbers, *rest]`` of the lines ``[G, *rest]`` of all samples.

    Args:
        ctx: The context.
        lines: The lines.
        grid: The grid of the samples.
        numbers: How many lines a sample has along each axis of the grid that is kept.
        rank: The number of axes that a sample has then.
    """
    if all(numbers) and len(numbers) == rank:
        return ctx.ints(-1, *numbers)
    return ctx.op("Concat", [grid.count, ctx.ints(*numbers), ctx.shape(lines, 1)], {"axis": 0})


def _lengths(ctx: Context, grid: Grid, kept: int) -> Lengths:
    """Return how many rows lie behind one another for each place along the first axes."""
    if not kept:
        return grid.rows
    behind = map(grid.side, range(kept, grid.rank))
    parts = ((side,) if isinstance(side, int) else side.product_of or (side,) for side in behind)
    sides = [side for several in parts for side in several]
    number = math.prod(side for side in sides if isinstance(side, int))
    columns = [side.value for side in sides if isinstance(side, Lengths)]
    if not columns:
        columns, number = [ctx.op("Expand", [ctx.ints(number), grid.count])], 1
    lengths = [Lengths(ctx.builder, _of_places(ctx, grid, kept, value)) for value in columns]
    return multiplied(ctx.builder, lengths).times(number)


def _of_places(ctx: Context, grid: Grid, kept: int, value: ir.Value) -> ir.Value:
    """Return a number of each sample, ``[B]``, for each place along the first axes."""
    numbers = [d for d in grid.dims[:kept] if isinstance(d, int)]
    if len(numbers) < kept:
        samples = _before(ctx, grid, kept).rows.samples
        return ctx.op("Gather", [value, samples], {"axis": 0})
    shape = ctx.op("Concat", [grid.count, ctx.ints(math.prod(numbers))], {"axis": 0})
    return ctx.reshape(ctx.op("Expand", [ctx.unsqueeze(value, [1]), shape]), ctx.ints(-1))


def _lines(ctx: Context, x: Batched, axis: int) -> Lines:
    if x.flat is None:
        raise Decline(Code.BATCHED_OPERAND, "what it goes by differs along several axes")
    found = lines_along(ctx, x, [axis])
    assert isinstance(found, Lines)
    return found


def _crosses(x: Batched, axis: int) -> bool:
    """Whether samples differ along an axis of theirs."""
    return x.flat is not None and x.flat.is_ragged(axis % x.rank)


def softmax(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Softmax, LogSoftmax and Hardmax along any axis."""
    x, axis = ctx.operand(operands, 0, "input"), int(ctx.attribute(node, "axis", -1))
    if not _crosses(x, axis):
        return [out for out in along(-1)(ctx, node, operands) if out is not None]
    found = _lines(ctx, x, axis)
    over_rows = hardmax_over_rows if node.op_type == "Hardmax" else softmax_over_rows
    made = over_rows(ctx, node, [found.packed])
    return [ctx.flat(out.value, found.flat) for out in made if out is not None]


def top_k(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """TopK along any axis: as many of each line, or all of them, sorted."""
    x, count = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "K")
    axis = int(ctx.attribute(node, "axis", -1))
    if x.flat is None or x.flat.ragged_axis is not None or not _crosses(x, axis):
        return [out for out in along(-1)(ctx, node, operands) if out is not None]
    size = x.flat.dimension(axis % x.rank)
    found = _lines(ctx, x, axis)
    if count.is_shared:
        made = top_of_rows(ctx, node, found.packed, count)
        return [found.of_places(ctx, value, found.flat.order) for value in made]
    if size is None or ctx.numbers.number(node.inputs[1]) != size:
        raise Decline(Code.BATCHED_OPERAND, "its K differs from sample to sample")
    return [ctx.flat(value, found.flat) for value in sorted_rows(ctx, node, found.packed)]


def position_of_best(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """ArgMax and ArgMin along any axis."""
    x, axis = ctx.operand(operands, 0, "data"), int(ctx.attribute(node, "axis", 0))
    if not _crosses(x, axis):
        simple = along(0)(ctx, node, operands)
        return [out for out in simple if out is not None]
    found = _lines(ctx, x, axis)
    last = int(ctx.attribute(node, "select_last_index", 0))
    given = {"axis": 0, "keepdims": 0, "select_last_index": last}
    (made,) = best_rows(ctx, ir.node(node.op_type, [], given), [found.packed])
    return [found.ended(ctx, made.value, keeps=bool(ctx.attribute(node, "keepdims", 1)))]
