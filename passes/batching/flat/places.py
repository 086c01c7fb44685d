"""The rows that the places of flat samples read.

Place ``(1, 2)`` of an image ``[2, 3]`` whose rows begin at row 6 reads row ``6 + 1 * 3 + 2``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from passes.batching.flat.axis_table import identity, places, without_spare
from passes.batching.flat.grid import Grid
from passes.batching.flat.samples import AxisTable, FlatSamples
from passes.batching.layouts import Batched
from passes.batching.operators import Operators

__all__ = [
    "Read",
    "along",
    "filled",
    "gathered",
    "rows_at",
    "rows_of_places",
    "tables_of",
    "valid_places",
    "with_fill",
    "without_spares",
    "without_unread",
]


Read: TypeAlias = ir.Value | int | None
"""The place that each row reads along an axis: a value, or its own along an axis of its grid.

None stands for the first place.
"""


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
    flat = x.flat
    assert flat is not None and x.dtype is not None
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
    valid = valid_places(ops, tables)
    if valid is None:
        return rows, at
    return with_fill(ops, rows, flat, valid, at)


def gathered(
    ops: Operators, rows: ir.Value, source: Grid, reader: Grid, read: Sequence[Read]
) -> ir.Value:
    """Return the rows of one grid that those of another one read: as they are if none moves.

    Args:
        ops: Records the nodes.
        rows: The rows of the source.
        source: See `rows_of_places`.
        reader: See `rows_of_places`.
        read: See `rows_of_places`.
    """
    count, _ = _beginning(source, reader, read)
    if count == source.rank and source.has_rows_of(reader):
        return rows
    return ops.op("Gather", [rows, rows_of_places(ops, source, reader, read)], {"axis": 0})


def rows_of_places(ops: Operators, source: Grid, reader: Grid, read: Sequence[Read]) -> ir.Value:
    """Return which row of one grid each row of another one reads, int64 ``[P]``.

    Args:
        ops: Records the nodes.
        source: The grid that is read.
        reader: The grid that reads.
        read: The place of each row along the axes of the source.
    """
    count, last = _beginning(source, reader, read)
    at = None if last is None else reader.line(last)
    known = {dim: axis for axis, dim in enumerate(reader.dims) if isinstance(dim, ir.Value)}
    for dim, one in zip(source.dims[count:], read[count:], strict=True):
        place = reader.place(one) if isinstance(one, int) else one
        if at is not None and dim != 1:
            if isinstance(dim, int):
                step = ops.ints(dim)
            elif dim in known:
                step = reader.of_rows(known[dim])
            else:
                step = ops.op("Gather", [dim, reader.rows.samples])
            at = ops.op("Mul", [at, step])
        if place is not None:
            at = place if at is None else ops.op("Add", [at, place])
    base = ops.op("Gather", [source.base, reader.rows.samples])
    return base if at is None else ops.op("Add", [base, at])


def _beginning(source: Grid, reader: Grid, read: Sequence[Read]) -> tuple[int, int | None]:
    """Return how many first axes of a grid another one has, too, and reads place by place.

    Axes of size 1 do not count.

    Returns:
        The number of axes of the source, and the last one of the reader; None for no axis.
    """
    last: int | None = None
    for axis, (dim, one) in enumerate(zip(source.dims, read, strict=True)):
        if dim == 1 and not isinstance(one, ir.Value):
            continue
        start = 0 if last is None else last + 1
        if not isinstance(one, int) or one < start:
            return axis, last
        others = [d for d in reader.dims[start:one] if d != 1]
        if others or (last is not None and dim != reader.dims[one]):
            return axis, last
        last = one
    return source.rank, last


def with_fill(
    ops: Operators, rows: ir.Value, flat: FlatSamples, valid: ir.Value, at: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return rows with one of the fill behind them, which is read where nothing else is."""
    assert flat.fill is not None
    last = ops.shape(rows, 0, 1)
    return _with_row(ops, rows, flat.fill), ops.op("Where", [valid, at, last])


def _with_row(ops: Operators, rows: ir.Value, number: ir.Value) -> ir.Value:
    """Return rows with one behind them that holds a number."""
    one = ops.op("Concat", [ops.ints(1), ops.shape(rows, 1)], {"axis": 0})
    return ops.op("Concat", [rows, ops.op("Expand", [number, one])], {"axis": 0})


def valid_places(ops: Operators, tables: Sequence[AxisTable]) -> ir.Value | None:
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


def filled(
    ops: Operators,
    flat: FlatSamples,
    tables: Sequence[AxisTable],
    value: ir.Value,
    rank: int,
) -> ir.Value:
    """Return ``[B, *s]`` with the fill where a place reads nothing."""
    valid = valid_places(ops, tables)
    if valid is None:
        return value
    assert flat.fill is not None
    valid = ops.unsqueeze(valid, range(len(tables) + 1, rank + 1))
    return ops.op("Where", [valid, value, flat.fill])
