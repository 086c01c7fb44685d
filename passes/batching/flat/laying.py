"""Lays shared and stacked values out as flat ones.

The axes along which samples will differ become those of a grid. Of a shared value all samples
read the same rows, so that nothing is copied before they are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.flat.grid import Grid
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.batching.operators import Operators
from passes.decisions import Code, Decline

__all__ = ["laid_out", "packed_laid_out"]


def laid_out(ctx: Context, x: Batched, axes: Sequence[int]) -> Batched:
    """Return a shared or stacked value with some of its axes as those of a grid."""
    first = sorted({axis % x.rank for axis in axes})
    memory = [*first, *(axis for axis in range(x.rank) if axis not in first)]
    shift, value = int(x.is_stacked), x.value
    perm = [*range(shift), *(axis + shift for axis in memory)]
    if perm != sorted(perm):
        value = ctx.op("Transpose", [value], {"perm": perm})
    behind = shift + len(first)
    total = ctx.op("ReduceProd", [ctx.shape(value, 0, behind)], {"keepdims": 1})
    dims = [_column(ctx, x, axis, ctx.shape(value, shift + at, shift + at + 1))
            for at, axis in enumerate(first)]  # fmt: skip
    if len(first) < x.rank:
        total = ctx.op("Concat", [total, ctx.shape(value, behind)], {"axis": 0})
    rows = ctx.reshape(value, total)
    grid = Grid(ctx.builder, dims, count=ctx.batch, is_shared=x.is_shared)
    order = tuple(memory.index(axis) for axis in range(x.rank))
    flat = FlatSamples(grid, order, (None,) * grid.rank)
    return dataclasses.replace(x, layout=Layout.FLAT, value=rows, flat=flat)


def packed_laid_out(ops: Operators, x: Batched) -> Batched:
    """Return packed samples as flat ones: a grid of the one axis along which they differ."""
    if x.lengths is None or x.beside is not None:
        raise Decline(Code.RAGGED, "its samples differ in length along two axes")
    memory = [x.axis, *(axis for axis in range(x.rank) if axis != x.axis)]
    value = x.value if not x.axis else ops.op("Transpose", [x.value], {"perm": memory})
    grid = Grid.of_sides(ops.builder, [x.lengths], x.lengths.count)
    order = tuple(memory.index(axis) for axis in range(x.rank))
    flat = FlatSamples(grid, order, (None,))
    return dataclasses.replace(x, layout=Layout.FLAT, value=value, lengths=None, axis=0, flat=flat)


def _column(ctx: Context, x: Batched, axis: int, size: ir.Value) -> int | ir.Value:
    """Return the size of all samples along an axis as a number, or for each."""
    dim = x.dims[axis]
    return dim if isinstance(dim, int) else ctx.op("Expand", [size, ctx.batch])
