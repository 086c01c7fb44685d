"""Operators that cut packed samples and put them together.

Lengths ``[3, 2]``: ``x[1:]`` reads rows 1, 2 and 4 of the five, with the lengths ``[2, 1]``.
Joined with samples of the lengths ``[1, 1]`` they are ``[3, 2]`` again, and the parts of each
sample lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.shapes import fitting
from passes.batching.flat.families.boxes import boxes_of_spans, cut_axes
from passes.batching.layouts import Batched, present
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import equally_long
from passes.batching.packed.row_by_row import (
    crosses,
    lengths_of,
    packed_data,
    rows,
    same_rows,
    sample_axis,
)
from passes.batching.packed.slicing.bounded_rows import cut_rows
from passes.batching.packed.slicing.pads import pad_with
from passes.batching.packed.slicing.rows_left import rows_left
from passes.batching.packed.spread_rows import spread
from passes.decisions import Code, Decline
from passes.graph.graphs import is_operator
from passes.numbers.integers import Linear

__all__ = ["concat_rows", "slice_rows", "split_rows"]


def slice_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Cut axes of the rows, or the axis of different lengths, or both."""
    data = ctx.operand(operands, 0, "data")
    bounds = [ctx.operand(operands, i, name) for i, name in ((1, "starts"), (2, "ends"))]
    steps = ctx.optional(operands, 4)
    along = [sample_axis(axis, data.rank) for axis in cut_axes(ctx, operands)]
    if data.axis not in along:
        if ctx.takes_flat and not all(x.is_shared for x in bounds):
            return boxes_of_spans(ctx, node, operands)
        return rows(ctx, node, operands)
    by = [1] * len(along) if steps is None else _numbers(ctx, steps)
    if by is None or any(x.is_packed for x in bounds):
        raise Decline(Code.RAGGED, "its bounds or steps differ in length, or are not known")
    value, place = data.value, along.index(data.axis)
    if len(along) > 1:
        begins, ends = (_numbers(ctx, x) for x in bounds)
        if begins is None or ends is None:
            raise crosses(node.op_type)
        others = [i for i in range(len(along)) if i != place]
        columns = [ctx.ints(*(x[i] for i in others)) for x in (begins, ends, along, by)]
        value = ctx.op("Slice", [value, *columns])
        bounds = [ctx.typed(ctx.ints(x[place]), ir.DataType.INT64, 1) for x in (begins, ends)]
    key = rows_left(ctx, node, data.own_lengths.size, place) if by[place] == 1 else None
    if key == data.own_lengths.size:
        return [ctx.packed(value, data.own_lengths, data.axis)]
    sizes, starts = data.own_lengths.value, data.own_lengths.starts
    return [cut_rows(ctx, value, bounds, sizes, starts, data.axis, step=by[place], key=key)]


