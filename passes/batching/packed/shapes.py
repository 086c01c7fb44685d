"""Operators that arrange packed samples, ask for their shape, or pick from them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.row_by_row import (
    crosses,
    lengths_of,
    packed_data,
    rows,
    same_rows,
    sample_axis,
)
from passes.batching.packed.segments import spread
from passes.decisions import Code, Decline

__all__ = [
    "concat_rows",
    "expand_rows",
    "flatten_rows",
    "gather_rows",
    "reshape_rows",
    "shape_of_rows",
    "size_of_rows",
    "slice_rows",
    "squeeze_rows",
    "tile_rows",
    "transpose_rows",
    "unsqueeze_rows",
]

_LARGEST = int(np.iinfo(np.int64).max)


def transpose_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The axis of different lengths stays the first."""
    data, _ = packed_data(ctx, operands)
    order = ctx.attribute(node, "perm")
    if data.rank > 1 and (order is None or order[0] != 0):
        raise Decline(Code.RAGGED, "it moves the axis that differs in length")
    return rows(ctx, node, operands)


def flatten_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Flatten each row, if the first axis stays by itself."""
    data, lengths = packed_data(ctx, operands)
    axis = int(ctx.attribute(node, "axis", 1))
    if (axis + data.rank if axis < 0 else axis) != 1:
        raise Decline(Code.RAGGED, "it merges the axis that differs in length")
    return same_rows(ctx, node, [data.value], lengths)


def _given(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> list[int]:
    given = ctx.optional(operands, 1)
    axes = ctx.attribute(node, "axes") if given is None else ctx.constant(given)
    if axes is None:
        raise Decline(Code.RAGGED, "its axes are not given, and a length may be 1")
    return [int(a) for a in axes]


def squeeze_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Axes of the rows are removed."""
    data, _ = packed_data(ctx, operands)
    if any(sample_axis(a, data.rank) == 0 for a in _given(ctx, node, operands)):
        raise crosses(node.op_type)
    return rows(ctx, node, operands)


def unsqueeze_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Axes are inserted behind the first."""
    data, _ = packed_data(ctx, operands)
    axes = _given(ctx, node, operands)
    if any(sample_axis(a, data.rank + len(axes)) == 0 for a in axes):
        raise Decline(Code.RAGGED, "it moves the axis that differs in length")
    return rows(ctx, node, operands)


def reshape_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The first axis stays, by the numbers of the rows or because both lengths are one symbol."""
    data, target = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "shape")
    if not data.is_packed or data.lengths is None or target.is_packed:
        raise Decline(Code.RAGGED, "its shape differs in length")
    numbers = _row_dims(ctx, node, data, target)
    if numbers is None:
        raise Decline(Code.RAGGED, "nothing tells that it keeps the axis that differs in length")
    shape = ctx.op("Concat", [ctx.shape(data.value, 0, 1), ctx.ints(*numbers)], {"axis": 0})
    return [ctx.packed(ctx.reshape(data.value, shape), data.lengths)]


