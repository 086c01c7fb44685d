"""Positions of elements of flat samples as positions in their rows.

The element at ``(y, x)`` of a sample of ``[h, w]`` is ``y * w + x`` rows behind its first.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.flat.grid import Grid
from passes.batching.layouts import Batched
from passes.batching.places import places_in_all
from passes.decisions import Code, Decline
from passes.graph.builder import END

__all__ = ["FAR", "coordinates", "row_positions"]

FAR = 1 << 40
"""A place that no sample has: what reads it is an error."""


def row_positions(ctx: Context, grid: Grid, held: Batched, samples: ir.Value) -> ir.Value:
    """Return positions whose first coordinate is a row, in place of those along the grid.

    Raises:
        Decline: They do not tell all axes along which samples differ.
    """
    count = held.dims[-1]
    assert isinstance(count, int)
    if count < grid.rank:
        raise Decline(Code.RAGGED, "it picks parts of samples that differ in size")
    where = ctx.op("Cast", [held.value], {"to": int(ir.DataType.INT64)})
    row = ctx.op("Gather", [grid.base, samples], {"axis": 0})
    far, zero = ctx.builder.scalar(FAR), ctx.builder.scalar(0)
    for axis in range(grid.rank):
        place = coordinates(ctx, where, axis, axis + 1)
        size = ctx.op("Gather", [grid.column(axis), samples], {"axis": 0})
        inside, step = places_in_all(ctx, place, zero, size, far), grid.stride(axis)
        if step is not None:
            step = ctx.op("Gather", [step, samples], {"axis": 0})
            inside = ctx.op("Mul", [inside, step])
        row = ctx.op("Add", [row, inside])
    if count == grid.rank:
        return row
    return ctx.op("Concat", [row, coordinates(ctx, where, grid.rank, END)], {"axis": -1})


def coordinates(ctx: Context, where: ir.Value, start: int, end: int) -> ir.Value:
    """Return some of the coordinates that positions have along their last axis."""
    return ctx.op("Slice", [where, ctx.ints(start), ctx.ints(end), ctx.ints(-1)])
