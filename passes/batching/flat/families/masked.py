"""Flat samples padded behind to the largest, and what comes of them cut again.

Where the place of a result only depends on places of its sample, and on what does no harm outside
of it, an operator runs on all samples at once as if all were as large as the largest.

Images ``[2, 3]`` and ``[1, 4]`` are padded to ``[2, 2, 4]``: six and four places hold
numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.axis_table import picked, places
from passes.batching.flat.laying import laid_out
from passes.batching.flat.moves import flat_alone, read_off, stacked_rule
from passes.batching.flat.places import tables_of
from passes.batching.flat.reading import as_stacked
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.typing import ValueType

__all__ = ["as_largest", "cut_to", "lengths_of", "masked"]


def as_largest(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """An operator whose result is as large as its first operand, zeros behind doing no harm.

    Raises:
        Decline: Another operand is flat, too, or the rule for stacked samples declines.
    """
    x, _ = flat_alone(ctx, operands, "X")
    (made,) = stacked_rule(ctx, node, [masked(ctx, x), *operands[1:]])
    return [cut_to(ctx, made.value, x, x.rank, lengths_of(ctx, x))]


def _ragged_axes(x: Batched) -> list[int]:
    """Return the axes along which samples may differ."""
    return [axis for axis in range(x.rank) if x.own_flat.is_ragged(axis)]


def lengths_of(ctx: Context, x: Batched) -> dict[int, Lengths]:
    """Return the sizes of samples along the axes in which they differ."""
    flat = x.own_flat
    found = {}
    for axis in _ragged_axes(x):
        at = flat.order[axis]
        table = flat.tables[at]
        found[axis] = flat.grid.lengths(at) if table is None else table.of_samples(ctx.builder)
    return found


def masked(
    ctx: Context, x: Batched, fill: float = 0, sizes: Mapping[int, ir.Value] | None = None
) -> Batched:
    """Return flat samples stacked, ``[B, *s]``, with a number outside of each.

    A sample without rows reads none.

    Args:
        ctx: The context.
        x: Samples that differ in shape.
        fill: The number.
        sizes: How large the samples are along some of their axes, where that was checked.
    """
    x = read_off(ctx, x)
    flat = x.own_flat
    tables, known = [], {flat.order[axis]: size for axis, size in (sizes or {}).items()}
    for at, one in enumerate(tables_of(ctx, flat)):
        if not one.is_fixed:
            inside = places(ctx, ctx.shape(one.index, 1, 2))
            valid = ctx.op("Less", [inside, ctx.unsqueeze(known.get(at, one.count), [1])])
            one = dataclasses.replace(one, valid=valid)
        tables.append(one)
    around = ctx.builder.constant(np.array(fill).astype(x.element_type.numpy()))
    read = dataclasses.replace(flat, tables=tuple(tables), fill=around)
    value = as_stacked(ctx, dataclasses.replace(x, flat=read))
    ragged = _ragged_axes(x)
    dims = tuple(None if axis in ragged else dim for axis, dim in enumerate(x.dims))
    type_ = ValueType(x.type.type, dims)
    return dataclasses.replace(x, layout=Layout.STACKED, value=value, type=type_, flat=None)


def cut_to(
    ctx: Context, value: ir.Value, x: Batched, rank: int, sizes: Mapping[int, Lengths]
) -> Output:
    """Return results that lie in front of ``[B, *s]`` as samples of these sizes.

    Args:
        ctx: The context.
        value: The results, each as large as the largest.
        x: What they were made of, and have the element type of.
        rank: Rank of a result.
        sizes: How many places each sample has along some of its axes.
    """
    if not sizes:
        return ctx.stacked(value)
    whole = Batched(Layout.STACKED, value, ValueType(x.type.type, (None,) * rank))
    laid = laid_out(ctx, whole, sorted(sizes))
    flat = laid.own_flat
    tables = list(flat.tables)
    for axis, lengths in sizes.items():
        at, where = flat.order[axis], places(ctx, ctx.shape(value, axis + 1, axis + 2))
        cut = picked(ctx, flat, at, where, lengths.value, is_fixed=False, may_miss=False)
        tables[at] = dataclasses.replace(cut, size=lengths.size)
    return ctx.flat(laid.value, dataclasses.replace(flat, tables=tuple(tables)))
