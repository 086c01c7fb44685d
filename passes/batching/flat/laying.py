"""Lays shared and stacked values out as flat ones.

The axes along which samples will differ become those of a grid. Of a shared value all samples
read the same rows, so that nothing is copied before they are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.flat.axis_table import places
from passes.batching.flat.grid import Grid
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.operators import Operators

__all__ = ["laid_out", "packed_laid_out", "rows_within"]


def laid_out(ctx: Context, x: Batched, axes: Sequence[int]) -> Batched:
    """Return a shared or stacked value with some of its axes as those of a grid."""
    first = sorted({axis % x.rank for axis in axes})
    memory = [*first, *(axis for axis in range(x.rank) if axis not in first)]
    shift, value = int(x.is_stacked), x.value
    perm = [*range(shift), *(axis + shift for axis in memory)]
    if perm != sorted(perm):
        value = ctx.op("Transpose", [value], {"perm": perm})
    behind = shift + len(first)
    dims = [_column(ctx, x, axis, ctx.shape(value, shift + at, shift + at + 1))
            for at, axis in enumerate(first)]  # fmt: skip
    rows = _rows(ctx, value, behind, [x.dims[axis] for axis in memory[len(first) :]])
    grid = Grid(ctx.builder, dims, count=ctx.batch, is_shared=x.is_shared)
    order = tuple(memory.index(axis) for axis in range(x.rank))
    flat = FlatSamples(grid, order, (None,) * grid.rank)
    return dataclasses.replace(x, layout=Layout.FLAT, value=rows, flat=flat)


def _rows(
    ctx: Context, value: ir.Value, behind: int, dims: Sequence[int | str | None]
) -> ir.Value:
    """Return a value with one axis in place of its first ones.

    Args:
        ctx: The context.
        value: The value.
        behind: The axis behind these.
        dims: Its dimensions from there on, as far as they are known.
    """
    numbers = [dim for dim in dims if isinstance(dim, int) and dim]
    if len(numbers) == len(dims):
        return ctx.op("Reshape", [value, ctx.ints(-1, *numbers)])
    # The size is computed: a -1 could not be resolved where another dimension is 0.
    total = ctx.op("ReduceProd", [ctx.shape(value, 0, behind)], {"keepdims": 1})
    target = ctx.op("Concat", [total, ctx.shape(value, behind)], {"axis": 0})
    return ctx.reshape(value, target)


def packed_laid_out(ops: Operators, x: Batched) -> Batched:
    """Return packed samples as flat ones: a grid of the axes along which they differ."""
    if x.beside is not None:
        return _laid_out_by_both(ops, x, x.own_lengths, x.beside)
    memory = [x.axis, *(axis for axis in range(x.rank) if axis != x.axis)]
    value = x.value if not x.axis else ops.op("Transpose", [x.value], {"perm": memory})
    grid = Grid.of_sides(ops.builder, [x.own_lengths], x.own_lengths.count)
    order = tuple(memory.index(axis) for axis in range(x.rank))
    flat = FlatSamples(grid, order, (None,))
    return dataclasses.replace(x, layout=Layout.FLAT, value=value, lengths=None, axis=0, flat=flat)


def _laid_out_by_both(ops: Operators, x: Batched, lengths: Lengths, beside: Lengths) -> Batched:
    """Return packed samples that differ along their last axis, too, without what means nothing.

    Samples of 2 rows and of 1 row lie in ``[3, 3]``. The rows of the first have 3 places, that of
    the other has 1: 7 of the 9 places are kept.
    """
    rest = [axis for axis in range(x.rank - 1) if axis != x.axis]
    memory, value = [x.axis, x.rank - 1, *rest], x.value
    if memory != sorted(memory):
        value = ops.op("Transpose", [value], {"perm": memory})
    own = ops.op("Gather", [beside.value, lengths.samples], {"axis": 0})
    rows = rows_within(ops, value, own, is_vector=not rest)
    grid = Grid.of_sides(ops.builder, [lengths, beside], lengths.count)
    order = tuple(memory.index(axis) for axis in range(x.rank))
    made = FlatSamples(grid, order, (None, None))
    return dataclasses.replace(
        x, layout=Layout.FLAT, value=rows, lengths=None, beside=None, axis=0, flat=made
    )


def rows_within(ops: Operators, value: ir.Value, sizes: ir.Value, *, is_vector: bool) -> ir.Value:
    """Return the rows of ``[B, W, *rest]`` whose place along the second axis is within a size.

    Of sizes ``[2, 1]`` and rows ``[[a, b], [c, d]]`` these are ``[a, b, c]``.

    Args:
        ops: Records them.
        value: The rows.
        sizes: How many places of each ``W`` are kept, ``[B]``.
        is_vector: Whether a row is one number.
    """
    width = ops.shape(value, 1, 2)
    inside = ops.op("Less", [places(ops, width), ops.unsqueeze(sizes, [1])])
    total = ops.op("Mul", [ops.shape(value, 0, 1), width])
    target = total if is_vector else ops.op("Concat", [total, ops.shape(value, 2)], {"axis": 0})
    kept = [ops.reshape(value, target), ops.reshape(inside, total)]
    return ops.op("Compress", kept, {"axis": 0})


def _column(ctx: Context, x: Batched, axis: int, size: ir.Value) -> int | ir.Value:
    """Return the size of all samples along an axis as a number, or for each."""
    dim = x.dims[axis]
    return dim if isinstance(dim, int) else ctx.op("Expand", [size, ctx.batch])
