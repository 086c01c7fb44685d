"""Operators that arrange the axes of flat samples, or ask for their shape; no row moves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.grid import Grid
from passes.batching.flat.moves import restacked, rows_again
from passes.batching.flat.reading import as_packed, in_order
from passes.batching.layouts import Batched
from passes.batching.packed.fixed_length import single_rows
from passes.decisions import Code, Decline
from passes.graph.builder import END

__all__ = ["eye_like", "shape", "size", "squeeze", "transpose", "unsqueeze"]


def _data(ctx: Context, operands: Sequence[Operand]) -> Batched:
    x = ctx.operand(operands, 0, "data")
    if x.flat is None:
        raise Decline(Code.BATCHED_OPERAND, "what it goes by differs along several axes")
    return x


def transpose(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Move axes: the rows stay, and the record of their order changes."""
    x = _data(ctx, operands)
    order = x.own_flat.order
    perm = ctx.attribute(node, "perm", range(len(order))[::-1])
    made = dataclasses.replace(x.own_flat, order=tuple(order[axis] for axis in perm))
    return [ctx.flat(x.value, made)]


def _given(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> list[int]:
    given = ctx.optional(operands, 1)
    axes = ctx.attribute(node, "axes") if given is None else ctx.constant(given)
    if axes is None:
        raise Decline(Code.RAGGED, "its axes are not given, and a size may be 1")
    return [int(a) for a in np.atleast_1d(axes)]


def unsqueeze(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """New axes come last in memory."""
    x = _data(ctx, operands)
    flat, given = x.own_flat, _given(ctx, node, operands)
    before = len(flat.order)
    rank = before + len(given)
    added = sorted(a % rank for a in given)
    behind = before - flat.grid.rank + 1
    rows = ctx.unsqueeze(x.value, range(behind, behind + len(added)))
    old = iter(flat.order)
    order = tuple(before + added.index(a) if a in added else next(old) for a in range(rank))
    return [ctx.flat(rows, dataclasses.replace(flat, order=order))]


def squeeze(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Axes of size 1 go; the one along which samples differ where it is the only such axis."""
    x = _with_known_ones(ctx, _data(ctx, operands))
    if x.own_flat.has_one_shape and not x.own_flat.is_plain:
        return restacked(ctx, node, operands)
    if x.own_flat.sampler is not None:
        x = rows_again(ctx, x)
    axes = sorted({a % x.rank for a in _given(ctx, node, operands)})
    if x.own_flat.ragged_axis in axes:
        rows = single_rows(ctx, as_packed(ctx, x))
        return [ctx.stacked(ctx.squeeze(rows, [a + 1 for a in axes]))]
    return [_without_axes(ctx, _read_along(ctx, x, axes), axes)]


def _with_known_ones(ctx: Context, x: Batched) -> Batched:
    """Return samples whose tables have one place in all of them where their type says so."""
    flat = x.own_flat
    tables = list(flat.tables)
    for axis, at in enumerate(flat.order):
        table = tables[at] if at < flat.grid.rank else None
        if table is not None and not table.is_fixed and x.dims[axis] == 1:
            tables[at] = dataclasses.replace(table, count=ctx.ints(1), is_fixed=True)
    return dataclasses.replace(x, flat=dataclasses.replace(flat, tables=tuple(tables)))


def _read_along(ctx: Context, x: Batched, axes: Sequence[int]) -> Batched:
    """Return samples read off their rows if they have a table along one of some axes."""
    flat = x.own_flat
    places = [flat.order[axis] for axis in axes]
    has_table = any(at < flat.grid.rank and flat.tables[at] is not None for at in places)
    return rows_again(ctx, x) if has_table else x


def _without_axes(ctx: Context, x: Batched, axes: Sequence[int]) -> Output:
    """Return samples without some axes of size 1."""
    flat = x.own_flat
    gone, rank = {flat.order[a] for a in axes}, len(flat.order)
    first = flat.grid.rank
    if any(at < first and flat.grid.dims[at] != 1 for at in gone):
        raise Decline(Code.RAGGED, "it removes an axis along which samples differ")
    rows = ctx.squeeze(x.value, sorted(at - first + 1 for at in gone if at >= first))
    kept = [at for at in range(first) if at not in gone]
    grid = flat.grid
    if len(kept) < first:
        grid = Grid.of_sides(ctx.builder, [grid.side(at) for at in kept], grid.count)
    places = [at for at in range(rank) if at not in gone]
    order = tuple(places.index(at) for at in flat.order if at not in gone)
    tables = tuple(flat.tables[at] for at in kept)
    return ctx.flat(rows, dataclasses.replace(flat, grid=grid, order=order, tables=tables))


def shape(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The shapes of all samples: int64 ``[B, rank]``, cut by ``start`` and ``end``.

    Where all have one shape it is shared.
    """
    start, end = ctx.attribute(node, "start", 0), ctx.attribute(node, "end", END)
    x = _data(ctx, operands)
    wanted = x.own_flat.order[slice(start, end)]
    if not wanted:
        raise Decline(Code.NO_RULE, "it asks for no axis")
    if x.own_flat.has_one_shape:
        sizes = [_size(ctx, x, at) for at in wanted]
        return [ctx.shared(sizes[0] if len(sizes) == 1 else ctx.op("Concat", sizes, {"axis": 0}))]
    columns = _sizes(ctx, x)[slice(start, end)]
    parts = [ctx.unsqueeze(column, [1]) for column in columns]
    return [ctx.stacked(parts[0] if len(parts) == 1 else ctx.op("Concat", parts, {"axis": 1}))]


def size(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The number of elements of each sample, int64 ``[B]``."""
    total, *others = _sizes(ctx, _data(ctx, operands))
    for column in others:
        total = ctx.op("Mul", [total, column])
    return [ctx.stacked(total)]


def _sizes(ctx: Context, x: Batched) -> list[ir.Value]:
    """Return the size of each sample along each of its axes, int64 ``[B]``."""
    flat = x.own_flat
    found = []
    for at in flat.order:
        size = _size(ctx, x, at)
        is_one = at >= flat.grid.rank or flat.is_counted_once(at)
        found.append(ctx.op("Expand", [size, flat.grid.count]) if is_one else size)
    return found


def _size(ctx: Context, x: Batched, at: int) -> ir.Value:
    """Return the size along an axis in memory, int64 ``[1]`` or ``[B]``."""
    flat = x.own_flat
    first = flat.grid.rank
    return flat.size(at) if at < first else ctx.shape(x.value, at - first + 1, at - first + 2)


def eye_like(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """One where the place along the second axis is that along the first and ``k``, else zero.

    Of sizes ``[[2, 3], [1, 1]]`` the ones stand in rows 0, 4 and 6 of seven.
    """
    x = ctx.operand(operands, 0, "input")
    dtype = ctx.attribute(node, "dtype") or x.dtype
    if dtype is None:
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells the element type of the result")
    rows, flat = in_order(ctx, x)
    row = flat.grid.place(0)
    if flat.grid.rank == 2:
        column = flat.grid.place(1)
    else:
        column = ctx.arange(ctx.squeeze(ctx.shape(rows, 1, 2), [0]))
        row = ctx.unsqueeze(row, [1])
    wanted = ctx.op("Add", [row, ctx.builder.scalar(int(ctx.attribute(node, "k", 0)))])
    is_one = ctx.op("Equal", [wanted, column])
    return [ctx.flat(ctx.op("Cast", [is_one], {"to": int(dtype)}), flat)]
