"""Operators along the axis in which packed samples differ in length.

Every sum, maximum or position is computed from the rows of its own sample only. A difference of
sums over all rows would let one sample's infinity reach the others.

Lengths ``[2, 3]`` of ``[1, 2, 3, 4, 5]``: the sums are ``[3, 12]``, and spread to the rows again
``[3, 3, 12, 12, 12]``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output, unknown_axes
from passes.batching.families.reductions import given_axes, reduce
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.row_by_row import packed_data, rows, sample_axis
from passes.batching.packed.side_by_side import reduced_side_by_side
from passes.batching.packed.spread_rows import spread
from passes.batching.packed.widened import narrowed, widened
from passes.decisions import Code, Decline
from passes.numbers.integer_reads import INTEGERS

__all__ = [
    "FLOATS",
    "SUMMED",
    "axis_in_front",
    "axis_moved_back",
    "known_dtype",
    "lengths_moved_back",
    "reduction_of_rows",
    "reduction_rows",
    "segment",
    "with_lengths_in_front",
]

FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})
SUMMED = FLOATS | INTEGERS
"""Element types for which onnxruntime adds in ScatterElements and reduces."""

_NEUTRAL = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}


def _neutral(reduction: str, dtype: ir.DataType) -> np.ndarray:
    number = _NEUTRAL[reduction]
    if dtype.is_floating_point():
        return np.array(number, dtype.numpy())
    limits = np.iinfo(dtype.numpy())
    number = {-np.inf: limits.min, np.inf: limits.max}.get(number, number)
    return np.array(number, dtype.numpy())


def segment(
    ctx: Context,
    value: ir.Value,
    lengths: Lengths,
    reduction: str,
    dtype: ir.DataType,
    dims: Sequence[int | str | None],
    empty: np.ndarray | None = None,
) -> ir.Value:
    """Reduce the rows ``[T, *rest]`` of each sample: ``[B, *rest]``.

    Where the opset has no such reduction, the samples are laid side by side. Floats are added
    line by line where samples have lines: sums of few rows round less.

    Args:
        ctx: The context.
        value: The rows.
        lengths: Which sample each belongs to.
        reduction: ``add``, ``mul``, ``max`` or ``min``.
        dtype: Element type, which gives the result of a sample without rows.
        dims: Dimensions of a sample, the rows first.
        empty: The result of a sample without rows, if the rows hold nothing beyond it.
    """
    empty = _neutral(reduction, dtype) if empty is None else empty
    if ctx.opset < (18 if reduction in ("max", "min") else 16):
        return reduced_side_by_side(ctx, value, lengths, reduction, empty, dims[1:])
    scatter = functools.partial(_scattered, ctx, reduction=reduction, empty=empty, rest=dims[1:])
    found = lengths.lines if reduction == "add" and dtype in FLOATS else None
    if found is None:
        return scatter(value, lengths, lengths.count)
    rows, lines = found
    return scatter(scatter(value, rows, rows.count), lines, lengths.count)


def _scattered(
    ctx: Context,
    value: ir.Value,
    lengths: Lengths,
    count: ir.Value,
    *,
    reduction: str,
    empty: np.ndarray,
    rest: Sequence[int | str | None],
) -> ir.Value:
    """Reduce the rows of so many samples, see `segment`.

    ScatterND would add whole rows and be faster, but the threads of onnxruntime then lose some
    of those that go to one place.
    """
    numbers = [d for d in rest if isinstance(d, int)]
    row = ctx.ints(*numbers) if len(numbers) == len(rest) else ctx.shape(value, 1)
    shape = ctx.op("Concat", [count, row], {"axis": 0}) if rest else count
    start = ctx.op("ConstantOfShape", [shape], {"value": ir.tensor(empty.reshape(1))})
    where = lengths.samples
    if rest:
        # onnxruntime's Expand takes twice as long.
        nought = ctx.op("ConstantOfShape", [row], {"value": ir.tensor(np.zeros(1, np.int64))})
        where = ctx.op("Add", [ctx.unsqueeze(where, range(1, 1 + len(rest))), nought])
    return ctx.op("ScatterElements", [start, where, value], {"axis": 0, "reduction": reduction})


def known_dtype(data: Batched, known: frozenset[ir.DataType]) -> ir.DataType:
    """Return the element type of packed samples.

    Raises:
        Decline: It is none of those that are known.
    """
    if data.dtype not in known:
        raise Decline(
            Code.NO_RULE, f"along an axis that differs in length it has none for {data.dtype}"
        )
    return data.dtype


def reduction_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Reduce over axes of packed samples.

    Over the axis of different lengths, all samples come to have one shape, and their results are
    stacked.
    """
    data, lengths = packed_data(ctx, operands)
    axes = given_axes(ctx, node, ctx.optional(operands, 1))
    if axes is None:
        raise unknown_axes()
    if not axes and ctx.attribute(node, "noop_with_empty_axes", 0):
        return rows(ctx, node, operands)
    over = {sample_axis(a, data.rank) for a in axes} or set(range(data.rank))
    keeps = bool(ctx.attribute(node, "keepdims", 1))
    if data.axis not in over:
        axis = data.axis - (0 if keeps else sum(a < data.axis for a in over))
        made = reduce(ctx, node, data.value, sorted(over))
        return [ctx.packed(out.value, lengths, axis) for out in made]
    others = sorted(a + (a < data.axis) for a in over - {data.axis})
    value = reduction_of_rows(ctx, node.op_type, with_lengths_in_front(ctx, data), lengths, others)
    if keeps:
        return [ctx.stacked(ctx.unsqueeze(value, [data.axis + 1]))]
    return [ctx.stacked(ctx.squeeze(value, others))]


