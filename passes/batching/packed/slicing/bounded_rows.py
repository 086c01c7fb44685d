"""Rows of each sample between two bounds, cut out of the rows of all samples by one Gather.

Samples of 4 and 3 rows lie in one tensor of 7 rows. Bounds ``[1:3]`` and ``[-2:9]`` leave 2 rows
of each: rows 1 and 2 of the first, and rows ``4 + 1`` and ``4 + 2`` of all for the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.spread_rows import spread
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, only_number, operand
from passes.numbers.integers import Linear

__all__ = ["FAR", "LengthsKey", "cut_rows"]

LengthsKey: TypeAlias = Linear | tuple[Linear, ...] | None
"""How many rows are left of a sample, or what else tells that."""

FAR = 2**31
"""Bounds and steps that lead further than any row are written so, which compares right."""


def cut_rows(
    ctx: Context,
    value: ir.Value,
    bounds: Sequence[Batched],
    size: ir.Value,
    starts: ir.Value | None = None,
    axis: int = 0,
    *,
    step: int,
    key: LengthsKey = None,
) -> Output:
    """Cut rows of each sample out of the rows of all.

    The rows are read by one Gather. Bounds count and are clamped as Slice has it: a negative one
    counts from the end, and a slice that ends before it starts is empty.

    Args:
        ctx: The context.
        value: All rows.
        bounds: Where each sample begins and ends, ``[1]``: shared or stacked.
        size: How many rows a sample has: an int64 scalar, or int64 ``[B]``.
        starts: The first row of each sample, int64 ``[B]``; None if it is row 0.
        axis: The axis of the rows.
        step: From one row to the next, not 0.
        key: How many rows are left of a sample, or what else tells that; None if not known.
    """
    step = max(-FAR, min(step, FAR))
    sizes, begins = _forwards(ctx, bounds, size) if step > 0 else _backwards(ctx, bounds, size)
    if starts is not None:
        begins = ctx.op("Add", [begins, starts])
    if abs(step) > 1:
        more = ctx.op("Add", [sizes, ctx.builder.scalar(abs(step) - 1)])
        sizes = ctx.op("Div", [more, ctx.builder.scalar(abs(step))])
    lengths = Lengths(ctx.builder, sizes, size=key if isinstance(key, Linear) else None)
    if key is not None:
        lengths = ctx.lengths_by(key, lambda: lengths)
    if starts is None and step == 1 and lengths.likely is None:
        lengths.likely = size  # as a rule, slices do not overlap
    if step == 1:
        total = ctx.op("Squeeze", [lengths.total, ctx.ints(0)])
        places = ctx.arange(total)
        begins = ctx.op("Sub", [begins, lengths.starts])
    else:
        places = ctx.op("Mul", [lengths.positions, ctx.builder.scalar(step)])
    rows = ctx.op("Add", [places, spread(ctx, begins, lengths)])
    if axis or not _counts_its_rows(value):
        rows = ctx.op("Gather", [value, rows], {"axis": axis})
    return ctx.packed(rows, lengths, axis)


def _counts_its_rows(value: ir.Value) -> bool:
    """Whether rows are their own numbers: 0, 1, 2 and so on, as int64."""
    node = made_by(value, "Range")
    if node is None:
        return False
    first = constant_value(operand(node, 0))
    numbers = [only_number(operand(node, at)) for at in (0, 2)]
    return first is not None and first.dtype == np.int64 and numbers == [0, 1]


def _forwards(
    ctx: Context, bounds: Sequence[Batched], size: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return how many rows lie between bounds, and the first of them."""
    zero = ctx.builder.scalar(0)
    first, last = (
        ctx.op("Min", [ctx.op("Max", [_from_front(ctx, x, size), zero]), size]) for x in bounds
    )
    return ctx.op("Max", [ctx.op("Sub", [last, first]), zero]), first


def _backwards(
    ctx: Context, bounds: Sequence[Batched], size: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return how many rows lie between bounds, the second one in front, and the last of them."""
    zero, one = ctx.builder.scalar(0), ctx.builder.scalar(1)
    begin, end = (_from_front(ctx, x, size) for x in bounds)
    first = ctx.op("Max", [ctx.op("Min", [begin, ctx.op("Sub", [size, one])]), zero])
    last = ctx.op("Max", [end, ctx.builder.scalar(-1)])
    between = ctx.op("Max", [ctx.op("Sub", [first, last]), zero])
    return ctx.op("Min", [between, size]), first


def _from_front(ctx: Context, bound: Batched, size: ir.Value) -> ir.Value:
    """Return a bound of each sample as counted from its first row, int64 ``[B]``."""
    number = bound.value
    known = ctx.constant(bound)
    if known is not None:
        number = ctx.builder.constant(np.clip(known.astype(np.int64), -FAR, FAR - 1))
    elif bound.dtype != ir.DataType.INT64:
        number = ctx.op("Cast", [number], {"to": ir.DataType.INT64})
    if bound.is_stacked:
        number = ctx.squeeze(number, [1])
    else:
        number = ctx.op("Expand", [number, ctx.batch])
    if known is not None and not (known < 0).any():
        return number
    wrapped = ctx.op("Add", [number, size])
    is_negative = ctx.op("Less", [number, ctx.builder.scalar(0)])
    return ctx.op("Where", [is_negative, wrapped, number])