def _row_dims(ctx: Context, node: ir.Node, data: Batched, target: Batched) -> list[int] | None:
    """Return the dimensions of a row of the result, None if rows do not stay what they are."""
    size = _product(data.dims[1:])
    known = ctx.constant(target)
    if known is not None and known.size:
        first, *rest = (int(n) for n in known)
        if ctx.attribute(node, "allowzero", 0) == 0:
            if any(n == 0 and i + 1 >= data.rank for i, n in enumerate(rest)):
                return None
            dims = [data.dims[i + 1] if n == 0 else n for i, n in enumerate(rest)]
        else:
            dims = list(rest)
            first = -1 if first == 0 else first
        numbers = [d for d in dims if isinstance(d, int)]
        if len(numbers) < len(dims) or size is None:
            return None
        others = math.prod(n for n in numbers if n != -1)
        if first == 0 and numbers.count(-1) == 1 and others and size % others == 0:
            return [size // others if n == -1 else n for n in numbers]
        return numbers if first in (0, -1) and -1 not in numbers and others == size else None
    dims_after = ctx.type_of(node.outputs[0]).dims
    if not dims_after or ctx.lengths_named(dims_after[0]) is not data.lengths:
        return None
    numbers = [d for d in dims_after[1:] if isinstance(d, int)]
    if len(numbers) == len(dims_after) - 1 and size is not None and math.prod(numbers) == size:
        return numbers
    return None


def _product(dims: Sequence[int | str | None]) -> int | None:
    numbers = [d for d in dims if isinstance(d, int)]
    return math.prod(numbers) if len(numbers) == len(dims) else None


def expand_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """A constant shape of no more axes than a sample has, with 1 for the first of them."""
    data, _ = packed_data(ctx, operands)
    shape = ctx.constant(ctx.operand(operands, 1, "shape"))
    if shape is None or shape.size > data.rank or (shape.size == data.rank and shape[0] != 1):
        raise Decline(Code.RAGGED, "its shape may reach the axis that differs in length")
    return rows(ctx, node, operands)


def tile_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The rows are repeated along axes of their own."""
    repeats = ctx.constant(ctx.operand(operands, 1, "repeats"))
    if repeats is None or repeats[0] != 1:
        raise crosses(node.op_type)
    return rows(ctx, node, operands)


def shape_of_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The shapes of all samples: int64 ``[B, rank]``, cut by ``start`` and ``end``."""
    data, lengths = packed_data(ctx, operands)
    column = ctx.unsqueeze(lengths.value, [1])
    row = ctx.shape(data.value, 1)
    target = ctx.op("Concat", [lengths.count, ctx.ints(data.rank - 1)], {"axis": 0})
    rest = ctx.op("Expand", [row, target])
    shapes = ctx.op("Concat", [column, rest], {"axis": 1})
    start, end = ctx.attribute(node, "start", 0), ctx.attribute(node, "end", _LARGEST)
    if start == 0 and end == _LARGEST:
        return [ctx.stacked(shapes)]
    bounds = [ctx.ints(start), ctx.ints(end), ctx.ints(1)]
    return [ctx.stacked(ctx.op("Slice", [shapes, *bounds]))]


def size_of_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Length times the size of a row."""
    data, lengths = packed_data(ctx, operands)
    row = ctx.op("ReduceProd", [ctx.shape(data.value, 1)], {"keepdims": 1})
    return [ctx.stacked(ctx.op("Mul", [lengths.value, row]))]


def gather_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Three mixes.

    1. Packed positions in shared data: the operator itself, if the positions' axis stays first.
    2. Shared positions along an axis of the rows: the operator itself.
    3. Positions along the axis of different lengths: the row is looked up behind the sample's
       first. A position outside of the sample becomes one outside of all rows, which is an error.
    """
    data, positions = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "indices")
    axis = sample_axis(int(ctx.attribute(node, "axis", 0)), data.rank)
    if data.is_shared:
        if axis:
            raise Decline(Code.RAGGED, "the axis that differs in length does not stay the first")
        return same_rows(ctx, node, [data.value, positions.value], lengths_of(operands))
    if axis:
        return rows(ctx, node, operands)
    if not data.is_packed or data.lengths is None:
        raise crosses(node.op_type)
    lengths = data.lengths
    where = ctx.op("Cast", [positions.value], {"to": ir.DataType.INT64})
    if positions.is_packed and positions.lengths is not None:
        starts, sizes = (
            spread(ctx, v, positions.lengths) for v in (lengths.starts, lengths.value)
        )
        axes = range(1, positions.rank)
    else:
        starts, sizes, axes = lengths.starts, lengths.value, range(1, positions.rank + 1)
    starts, sizes = (ctx.unsqueeze(v, axes) for v in (starts, sizes))
    found = ctx.op("Gather", [data.value, _row(ctx, where, starts, sizes, lengths)], {"axis": 0})
    if positions.is_packed and positions.lengths is not None:
        return [ctx.packed(found, positions.lengths)]
    return [ctx.stacked(found)]


def _row(
    ctx: Context, where: ir.Value, starts: ir.Value, sizes: ir.Value, lengths: Lengths
) -> ir.Value:
    """Return rows for positions in samples; behind the last row for one that is outside."""
    zero = ctx.builder.scalar(0)
    wrapped = ctx.op("Add", [where, sizes])
    from_front = ctx.op("Where", [ctx.op("Less", [where, zero]), wrapped, where])
    outside = ctx.op(
        "Or", [ctx.op("Less", [from_front, zero]), ctx.op("GreaterOrEqual", [from_front, sizes])]
    )
    return ctx.op("Where", [outside, lengths.total, ctx.op("Add", [from_front, starts])])