def split_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Split rows along an axis that does not differ in length; the sizes are shared."""
    data, lengths = packed_data(ctx, operands)
    axis = sample_axis(int(ctx.attribute(node, "axis", 0)), data.rank)
    sizes = ctx.optional(operands, 1)
    if axis == data.axis:
        raise crosses(node.op_type)
    given = None if sizes is None else sizes.value
    value = fitting(ctx, node, data, given, axis)
    inputs = [value] if given is None else [value, given]
    return same_rows(ctx, node, inputs, lengths, axis=data.axis)


def _numbers(ctx: Context, operand: Batched) -> list[int] | None:
    """Return a constant vector, None if it is not known."""
    known = ctx.constant(operand)
    return None if known is None else [int(n) for n in known.reshape(-1)]


def concat_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Concatenate rows, each with what belongs to it; or samples, one behind the other."""
    given = present(operands)
    axis = sample_axis(int(ctx.attribute(node, "axis", 0)), given[0].rank)
    along = {x.axis for x in given if x.is_packed}
    if along != {axis}:
        if not all(x.is_packed for x in given) or len(along) > 1:
            raise Decline(Code.RAGGED, "its operands are not proven to be equally long")
        lengths = lengths_of(equally_long(ctx, operands))
        return same_rows(ctx, node, [x.value for x in given], lengths, axis=along.pop())
    filled = _as_padding(ctx, node, given, axis)
    if filled is not None:
        return [filled]
    parts = [_part(ctx, x, axis) for x in given]
    numbers = [ctx.numbers.dimension(v, axis) for v in node.inputs if v is not None]
    known = [n for n in numbers if n is not None]
    size = sum(known, Linear()) if len(known) == len(given) else None
    sizes = parts[0][1]
    for _, more, _ in parts[1:]:
        sizes = ctx.op("Add", [sizes, more])
    joined = Lengths(ctx.builder, ctx.op("Expand", [sizes, ctx.batch]), size=size)
    if size is not None:
        joined = ctx.lengths_by(size, lambda: joined)
    where, before, base = None, ctx.builder.scalar(0), ctx.ints(0)
    for value, size_of_part, starts in parts:
        place = ctx.op("Sub", [joined.positions, _spread_any(ctx, before, joined)])
        first = ctx.op("Add", [_spread_any(ctx, starts, joined), base])
        row = ctx.op("Add", [place, first])
        reached = ctx.op("GreaterOrEqual", [place, ctx.builder.scalar(0)])
        where = row if where is None else ctx.op("Where", [reached, row, where])
        before = ctx.op("Add", [before, size_of_part])
        base = ctx.op("Add", [base, ctx.shape(value, axis, axis + 1)])
    assert where is not None
    all_rows = ctx.op("Concat", [value for value, _, _ in parts], {"axis": axis})
    return [ctx.packed(ctx.op("Gather", [all_rows, where], {"axis": axis}), joined, axis)]


def _as_padding(ctx: Context, node: ir.Node, given: Sequence[Batched], axis: int) -> Output | None:
    """Pad samples where all that is joined to them is one constant number.

    ``Concat(x, ConstantOfShape(n))`` is the Pad by which exporters write ``pad_sequence``.
    """
    fills = [_constant_of(x) for x in given]
    rest = [i for i, fill in enumerate(fills) if fill is None]
    numbers = [ctx.numbers.dimension(v, axis) for v in node.inputs if v is not None]
    known = [n for n in numbers if n is not None]
    if len(rest) != 1 or len(known) < len(given) or not given[rest[0]].is_packed:
        return None
    (place,), values = rest, {f.tobytes() for f in fills if f is not None}
    amounts = [sum(known[:place], Linear()), sum(known[place + 1 :], Linear())]
    if len(values) != 1 or not all(map(ctx.numbers.is_at_hand, amounts)):
        return None
    fill = next(f for f in fills if f is not None)
    return pad_with(ctx, given[place], amounts[0], amounts[1], fill)


def _constant_of(x: Batched) -> np.ndarray | None:
    """Return the number that a value of one constant consists of, None for any other value."""
    made = x.value.producer()
    if not is_operator(made, "ConstantOfShape"):
        return None
    fill = made.attributes.get("value")
    return np.zeros(1, np.float32) if fill is None else fill.as_tensor().numpy().reshape(1)


def _spread_any(ctx: Context, value: ir.Value, lengths: Lengths) -> ir.Value:
    """Repeat numbers of samples, or one number, for each row."""
    per_sample = ctx.op("Expand", [value, lengths.count])
    return spread(ctx, per_sample, lengths)


def _part(ctx: Context, x: Batched, axis: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return the rows of an operand, the length of each sample, and where each begins."""
    if x.lengths is not None:
        return x.value, x.lengths.value, x.lengths.starts
    if x.is_shared:
        return x.value, ctx.shape(x.value, axis, axis + 1), ctx.builder.scalar(0)
    value, dims, size = x.value, list(x.dims), ctx.shape(x.value, axis + 1, axis + 2)
    if axis:
        raise crosses("Concat")
    batch = ctx.op("Squeeze", [ctx.batch, ctx.ints(0)])
    numbers = ctx.arange(batch)
    return ctx.merged(value, dims), size, ctx.op("Mul", [numbers, size])
