"""The rows of one grid that the rows of another one read.

Turned over, images ``[3, 2]`` and ``[4, 1]`` are ``[2, 3]`` and ``[1, 4]``, and read the rows
``[0, 2, 4, 1, 3, 5]`` and ``[6, 7, 8, 9]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

import onnx_ir as ir

from passes.batching.flat.grid import Grid
from passes.batching.operators import Operators

__all__ = ["Read", "gathered", "rows_of_places"]

Read: TypeAlias = ir.Value | int | None
"""The place that each row reads along an axis: a value, or its own along an axis of its grid.

None stands for the first place.
"""


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
    steps = _axes_read(source, reader, read)
    is_one = len(steps) < 2 and all(isinstance(step.place, range) for step in steps)
    if is_one and source.has_rows_of(reader):
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
    at: ir.Value | None = None
    for step in _axes_read(source, reader, read):
        place = step.place
        if isinstance(place, range):
            place = reader.place_among(place[0], place[-1])
        if at is not None and step.dims != [1]:
            at = ops.op("Mul", [at, _size_of_rows(ops, reader, step)])
        if place is not None:
            at = place if at is None else ops.op("Add", [at, place])
    base = ops.op("Gather", [source.base, reader.rows.samples])
    return base if at is None else ops.op("Add", [base, at])


@dataclasses.dataclass
class _AxesRead:
    """Some axes of a source that are read together.

    Attributes:
        dims: Their dimensions.
        place: Where each row reads: its own place along all of some axes of its grid, or see
            `Read`.
    """

    dims: list[int | ir.Value]
    place: ir.Value | range | None


def _axes_read(source: Grid, reader: Grid, read: Sequence[Read]) -> list[_AxesRead]:
    """Return which axes are read one after the other; those of size 1 hold nothing to be read.

    Axes that follow each other in both grids, and have the same dimensions, are read at once.
    """
    found: list[_AxesRead] = []
    for dim, one in zip(source.dims, read, strict=True):
        if dim == 1 and not isinstance(one, ir.Value):
            continue
        if not isinstance(one, int):
            found.append(_AxesRead([dim], one))
        elif not (found and _joins(found, reader, dim, one)):
            found.append(_AxesRead([dim], range(one, one + 1)))
    return found


def _joins(found: Sequence[_AxesRead], reader: Grid, dim: int | ir.Value, axis: int) -> bool:
    """Let an axis join the last step if it may; whether it does."""
    last = found[-1]
    if not isinstance(last.place, range) or axis < last.place.stop:
        return False
    between = reader.dims[last.place.stop : axis]
    has_its_size = len(found) == 1 or last.dims[0] == reader.dims[last.place.start]
    if not has_its_size or dim != reader.dims[axis] or any(d != 1 for d in between):
        return False
    last.dims.append(dim)
    last.place = range(last.place.start, axis + 1)
    return True


def _size_of_rows(ops: Operators, reader: Grid, step: _AxesRead) -> ir.Value:
    """Return how many places the axes of a step have for each row of a reader."""
    if isinstance(step.place, range) and len(step.dims) > 1:
        return reader.size_of_rows(step.place[0], step.place[-1])
    (dim,) = step.dims
    if isinstance(dim, int):
        return ops.ints(dim)
    if dim in reader.dims:
        axis = reader.dims.index(dim)
        return reader.size_of_rows(axis, axis)
    return ops.op("Gather", [dim, reader.rows.samples])
