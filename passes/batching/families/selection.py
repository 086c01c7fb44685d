"""Operators whose number of rows depends on the values of a sample: packed samples."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.counted_rows import lengths_of_rows
from passes.batching.families.merging import volume
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.batching.packed.fills import lengths_of_size
from passes.batching.packed.reshaping import product
from passes.decisions import Code, Decline
from passes.graph.graphs import is_operator
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative

__all__ = ["chosen", "non_max_suppression", "of_images", "range_"]

_INT64 = ir.DataType.INT64


def chosen(ctx: Context, operands: Sequence[Operand], axis: int | None) -> Sequence[Output]:
    """Compress by a condition per sample, along the first axis or over flattened samples.

    One Compress takes the rows of all samples, in order of the samples. Conditions beyond the
    last row do not count, nor do rows beyond the last condition.
    """
    data, condition = ctx.operand(operands, 0, "input"), ctx.operand(operands, 1, "condition")
    if axis is not None and axis % data.rank:
        raise Decline(Code.DATA_DEPENDENT, "its condition differs from sample to sample")
    value = ctx.expanded(data)
    flags = condition.value
    size = product(data.dims if axis is None else data.dims[:1])
    if size is None or condition.dims != (size,):
        if axis is None and data.rank != 1:
            shape = ctx.op("Concat", [ctx.batch, volume(ctx, value, 1)], {"axis": 0})
            value = ctx.reshape(value, shape)
        value, flags = _cut(ctx, value, flags), _cut(ctx, flags, value)
    if axis is not None:
        value = ctx.merged(value, data.dims[:1] and (None, *data.dims[1:]))
    every = ctx.merged(flags, (None,))
    kept = ctx.op("Compress", [value, every], {"axis": None if axis is None else 0})
    left = functools.partial(_counted, ctx, flags)
    return [ctx.packed(kept, ctx.lengths_by(flags, left))]


_EXACT = 1 << 24
"""Up to so many a float counts exactly."""


def _counted(ctx: Context, flags: ir.Value) -> Lengths:
    """Return how many flags ``bool[B, N]`` of each sample are true."""
    numbers = ctx.op("Cast", [flags], {"to": _INT64})
    total = ctx.op("ReduceSum", [numbers, ctx.ints(1)], {"keepdims": 0})
    return Lengths(ctx.builder, total, held_padded=True)


def _cut(ctx: Context, value: ir.Value, other: ir.Value) -> ir.Value:
    """Cut the second axis of a stacked value where that of another one ends."""
    return ctx.op("Slice", [value, ctx.ints(0), ctx.shape(other, 1, 2), ctx.ints(1)])


def non_max_suppression(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """NonMaxSuppression: the images of all samples form one batch."""
    boxes, scores = (ctx.expanded(ctx.operand(operands, i)) for i in range(2))
    settings = [ctx.require_shared(x, "limits") for x in operands[2:]]
    (new,) = ctx.same(node, [ctx.merged(boxes), ctx.merged(scores), *settings])
    return [of_images(ctx, new.value, ctx.shape(boxes, 1, 2))]


def of_images(ctx: Context, found: ir.Value, images: ir.Value) -> Output:
    """Return the rows that NonMaxSuppression found, as those of samples.

    The number of the image tells the sample of each row. Rows are put in order of the samples,
    since no order is promised; those of one sample stay in theirs.

    Args:
        ctx: The context.
        found: Numbers of image, class and box, ``[M, 3]``.
        images: How many images a sample has, int64 ``[1]``.
    """
    numbers = ctx.op("Slice", [found, ctx.ints(0), ctx.ints(1), ctx.ints(1)])
    samples = ctx.squeeze(ctx.op("Div", [numbers, images]), [1])
    order = _order(ctx, samples)
    rows, samples = (ctx.op("Gather", [x, order], {"axis": 0}) for x in (found, samples))
    first = ctx.op("Mul", [ctx.unsqueeze(samples, [1]), images])
    moved = ctx.op("Pad", [first, ctx.ints(0, 0, 0, 2)])
    lengths = lengths_of_rows(ctx.builder, samples, ctx.batch)
    return ctx.packed(ctx.op("Sub", [rows, moved]), lengths)


def _order(ctx: Context, samples: ir.Value) -> ir.Value:
    """Return the positions of rows by sample, and by position within one."""
    count = ctx.op("Shape", [samples])
    places = ctx.arange(ctx.squeeze(count, [0]))
    keys = ctx.op("Add", [ctx.op("Mul", [samples, count]), places])
    return ctx.builder.node("TopK", [keys, count], {"largest": 0}, outputs=2).outputs[1]


def range_(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Range: ``start + position * delta``, for ``ceil((limit - start) / delta)`` positions."""
    counted = _counted_up(ctx, node, operands)
    if counted is not None:
        return counted
    start, limit, delta = (_numbers(ctx, ctx.operand(operands, i)) for i in range(3))
    dtype = ctx.operand(operands, 0).dtype
    span = ctx.op("Sub", [limit, start])
    is_by_one = dtype == _INT64 and _whole(ctx, node.inputs[2]) == Linear(1)
    steps = span if is_by_one else _steps(ctx, span, delta)
    lengths = Lengths(ctx.builder, ctx.op("Max", [steps, ctx.builder.scalar(0)]))
    first, apart = (ctx.op("Gather", [x, lengths.samples], {"axis": 0}) for x in (start, delta))
    places = lengths.positions
    if dtype is None:
        raise Decline(Code.NO_RULE, "nothing tells the element type of its numbers")
    if dtype != _INT64:
        places = ctx.op("Cast", [places], {"to": int(dtype)})
    return [ctx.packed(ctx.op("Add", [first, ctx.op("Mul", [places, apart])]), lengths)]


