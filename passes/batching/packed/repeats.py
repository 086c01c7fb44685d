"""Tile by a number of each sample, or of rows of each sample.

Rows ``[[a], [b]]`` of two samples, tiled 2 and 3 times, are the packed rows ``a a b b b``: each
row is read where it stands in its sample, modulo the rows that the sample has.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import sample_numbers
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.fills import lengths_of_size, own_sizes
from passes.batching.packed.row_by_row import crosses
from passes.decisions import Code, Decline
from passes.graph.made import operand
from passes.numbers.integers import Linear
from passes.typing import ValueType

__all__ = ["tile_to_lengths"]


def tile_to_lengths(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Tile along one axis in which what becomes of the samples differs in length."""
    data = ctx.operand(operands, 0, "input")
    repeats, apart = own_sizes(ctx, operand(node, 1), "repeats")
    if len(repeats) != data.rank:
        raise Decline(Code.NO_RULE, f"samples of rank {data.rank} have {len(repeats)} repeats")
    if data.is_packed:
        apart = sorted({*apart, data.axis})
    if data.beside is not None or len(apart) > 1:
        raise crosses("Tile")
    value = _tiled_alike(ctx, data, repeats, apart)
    if not apart:
        return [ctx.stacked(value)]
    (axis,) = apart
    rows, own, starts = _rows(ctx, data, value, axis)
    lengths = _lengths(ctx, data, repeats[axis], axis, own)
    value = ctx.op("Gather", [rows, _places(ctx, data, lengths, own, starts, axis)], {"axis": 0})
    if axis:
        back = [*range(1, axis + 1), 0, *range(axis + 1, data.rank)]
        value = ctx.op("Transpose", [value], {"perm": back})
    known = ValueType(None, tuple(_tiled(data, repeats, at, axis) for at in range(data.rank)))
    return [Batched(Layout.PACKED, value, known, lengths=lengths, axis=axis)]


def _tiled(data: Batched, repeats: Sequence[Linear], at: int, axis: int) -> int | str | None:
    """Return a dimension of the tiled samples, None of the axis in which they differ."""
    size, times = data.dims[at], repeats[at].number
    if at == axis or times is None:
        return None
    return size * times if isinstance(size, int) else size if times == 1 else None


def _tiled_alike(
    ctx: Context, data: Batched, repeats: Sequence[Linear], apart: Sequence[int]
) -> ir.Value:
    """Tile along the axes in which all samples are tiled alike: stacked, or packed as the data."""
    numbers = [Linear(1) if axis in apart else n for axis, n in enumerate(repeats)]
    value = data.value if data.is_packed else ctx.expanded(data)
    if all(n == Linear(1) for n in numbers):
        return value
    times = [ctx.numbers.write(ctx, n) for n in numbers]
    if not data.is_packed:
        times.insert(0, ctx.ints(1))
    shape = times[0] if len(times) == 1 else ctx.op("Concat", times, {"axis": 0})
    return ctx.op("Tile", [value, shape])


def _rows(
    ctx: Context, data: Batched, value: ir.Value, axis: int
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return all rows along an axis, how many a sample has, and where its own begin.

    The last two are int64 ``[B]``; of stacked samples, the first of them is ``[1]``.
    """
    order = [axis, *(i for i in range(data.rank) if i != axis)]
    if data.lengths is not None:
        rows = ctx.op("Transpose", [value], {"perm": order}) if axis else value
        return rows, data.lengths.value, data.lengths.starts
    own = ctx.shape(value, axis + 1, axis + 2)
    if axis:
        value = ctx.op("Transpose", [value], {"perm": [0, *(i + 1 for i in order)]})
    dims = [data.dims[axis], *([None] * (data.rank - 1))]
    return ctx.merged(value, dims), own, sample_numbers(ctx, own, 0)


def _lengths(ctx: Context, data: Batched, times: Linear, axis: int, own: ir.Value) -> Lengths:
    """Return how many rows each sample has that is tiled a number of times."""
    size = None if data.is_packed else data.dims[axis]
    if isinstance(size, int):
        return lengths_of_size(ctx, times * size, "repeats")
    number = lengths_of_size(ctx, times, "repeats").value
    return Lengths(ctx.builder, ctx.op("Mul", [number, own]))


def _places(
    ctx: Context, data: Batched, lengths: Lengths, own: ir.Value, starts: ir.Value, axis: int
) -> ir.Value:
    """Return which of all rows stands at each place of the tiled samples."""
    if not data.is_packed and data.dims[axis] == 1:
        return lengths.samples
    first = ctx.op("Gather", [starts, lengths.samples], {"axis": 0})
    size = data.dims[axis]
    if data.is_packed:
        own = ctx.op("Gather", [own, lengths.samples], {"axis": 0})
    elif not isinstance(size, int) or not size:
        own = ctx.op("Max", [own, ctx.ints(1)])  # runtimes divide by it where there is nothing
    return ctx.op("Add", [first, ctx.op("Mod", [lengths.positions, own])])
