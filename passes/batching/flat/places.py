"""The rows that the places of flat samples read.

Place ``(1, 2)`` of an image ``[2, 3]`` whose rows begin at row 6 reads row ``6 + 1 * 3 + 2``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.flat.axis_table import identity, places, without_spare
from passes.batching.flat.grid import Grid
from passes.batching.flat.samples import AxisTable, FlatSamples
from passes.batching.layouts import Batched
from passes.batching.operators import Operators

__all__ = [
    "along",
    "filled",
    "inside",
    "rows_at",
    "tables_of",
    "with_fill",
    "without_spares",
    "without_unread",
]


def tables_of(ops: Operators, flat: FlatSamples) -> list[AxisTable]:
    """Return a table for each axis of the grid."""
    return [
        _whole(ops, flat.grid, at) if table is None else table
        for at, table in enumerate(flat.tables)
    ]


def without_spares(ops: Operators, flat: FlatSamples) -> FlatSamples:
    """Return samples whose tables are as wide as the largest one, even if that has no place."""
    tables = tuple(without_spare(ops, table) for table in tables_of(ops, flat))
    return dataclasses.replace(flat, tables=tables)


def _whole(ops: Operators, grid: Grid, at: int) -> AxisTable:
    dim = grid.dims[at]
    if isinstance(dim, ir.Value):
        return identity(ops, dim)
    width = ops.ints(dim)
    return AxisTable(width, True, places(ops, width))


def without_unread(ops: Operators, x: Batched) -> Batched:
    """Return samples without rows as some that read the first row, where no place reads any.

    A Resize of nothing to nothing is legal. What is read for it lies behind the sample, or under
    the fill. Where no sample has a row, a spare one is read.
    """
    flat = x.own_flat
    assert x.dtype is not None
    tables, unread = tables_of(ops, flat), None
    for table in tables:
        if table.valid is not None:
            reads = ops.op("Cast", [table.valid], {"to": ir.DataType.INT32.value})
            most = ops.squeeze(ops.reduce("ReduceMax", reads, [1]), [1])
            none = ops.op("Not", [ops.op("Cast", [most], {"to": ir.DataType.BOOL.value})])
        elif not table.is_fixed:
            none = ops.op("Equal", [table.count, ops.builder.scalar(0)])
        else:
            continue
        unread = none if unread is None else ops.op("Or", [unread, none])
    if unread is None:
        return x
    grid, zero, made = flat.grid, ops.builder.scalar(0), []
    unread = ops.op("And", [ops.op("Equal", [grid.rows.value, zero]), unread])
    for table in tables:
        behind = range(1, 2 if table.weight is None else 3)
        index = ops.op("Where", [ops.unsqueeze(unread, behind), zero, table.index])
        made.append(dataclasses.replace(table, index=index))
    flat = dataclasses.replace(flat, grid=grid.at_start(ops.builder, unread), tables=tuple(made))
    rows = _with_row(ops, x.value, ops.builder.constant(np.zeros((), x.dtype.numpy())))
    return dataclasses.replace(x, value=rows, flat=flat)


def rows_at(
    ops: Operators, rows: ir.Value, flat: FlatSamples, tables: Sequence[AxisTable]
) -> tuple[ir.Value, ir.Value]:
    """Return which row each place of a result reads, int64 ``[B, *O]``.

    Args:
        ops: Records the nodes.
        rows: The rows.
        flat: How samples are read off them.
        tables: What is read along each axis of the grid, one place for each.

    Returns:
        The rows, with one of the fill behind them where a place may read none, and the numbers.
    """
    rank = flat.grid.rank
    others = range(1, rank + 1)
    at = ops.unsqueeze(flat.grid.base, others)
    for axis, table in enumerate(tables):
        term = table.index
        stride = flat.grid.stride(axis)
        if stride is not None:
            term = ops.op("Mul", [term, ops.unsqueeze(stride, [1])])
        at = ops.op("Add", [at, along(ops, term, axis, rank)])
    valid = _valid_places(ops, tables)
    if valid is None:
        return rows, at
    return with_fill(ops, rows, flat, valid, at)


def with_fill(
    ops: Operators, rows: ir.Value, flat: FlatSamples, valid: ir.Value, at: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return rows with one of the fill behind them, which is read where nothing else is.

    Args:
        ops: Records the nodes.
        rows: The rows of all samples, one behind another.
        flat: Says what fills places that read nothing.
        valid: Of each place whether it reads a row.
        at: The row that it reads.

    Returns:
        The rows, one more, and the row that each place reads now.
    """
    assert flat.fill is not None
    last = ops.shape(rows, 0, 1)
    return _with_row(ops, rows, flat.fill), ops.op("Where", [valid, at, last])


def _with_row(ops: Operators, rows: ir.Value, number: ir.Value) -> ir.Value:
    """Return rows with one behind them that holds a number.

    It is a vector: WebGPU's kernel spreads no scalar of bytes.
    """
    one = ops.op("Concat", [ops.ints(1), ops.shape(rows, 1)], {"axis": 0})
    row = ops.op("Expand", [ops.unsqueeze(number, [0]), one])
    return ops.op("Concat", [rows, row], {"axis": 0})


def _valid_places(ops: Operators, tables: Sequence[AxisTable]) -> ir.Value | None:
    """Return whether the places of a result read anything, bool ``[B, *O]``; None if all do."""
    found: ir.Value | None = None
    for axis, table in enumerate(tables):
        if table.valid is not None:
            one = along(ops, table.valid, axis, len(tables))
            found = one if found is None else ops.op("And", [found, one])
    return found


def along(ops: Operators, table: ir.Value, axis: int, rank: int) -> ir.Value:
    """Return ``[B, O]`` with ``O`` at one of ``rank`` axes behind the first."""
    return ops.unsqueeze(table, [i + 1 for i in range(rank) if i != axis])


def inside(
    ops: Operators, value: ir.Value, sizes: Mapping[int, ir.Value], rank: int
) -> ir.Value | None:
    """Return which places of ``[B, *s]`` lie within their sample; None where all do.

    Args:
        ops: Records the nodes.
        value: The samples, as large as the largest of them.
        sizes: The sizes ``[B]`` of samples along the axes along which they differ.
        rank: How many axes a sample has.
    """
    found: ir.Value | None = None
    for axis, size in sizes.items():
        width = ops.shape(value, axis + 1, axis + 2)
        one = ops.op("Less", [places(ops, width), ops.unsqueeze(size, [1])])
        one = along(ops, one, axis, rank)
        found = one if found is None else ops.op("And", [found, one])
    return found


def filled(
    ops: Operators,
    flat: FlatSamples,
    tables: Sequence[AxisTable],
    value: ir.Value,
    rank: int,
) -> ir.Value:
    """Return ``[B, *s]`` with the fill where a place reads nothing.

    Args:
        ops: Records the nodes.
        flat: Says what fills places that read nothing.
        tables: The places that each axis reads, one table an axis.
        value: What was read, ``[B, *s]``.
        rank: The rank of a sample.
    """
    valid = _valid_places(ops, tables)
    if valid is None:
        return value
    assert flat.fill is not None
    valid = ops.unsqueeze(valid, range(len(tables) + 1, rank + 1))
    return ops.op("Where", [valid, value, flat.fill])