def _steps(ctx: Context, span: ir.Value, step: ir.Value) -> ir.Value:
    """Return how many steps there are in a span, below 0 for one that is walked backwards."""
    doubles = [ctx.op("Cast", [x], {"to": ir.DataType.DOUBLE}) for x in (span, step)]
    return ctx.op("Cast", [ctx.op("Ceil", [ctx.op("Div", doubles)])], {"to": _INT64})


def _counted_up(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output] | None:
    """Count up from a constant, by 1, to a length of the sample; None for any other Range.

    Floats count exactly up to 2^24; more than that is an error when the model runs.
    """
    first, limit, step = (_whole(ctx, v) for v in node.inputs)
    type_ = ctx.type_of(node.outputs[0]).type
    if first is None or limit is None or step != Linear(1) or type_ is None:
        return None
    size = limit - first
    if first.number is None or not is_nonnegative(size):
        return None
    dtype = type_.dtype
    if ctx.numbers.is_at_hand(size):
        lengths = lengths_of_size(ctx, size, "limit")
    else:
        end = ctx.operand(operands, 1)
        lengths = ctx.lengths_by(size, lambda: _up_to(ctx, end, first.constant, size))
    if dtype == ir.DataType.FLOAT:
        is_long = ctx.op("Greater", [lengths.value, ctx.builder.scalar(_EXACT - first.number)])
        counts = failing_where(ctx, lengths.value, [is_long])
        lengths = Lengths(ctx.builder, counts, size=size)
    elif dtype != _INT64:
        return None
    value = lengths.positions
    if first.number:
        value = ctx.op("Add", [value, ctx.builder.scalar(first.number)])
    if dtype != _INT64:
        value = ctx.op("Cast", [value], {"to": int(dtype)})
    return [ctx.packed(value, lengths)]


def _up_to(ctx: Context, end: Batched, first: int, size: Linear) -> Lengths:
    """Return how many whole numbers there are from one to an end of each sample."""
    ends = ctx.op("Cast", [_numbers(ctx, end)], {"to": _INT64})
    sizes = ctx.op("Sub", [ends, ctx.builder.scalar(first)]) if first else ends
    return Lengths(ctx.builder, sizes, size=size)


def _whole(ctx: Context, value: ir.Value | None) -> Linear | None:
    """Return a number that is known, also where it was cast to a float."""
    found = ctx.numbers.number(value)
    made = None if value is None else value.producer()
    if found is None and is_operator(made, "Cast"):
        return ctx.numbers.number(made.inputs[0])
    return found


def _numbers(ctx: Context, x: Batched) -> ir.Value:
    """Return one number per sample, ``[B]``."""
    return ctx.op("Reshape", [ctx.expanded(x), ctx.batch])