def with_lengths_in_front(ctx: Context, data: Batched) -> Batched:
    """Return packed samples with the axis of different lengths in front."""
    return axis_in_front(ctx, data, data.axis)


def axis_in_front(ctx: Context, data: Batched, axis: int) -> Batched:
    """Return packed, stacked or shared samples with an axis of a sample as their first.

    Samples ``[4, 5]`` stacked in ``[B, 4, 5]`` become ``[B, 5, 4]`` for axis 1.
    """
    if not axis:
        return data
    order = [axis, *(i for i in range(data.rank) if i != axis)]
    shift = int(data.is_stacked)
    perm = [*range(shift), *(i + shift for i in order)]
    value = ctx.op("Transpose", [data.value], {"perm": perm})
    return dataclasses.replace(data.permuted(order), value=value, axis=0)


def axis_moved_back(ctx: Context, out: Output, axis: int, rank: int) -> Output:
    """Return packed or stacked samples with their first axis as axis ``axis`` of a sample."""
    if not axis:
        return out
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    if out.lengths is not None:
        return ctx.packed(ctx.op("Transpose", [out.value], {"perm": order}), out.lengths, axis)
    perm = [0, *(i + 1 for i in order)]
    return ctx.stacked(ctx.op("Transpose", [out.value], {"perm": perm}))


def lengths_moved_back(ctx: Context, value: ir.Value, given: Batched) -> ir.Value:
    """Return a value with the axis of different lengths in front, where a given one has it."""
    if not given.axis:
        return value
    order = [*range(1, given.axis + 1), 0, *range(given.axis + 1, given.rank)]
    return ctx.op("Transpose", [value], {"perm": order})


