"""Gather along an axis along which flat samples differ: which of its places a result reads.

Nothing is moved before the result is read: a Gather along rows, then one along columns, read once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.flat.families.regridding import regridded
from passes.batching.flat.grid import Side
from passes.batching.flat.laying import packed_laid_out
from passes.batching.flat.moves import rows_again
from passes.batching.flat.reading import in_order
from passes.batching.flat.row_positions import FAR
from passes.batching.flat.samples import AxisTable
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.padding import padded
from passes.batching.places import places_in_all
from passes.decisions import Code, Decline
from passes.numbers.integers import Linear

__all__ = ["read_along"]


@dataclasses.dataclass(frozen=True)
class _Indices:
    """Which places are read.

    Attributes:
        at: int64 ``[B, O]``, or ``[1, O]`` for all samples.
        count: See `AxisTable`.
        sides: The dimensions that take the place of the axis.
        size: See `AxisTable`.
        lengths: How many of the places each sample has; None if all have as many.
    """

    at: ir.Value
    count: ir.Value
    sides: Sequence[Side]
    size: Linear | None = None
    lengths: Lengths | None = None


def read_along(ctx: Context, x: Batched, indices: Batched, axis: int) -> Output:
    """Return the places of flat samples along an axis of their grid.

    Args:
        ctx: The context.
        x: The samples.
        indices: The places, of any layout but apart, and of any rank.
        axis: The axis of a sample, not negative.
    """
    flat = x.own_flat
    if flat.sampler is not None:
        x = rows_again(ctx, x)
        flat = x.own_flat
    at = flat.order[axis]
    is_ragged = not indices.has_an_axis
    found = _of_samples(ctx, indices) if is_ragged else _even(ctx, indices)
    size = ctx.unsqueeze(flat.size(at), [1])
    zero, far = ctx.builder.scalar(0), ctx.builder.scalar(FAR)
    where = places_in_all(ctx, found.at, zero, size, far)
    if found.lengths is not None:
        where = _clear_behind(ctx, where, found.lengths)
    table = _composed(ctx, flat.tables[at], where, flat.grid.count)
    is_fixed = found.lengths is None
    made = dataclasses.replace(table, count=found.count, is_fixed=is_fixed, size=found.size)
    tables = tuple(made if i == at else t for i, t in enumerate(flat.tables))
    read = dataclasses.replace(flat, tables=tables)
    if indices.rank == 1:
        return ctx.flat(x.value, read)
    numbers = [side for side in found.sides if isinstance(side, int)]
    whole = math.prod(numbers) if len(numbers) == len(found.sides) else None
    dims = tuple(whole if a == axis else d for a, d in enumerate(x.dims))
    once = dataclasses.replace(x, type=dataclasses.replace(x.type, dims=dims), flat=read)
    end = regridded(ctx, once, lambda s: [*s[:axis], *found.sides, *s[axis + 1 :]])
    return Batched(end.layout, end.value, flat=end.flat)


def _even(ctx: Context, indices: Batched) -> _Indices:
    """Return indices, as many for each sample."""
    shift = int(indices.is_stacked)
    shape = ctx.shape(indices.value, shift)
    count = ctx.op("ReduceProd", [shape], {"keepdims": 1})
    if indices.is_stacked:
        target = ctx.op("Concat", [ctx.batch, count], {"axis": 0})
    else:
        target = ctx.op("Concat", [ctx.ints(1), count], {"axis": 0})
    at = ctx.op("Cast", [ctx.reshape(indices.value, target)], {"to": int(ir.DataType.INT64)})
    numbers = [dim for dim in indices.dims if isinstance(dim, int)]
    if len(numbers) < indices.rank != 1:
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells the shape of its indices")
    return _Indices(at, count, numbers)


def _of_samples(ctx: Context, indices: Batched) -> _Indices:
    """Return indices, a different number for each sample."""
    laid = packed_laid_out(ctx, indices) if indices.is_packed else indices
    rows, flat = in_order(ctx, laid)
    rest = [dim for dim in laid.dims[flat.grid.rank :] if isinstance(dim, int)]
    lengths = flat.grid.rows.times(math.prod(rest))
    if rest:
        rows = ctx.reshape(rows, lengths.total)
    at = padded(ctx, rows, lengths, lengths.width)
    sides = [*(flat.grid.side(axis) for axis in range(flat.grid.rank)), *rest]
    at = ctx.op("Cast", [at], {"to": int(ir.DataType.INT64)})
    return _Indices(at, lengths.value, sides, lengths.size, lengths)


def _clear_behind(ctx: Context, where: ir.Value, lengths: Lengths) -> ir.Value:
    """Return places with 0 behind the last of each sample."""
    zero = ctx.builder.scalar(0)
    width = ctx.squeeze(ctx.shape(where, 1, 2), [0])
    inside = ctx.op("Less", [ctx.arange(width), ctx.unsqueeze(lengths.value, [1])])
    return ctx.op("Where", [inside, where, zero])


def _composed(
    ctx: Context, table: AxisTable | None, where: ir.Value, count: ir.Value
) -> AxisTable:
    """Return the table of what some places of a table read; the count is not yet that of it."""
    if table is None:
        return AxisTable(count, True, where)
    width = ctx.shape(where, 1, 2)
    shape = ctx.op("Concat", [count, width], {"axis": 0})
    at = ctx.op("Expand", [where, shape])

    def read(entries: ir.Value) -> ir.Value:
        whole = ctx.op("Concat", [count, ctx.shape(entries, 1)], {"axis": 0})
        every = ctx.op("Expand", [entries, whole])
        return ctx.op("GatherElements", [every, at], {"axis": 1})

    valid = None if table.valid is None else read(table.valid)
    return AxisTable(count, True, read(table.index), None, valid)
