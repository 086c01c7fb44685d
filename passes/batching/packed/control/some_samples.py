"""Values of some of the samples, in any order.

Samples ``[2, 0]`` of the lengths ``[2, 1, 3]`` are the rows ``[3, 4, 5, 0, 1]``, with the lengths
``[3, 2]``.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.flat.grid import Grid, Side
from passes.batching.flat.laying import laid_out, packed_laid_out
from passes.batching.flat.moves import stacked_again
from passes.batching.flat.reading import as_rows, in_order
from passes.batching.flat.spreading import on_first, sides_of
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.spread_rows import spread
from passes.decisions import Code, Decline

__all__ = ["Subset", "as_packed", "inverse_of", "rows_and_sides"]


class Subset:
    """Picks samples out of values that hold all of them.

    Values that are packed alike stay packed alike.
    """

    def __init__(self, ctx: Context, numbers: ir.Value) -> None:
        """Describe which samples are picked.

        Args:
            ctx: Records the new nodes.
            numbers: The samples, int64 ``[N]``.
        """
        self._ctx = ctx
        self._numbers = numbers
        self._lengths: dict[Lengths, Lengths] = {}
        self._rows: dict[Lengths, ir.Value] = {}
        self._grids: dict[Grid, Grid] = {}

    def origin(self, lengths: Lengths | None) -> Lengths | None:
        """Return the lengths of all samples that some were picked from, None if there are none."""
        return next((old for old, new in self._lengths.items() if new is lengths), None)

    def know(self, all_lengths: Lengths, picked: Lengths) -> None:
        """Enter lengths of the picked samples that are there already."""
        self._lengths[all_lengths] = picked

    def of(self, x: Batched) -> Batched:
        """Return the picked samples of a value; one that is shared stays what it is.

        Raises:
            Decline: It is a sequence.
        """
        if x.is_shared:
            return x
        if not isinstance(x.type.type, ir.TensorType):
            raise Decline(Code.SEQUENCE_IN_BODY, "it picks samples of a sequence")
        if x.flat is not None and x.flat.has_one_shape:
            x = stacked_again(self._ctx, x)
        if x.flat is not None:
            return self._of_flat(x)
        if x.lengths is None:
            return dataclasses.replace(x, value=self._gather(x.value, self._numbers))
        rows = self._rows_of(x.lengths)
        value = self._ctx.op("Gather", [x.value, rows], {"axis": x.axis})
        return dataclasses.replace(x, value=value, lengths=self._lengths[x.lengths])

    def _of_flat(self, x: Batched) -> Batched:
        """Return the picked ones of samples that differ along several axes."""
        rows, flat = as_rows(self._ctx, x)
        grid = flat.grid
        if grid not in self._grids:
            sides = [self._side_of(grid.side(axis)) for axis in range(grid.rank)]
            count = self._ctx.op("Shape", [self._numbers])
            self._grids[grid] = Grid.of_sides(self._ctx.builder, sides, count)
        samples = dataclasses.replace(flat, grid=self._grids[grid])
        value = self._gather(rows, self._rows_of(grid.rows))
        return dataclasses.replace(x, value=value, flat=samples)

    def _side_of(self, side: Side) -> Side:
        return side if isinstance(side, int) else self._lengths_of(side)

    def _lengths_of(self, lengths: Lengths) -> Lengths:
        """Return the lengths of the picked samples."""
        if lengths not in self._lengths:
            sizes = self._gather(lengths.value, self._numbers)
            self._lengths[lengths] = Lengths(self._ctx.builder, sizes)
        return self._lengths[lengths]

    def _rows_of(self, lengths: Lengths) -> ir.Value:
        """Return the rows of the picked samples among those of all samples."""
        if lengths not in self._rows:
            picked = self._lengths_of(lengths)
            first = spread(self._ctx, self._gather(lengths.starts, self._numbers), picked)
            self._rows[lengths] = self._ctx.op("Add", [first, picked.positions])
        return self._rows[lengths]

    def _gather(self, value: ir.Value, indices: ir.Value) -> ir.Value:
        return self._ctx.op("Gather", [value, indices], {"axis": 0})


def as_packed(ctx: Context, x: Batched) -> tuple[ir.Value, ir.Value]:
    """Return the rows of all samples, one behind the other, and the length of each, ``[B]``.

    Raises:
        Decline: A sample has no rows.
    """
    if x.lengths is not None and x.axis == 0:
        return x.value, x.lengths.value
    if x.is_packed or not x.rank:
        raise Decline(Code.RAGGED, "it is not made of rows in both branches")
    value = ctx.expanded(x)
    return ctx.merged(value, x.dims), ctx.op("Expand", [ctx.shape(value, 1, 2), ctx.batch])


def rows_and_sides(ctx: Context, x: Batched, count: int) -> tuple[ir.Value, list[Side]]:
    """Return the rows of all samples, and their dimensions along the axes that rows are for.

    Args:
        ctx: The context.
        x: Samples of any layout but apart.
        count: How many of their axes, the first ones, rows are for; all samples have one known
            dimension along each other one.
    """
    if x.flat is not None and x.flat.has_one_shape:
        x = stacked_again(ctx, x)
    if x.is_packed:
        x = packed_laid_out(ctx, x)
    elif x.flat is None:
        every = dataclasses.replace(x, layout=Layout.STACKED, value=ctx.expanded(x))
        x = laid_out(ctx, every, range(count))
    rows, flat = in_order(ctx, x)
    ordered = dataclasses.replace(x, value=rows, flat=flat)
    grid, rows = on_first(ctx, ordered, sides_of(ordered), count)
    return rows, [grid.side(axis) for axis in range(count)]


def inverse_of(ctx: Context, order: ir.Value) -> ir.Value:
    """Return where each number stands in an order of ``0, 1, ..., N - 1``."""
    count = ctx.op("Squeeze", [ctx.op("Shape", [order]), ctx.ints(0)])
    numbers = ctx.arange(count)
    return ctx.op("ScatterElements", [order, order, numbers], {"axis": 0})