def slice_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Cut axes of the rows, or cut the axis of different lengths by itself, forwards."""
    data, lengths = packed_data(ctx, operands)
    begins, ends = (ctx.operand(operands, i, n) for i, n in ((1, "starts"), (2, "ends")))
    given, steps = ctx.optional(operands, 3), ctx.constant(ctx.optional(operands, 4))
    number = begins.dims[0] if begins.rank == 1 else None
    first_axes = range(number) if isinstance(number, int) else None
    axes = first_axes if given is None else ctx.constant(given)
    if axes is None:
        raise Decline(Code.RAGGED, "nothing tells its axes before it runs")
    along = [sample_axis(int(a), data.rank) for a in axes]
    if 0 not in along:
        return rows(ctx, node, operands)
    if along != [0] or (
        ctx.optional(operands, 4) is not None and (steps is None or steps[0] != 1)
    ):
        raise crosses(node.op_type)
    first, last = (_clamped(ctx, x, lengths) for x in (begins, ends))
    sizes = ctx.op("Max", [ctx.op("Sub", [last, first]), ctx.builder.scalar(0)])
    cut = Lengths(ctx.builder, sizes)
    offset = spread(ctx, ctx.op("Add", [lengths.starts, first]), cut)
    where = ctx.op("Add", [offset, cut.positions])
    return [ctx.packed(ctx.op("Gather", [data.value, where], {"axis": 0}), cut)]


def _clamped(ctx: Context, bound: Batched, lengths: Lengths) -> ir.Value:
    """Return a shared bound of a slice for each sample, int64 ``[B]``."""
    number = ctx.op("Cast", [bound.value], {"to": ir.DataType.INT64})
    zero = ctx.builder.scalar(0)
    wrapped = ctx.op("Add", [number, lengths.value])
    from_front = ctx.op("Where", [ctx.op("Less", [number, zero]), wrapped, number])
    return ctx.op("Min", [ctx.op("Max", [from_front, zero]), lengths.value])


def concat_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Concatenate rows, each with what belongs to it; or samples, one behind the other."""
    given = [x for x in operands if x is not None]
    axis = sample_axis(int(ctx.attribute(node, "axis", 0)), given[0].rank)
    if axis:
        lengths = lengths_of(operands)
        if not all(x.is_packed for x in given):
            raise Decline(Code.RAGGED, "its operands differ in length from each other")
        return same_rows(ctx, node, [x.value for x in given], lengths)
    parts = [_part(ctx, x) for x in given]
    sizes = parts[0][1]
    for _, more, _ in parts[1:]:
        sizes = ctx.op("Add", [sizes, more])
    joined = Lengths(ctx.builder, ctx.op("Expand", [sizes, ctx.batch]))
    where, before, base = None, ctx.builder.scalar(0), ctx.ints(0)
    for value, size, starts in parts:
        place = ctx.op("Sub", [joined.positions, _spread_any(ctx, before, joined)])
        first = ctx.op("Add", [_spread_any(ctx, starts, joined), base])
        row = ctx.op("Add", [place, first])
        reached = ctx.op("GreaterOrEqual", [place, ctx.builder.scalar(0)])
        where = row if where is None else ctx.op("Where", [reached, row, where])
        before = ctx.op("Add", [before, size])
        base = ctx.op("Add", [base, ctx.shape(value, 0, 1)])
    assert where is not None
    all_rows = ctx.op("Concat", [value for value, _, _ in parts], {"axis": 0})
    return [ctx.packed(ctx.op("Gather", [all_rows, where], {"axis": 0}), joined)]


def _spread_any(ctx: Context, value: ir.Value, lengths: Lengths) -> ir.Value:
    """Repeat numbers of samples, or one number, for each row."""
    per_sample = ctx.op("Expand", [value, lengths.count])
    return spread(ctx, per_sample, lengths)


def _part(ctx: Context, x: Batched) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return the rows of an operand, the length of each sample, and where each begins."""
    if x.is_packed and x.lengths is not None:
        return x.value, x.lengths.value, x.lengths.starts
    if x.is_shared:
        return x.value, ctx.shape(x.value, 0, 1), ctx.builder.scalar(0)
    size = ctx.shape(x.value, 1, 2)
    batch = ctx.op("Squeeze", [ctx.batch, ctx.ints(0)])
    numbers = ctx.op("Range", [ctx.builder.scalar(0), batch, ctx.builder.scalar(1)])
    return ctx.merged(x.value, x.dims), size, ctx.op("Mul", [numbers, size])
