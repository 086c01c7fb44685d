"""Reads flat samples off their rows: as one tensor, or as rows that lie as the samples do."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.flat.axis_table import largest
from passes.batching.flat.grid import Grid, Side
from passes.batching.flat.laying import rows_within
from passes.batching.flat.places import (
    inside,
    rows_at,
    tables_of,
    with_fill,
    without_spares,
    without_unread,
)
from passes.batching.flat.resizing.antialias import resampled
from passes.batching.flat.resizing.taps import interpolated
from passes.batching.flat.resizing.whole_sums import summed_whole
from passes.batching.flat.rows_read import Read, gathered, rows_of_places
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.operators import Operators
from passes.batching.packed.checks import declared_without_samples, failing_where

__all__ = ["as_packed", "as_rows", "as_stacked", "flat_alike", "in_order", "known_from"]


def as_stacked(ops: Operators, x: Batched) -> ir.Value:
    """Return flat samples as one tensor ``[B, *s]``.

    Args:
        ops: Records the nodes.
        x: A flat value. Where its samples differ in shape, all are as large as the largest, and
            what is behind a sample means nothing.
    """
    value = _in_memory_order(ops, x)
    perm = [0, *(at + 1 for at in x.own_flat.order)]
    return value if perm == sorted(perm) else ops.op("Transpose", [value], {"perm": perm})


def as_packed(ops: Operators, x: Batched) -> Batched:
    """Return flat samples that differ along one axis alone as packed ones."""
    flat = x.own_flat
    assert flat.ragged_axis is not None
    axis = flat.ragged_axis
    if flat.sampler is None:
        return _as_lines(ops, x, flat, axis)
    size = flat.size(flat.order[axis])
    value = as_stacked(ops, x)
    rank = len(flat.order)
    order = [0, axis + 1, *(a + 1 for a in range(rank) if a != axis)]
    if axis:
        value = ops.op("Transpose", [value], {"perm": order})
    rows = rows_within(ops, value, size, is_vector=rank == 1)
    if axis:
        back = [(order[1:].index(a + 1)) for a in range(rank)]
        rows = ops.op("Transpose", [rows], {"perm": back})
    lengths = Lengths(ops.builder, size, size=flat.dimension(axis))
    return dataclasses.replace(
        x, layout=Layout.PACKED, value=rows, lengths=lengths, axis=axis, flat=None
    )


def _as_lines(ops: Operators, x: Batched, flat: FlatSamples, axis: int) -> Batched:
    """Return `as_packed` row by row, so that a sample without rows reads none."""
    rank = len(flat.order)
    perm = [axis, *(a for a in range(rank) if a != axis)]
    turned = dataclasses.replace(x, flat=flat).permuted(perm)
    order = turned.own_flat.order
    rows, made = in_order(ops, turned)
    lengths = made.grid.rows
    if known_from(turned) > 1:
        lengths = Lengths(ops.builder, flat.size(order[0]), size=flat.dimension(axis))
        sizes = [_number(ops, x.value, flat, at) for at in order[1 : made.grid.rank]]
        shape = [lengths.total, *sizes, ops.shape(rows, 1)]
        rows = ops.reshape(rows, ops.op("Concat", shape, {"axis": 0}))
    if axis:
        back = [perm.index(a) for a in range(rank)]
        rows = ops.op("Transpose", [rows], {"perm": back})
    return dataclasses.replace(
        x, layout=Layout.PACKED, value=rows, lengths=lengths, axis=axis, flat=None
    )


def _number(ops: Operators, rows: ir.Value, flat: FlatSamples, at: int) -> ir.Value:
    """Return the dimension that all samples have along an axis in memory, int64 ``[1]``."""
    behind = at - flat.grid.rank + 1
    return ops.shape(rows, behind, behind + 1) if behind > 0 else flat.size(at)


def flat_alike(ops: Operators, x: Batched, dims: Sequence[int | str | None] | None) -> ir.Value:
    """Return flat samples as ``[B, *s]``; it is an error at run time if their shapes differ.

    Args:
        ops: Records the nodes.
        x: The samples.
        dims: The declared dimensions of a sample.
    """
    flat = x.flat
    assert flat is not None
    flags, checked = [], flat.grid.column(0)
    for axis, at in enumerate(flat.order):
        if flat.is_ragged(axis):
            size = flat.size(at)
            alike = ops.op("Equal", [size, largest(ops, size, 0)])
            flags.append(ops.op("Not", [alike]))
    value = as_stacked(ops, dataclasses.replace(x, flat=without_spares(ops, flat)))
    count = ops.op("Shape", [failing_where(ops, checked, flags)])
    sizes = declared_without_samples(ops, count, ops.shape(value, 1), dims or ())
    return ops.reshape(value, ops.op("Concat", [count, sizes], {"axis": 0}))


def as_rows(ops: Operators, x: Batched) -> tuple[ir.Value, FlatSamples]:
    """Return the rows of flat samples as they are, in the order of the axes in memory.

    Args:
        ops: Records the nodes.
        x: A flat value whose samples differ in shape.
    """
    flat = x.own_flat
    if flat.is_plain:
        return x.value, flat
    grid = flat.grid.derived((id(ops.builder), flat.tables), lambda: _grid_of(ops, x, flat))
    made = FlatSamples(grid, flat.order, (None,) * grid.rank)
    if flat.sampler is not None:
        return _compressed(ops, _in_memory_order(ops, x), grid), made
    return _rows_of_grid(ops, x.value, flat, grid), made


def known_from(x: Batched) -> int:
    """Return from which axis of a flat sample on all samples have dimensions that are known."""
    axes = range(len(x.dims))
    return next((a + 1 for a in reversed(axes) if not isinstance(_known(x, a), int)), 0)


def _known(x: Batched, axis: int) -> int | None:
    dim = x.dims[axis]
    return dim if isinstance(dim, int) and not x.own_flat.is_ragged(axis) else None


def in_order(ops: Operators, x: Batched) -> tuple[ir.Value, FlatSamples]:
    """Return the rows of flat samples, in the order of the axes of a sample.

    The grid ends with the last axis whose dimension is not known.
    """
    value, flat = as_rows(ops, x)
    rank, first, behind = len(flat.order), flat.grid.rank, known_from(x)
    if flat.order == tuple(range(rank)) and behind == first:
        return value, flat
    sizes = _all_sides(ops, x, value, flat)
    moved = [sizes[at] for at in flat.order]
    turned = _moved(ops, value, sizes, flat)
    tail = [dim for axis in range(behind, rank) if (dim := _known(x, axis)) is not None]
    if turned is not value or sizes[first:] != tail:
        turned = _with_rows(ops, turned, tail)
    grid = Grid.of_sides(ops.builder, moved[:behind], flat.grid.count)
    return turned, FlatSamples(grid, tuple(range(rank)), (None,) * grid.rank)


def _with_rows(ops: Operators, elements: ir.Value, dims: Sequence[int]) -> ir.Value:
    """Return elements as rows of given dimensions."""
    if all(dims):
        return ops.op("Reshape", [elements, ops.ints(-1, *dims)])
    # A -1 could not be resolved where another dimension is 0.
    return ops.reshape(elements, ops.ints(0, *dims))


def _all_sides(ops: Operators, x: Batched, value: ir.Value, flat: FlatSamples) -> list[Side]:
    """Return the dimensions of flat samples, in the order in which they lie in memory."""
    first = flat.grid.rank
    sizes = [flat.grid.side(at) for at in range(first)]
    for at in range(first, len(flat.order)):
        known: Side | None = _known(x, flat.order.index(at))
        if known is None:
            number = ops.shape(value, at - first + 1, at - first + 2)
            known = Lengths(ops.builder, ops.op("Expand", [number, flat.grid.count]))
        sizes.append(known)
    return sizes


def _moved(ops: Operators, rows: ir.Value, sizes: Sequence[Side], flat: FlatSamples) -> ir.Value:
    """Return elements in the order of the axes of a sample: each is read in its new place.

    Those of axes of size 1 alone stay where they are.
    """
    others = [at for at in flat.order if sizes[at] != 1]
    if others == sorted(others):
        return rows
    elements = _with_rows(ops, rows, [])
    source = Grid.of_sides(ops.builder, sizes, flat.grid.count)
    made = Grid.of_sides(ops.builder, [sizes[at] for at in flat.order], flat.grid.count)
    return gathered(ops, elements, source, made, [*map(flat.order.index, range(source.rank))])


def _grid_of(ops: Operators, x: Batched, flat: FlatSamples) -> Grid:
    """Return the grid of samples as they are read."""
    sides = [_side(ops, x, flat, at) for at in range(flat.grid.rank)]
    return Grid.of_sides(ops.builder, sides, flat.grid.count)


def _side(ops: Operators, x: Batched, flat: FlatSamples, at: int) -> Side:
    """Return the dimension of samples along an axis of their grid."""
    table, known = flat.tables[at], _known(x, flat.order.index(at))
    if table is None:
        return flat.grid.side(at)
    if known is not None:
        return known
    if not table.is_fixed:
        return table.of_samples(ops.builder)
    each = ops.op("Expand", [table.count, flat.grid.count])
    return Lengths(ops.builder, each, size=table.size)


def _in_memory_order(ops: Operators, x: Batched) -> ir.Value:
    """Return flat samples as ``[B, *s]``, their axes in the order in which they lie in memory."""
    flat = x.own_flat
    if flat.sampler is None:
        rows, at = rows_at(ops, x.value, flat, tables_of(ops, flat))
        return ops.op("Gather", [rows, at], {"axis": 0})
    given, x = x, without_unread(ops, x)
    if flat.sampler.mode == "antialias":
        return resampled(ops, x, may_lack_rows=x is not given)
    return summed_whole(ops, x) if flat.sampler.mode == "whole" else interpolated(ops, x)


def _compressed(ops: Operators, value: ir.Value, grid: Grid) -> ir.Value:
    """Return the rows of samples that lie in ``[B, *largest, *rest]``."""
    sizes = {axis: dim for axis, dim in enumerate(grid.dims) if not isinstance(dim, int)}
    mask = inside(ops, value, sizes, grid.rank)
    head = ops.shape(value, 0, grid.rank + 1)
    total = ops.op("ReduceProd", [head], {"keepdims": 1})
    target = ops.op("Concat", [total, ops.shape(value, grid.rank + 1)], {"axis": 0})
    rows = ops.reshape(value, target)
    if mask is None:
        return rows
    mask = ops.reshape(ops.op("Expand", [mask, head]), total)
    return ops.op("Compress", [rows, mask], {"axis": 0})


def _rows_of_grid(ops: Operators, rows: ir.Value, flat: FlatSamples, grid: Grid) -> ir.Value:
    """Return the rows of samples by the tables that say which rows they read."""
    sample = grid.rows.samples
    read: list[Read] = []
    valid: ir.Value | None = None
    for axis, table in enumerate(flat.tables):
        if table is None and flat.grid.dims[axis] == 1:
            read.append(None)
            continue
        place: Read = axis
        if table is not None:
            pair = [ops.unsqueeze(v, [1]) for v in (sample, grid.place(axis))]
            entry = ops.op("Concat", pair, {"axis": 1})
            place = ops.op("GatherND", [_full(ops, table.index, flat.grid), entry])
            if table.valid is not None:
                one = ops.op("GatherND", [_full(ops, table.valid, flat.grid), entry])
                valid = one if valid is None else ops.op("And", [valid, one])
        read.append(place)
    at = rows_of_places(ops, flat.grid, grid, read)
    if valid is not None:
        rows, at = with_fill(ops, rows, flat, valid, at)
    return ops.op("Gather", [rows, at], {"axis": 0})


def _full(ops: Operators, table: ir.Value, grid: Grid) -> ir.Value:
    """Return a table ``[B, O]``, or ``[1, O]``, with a row for each sample."""
    shape = ops.op("Concat", [grid.count, ops.shape(table, 1, 2)], {"axis": 0})
    return ops.op("Expand", [table, shape])