def reduction_of_rows(
    ctx: Context, op_type: str, data: Batched, lengths: Lengths, others: Sequence[int]
) -> ir.Value:
    """Reduce over the first axis and others, which stay with size 1: ``[B, *rest]``.

    Args:
        ctx: The context of the node.
        op_type: The reduction.
        data: The rows of all samples.
        lengths: How many each sample has.
        others: The other axes, counted as those of a sample.

    Raises:
        Decline: The rule has none for the element type.
    """
    wide = widened(ctx, data)
    if op_type not in ("ReduceMax", "ReduceMin", "ReduceProd"):
        return narrowed(ctx, _sum_of_rows(ctx, op_type, wide, lengths, others), data)
    kind = op_type.removeprefix("Reduce").lower().replace("prod", "mul")
    dtype, value = known_dtype(wide, SUMMED), _within(ctx, op_type, wide.value, others)
    empty = _neutral(kind, data.dtype or dtype).astype(dtype.numpy())
    found = segment(ctx, value, lengths, kind, dtype, _left(wide, others), empty)
    return narrowed(ctx, found, data)


def _sum_of_rows(
    ctx: Context, op_type: str, data: Batched, lengths: Lengths, others: Sequence[int]
) -> ir.Value:
    """Reduce by a sum, see `reduction_of_rows`."""
    dims = _left(data, others)
    if op_type == "ReduceLogSumExp":
        return _log_sum_exp(ctx, data, lengths, others)
    before, after = {
        "ReduceSum": ("", ""),
        "ReduceMean": ("", "mean"),
        "ReduceL1": ("Abs", ""),
        "ReduceL2": ("square", "Sqrt"),
        "ReduceSumSquare": ("square", ""),
        "ReduceLogSum": ("", "Log"),
    }[op_type]
    dtype = known_dtype(data, FLOATS if after else SUMMED)
    value = data.value
    if before:
        value = ctx.op("Mul", [value, value]) if before == "square" else ctx.op(before, [value])
    total = segment(ctx, _within(ctx, "ReduceSum", value, others), lengths, "add", dtype, dims)
    if after == "mean":
        return ctx.op("Div", [total, _sizes(ctx, data, lengths, others, dtype)])
    return ctx.op(after, [total]) if after else total


def _left(data: Batched, others: Sequence[int]) -> list[int | str | None]:
    """Return the dimensions of a sample, once some of its axes have size 1."""
    return [1 if axis in others else dim for axis, dim in enumerate(data.dims)]


def _within(ctx: Context, op_type: str, value: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Reduce each row over axes of its own, which stay with size 1."""
    return ctx.reduce(op_type, value, axes) if axes else value


def _sizes(
    ctx: Context, data: Batched, lengths: Lengths, others: Sequence[int], dtype: ir.DataType
) -> ir.Value:
    """Return how many elements each sample's mean is over, as ``[B, 1, ..., 1]``.

    A mean over nothing is undefined; onnxruntime gives 0 and so does a 1 in place of the count.
    """
    sizes = lengths.value
    if others:
        dims = ctx.op("Gather", [ctx.op("Shape", [data.value]), ctx.ints(*others)], {"axis": 0})
        sizes = ctx.op("Mul", [sizes, ctx.op("ReduceProd", [dims], {"keepdims": 1})])
    some = ctx.op("Max", [sizes, ctx.builder.scalar(1)])
    numbers = ctx.op("Cast", [some], {"to": dtype})
    return ctx.unsqueeze(numbers, range(1, data.rank))


def _log_sum_exp(ctx: Context, data: Batched, lengths: Lengths, others: Sequence[int]) -> ir.Value:
    """Return ``log(sum(exp(x - m))) + m`` with ``m`` the maximum where that is a number."""
    dtype, dims = known_dtype(data, FLOATS), _left(data, others)
    _ = lengths.lines  # which tell the rows of samples too
    highest = segment(
        ctx, _within(ctx, "ReduceMax", data.value, others), lengths, "max", dtype, dims
    )
    zero = ctx.builder.constant(np.array(0, dtype.numpy()))
    moved = ctx.op("Where", [ctx.op("IsInf", [highest]), zero, highest])
    powers = ctx.op("Exp", [ctx.op("Sub", [data.value, spread(ctx, moved, lengths)])])
    total = segment(ctx, _within(ctx, "ReduceSum", powers, others), lengths, "add", dtype, dims)
    return ctx.op("Add", [ctx.op("Log", [total]), moved])
