"""Cumulative sums and products along the axis in which packed samples differ in length.

Lengths ``[3, 2]`` of ``[1, 2, 3, 4, 5]``: a first step adds the row before, ``[1, 3, 5, 4, 9]``,
and a second one the row two before, ``[1, 3, 6, 4, 9]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.row_by_row import packed_data, rows, sample_axis
from passes.batching.packed.segments import lengths_moved_back, with_lengths_in_front
from passes.batching.packed.spread_rows import spread
from passes.decisions import Code, Decline
from passes.graph.builder import BATCHED_KEY, Builder, tensor_value

__all__ = ["cumulation_rows"]

_INT64 = ir.DataType.INT64
_BOOL = ir.DataType.BOOL
_MOST_DOUBLINGS = 63


def cumulation_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """CumSum and CumProd, along the ragged axis in as many steps as the longest length doubles.

    Step ``k`` adds to each row what the row ``2**k`` before it has, if that is of its own sample
    (Hillis and Steele, 1986). No sum ever holds rows of two samples.
    """
    given, lengths = packed_data(ctx, operands)
    known = ctx.constant(ctx.operand(operands, 1, "axis"))
    if known is None:
        raise Decline(Code.RAGGED, "nothing tells its axis before it runs")
    if sample_axis(int(known.reshape(-1)[0]), given.rank) != given.axis:
        return rows(ctx, node, operands)
    if lengths.most is None and ctx.lacks("Loop") and ctx.takes_packed_as_flat:
        raise Decline(Code.RAGGED, "it takes one step after another, as many as lengths tell")
    data = with_lengths_in_front(ctx, given)
    combine = "Add" if node.op_type == "CumSum" else "Mul"
    places = _places(ctx, node, lengths)
    value = _doubled(ctx, data, lengths, combine, places)
    if ctx.attribute(node, "exclusive", 0):
        neutral = ctx.builder.constant(np.array(combine == "Mul", data.element_type.numpy()))
        value = _moved(ctx.builder, value, places, ctx.builder.scalar(1), data.rank, neutral)
    return [ctx.packed(lengths_moved_back(ctx, value, given), lengths, given.axis)]


class _Places:
    """Where each row is counted from, and where the rows before it lie.

    Attributes:
        before: How many rows of its sample come before each row, ``[T]``.
        rows: The number of each row, ``[T]``.
        way: 1 where the row before is the next one, else -1.
        last: The last row.
    """

    def __init__(self, before: ir.Value, numbers: ir.Value, way: int, last: ir.Value) -> None:
        self.before, self.rows, self.way, self.last = before, numbers, way, last


def _places(ctx: Context, node: ir.Node, lengths: Lengths) -> _Places:
    one = ctx.builder.scalar(1)
    total = ctx.op("Squeeze", [lengths.total, ctx.ints(0)])
    numbers = ctx.arange(total)
    last = ctx.op("Sub", [total, one])
    if not ctx.attribute(node, "reverse", 0):
        return _Places(lengths.positions, numbers, -1, last)
    ends = ctx.op("Sub", [spread(ctx, lengths.value, lengths), one])
    return _Places(ctx.op("Sub", [ends, lengths.positions]), numbers, 1, last)


def _moved(
    builder: Builder,
    value: ir.Value,
    places: _Places,
    distance: ir.Value,
    rank: int,
    otherwise: ir.Value,
) -> ir.Value:
    """Return for each row the one so many before it, or something else where there is none."""
    op_type = "Add" if places.way > 0 else "Sub"
    row = builder.op(op_type, [places.rows, distance])
    held = builder.op("Min", [builder.op("Max", [row, builder.scalar(0)]), places.last])
    there = builder.op("GreaterOrEqual", [places.before, distance])
    if rank > 1:
        there = builder.op("Unsqueeze", [there, builder.ints(*range(1, rank))])
    return builder.op(
        "Where", [there, builder.op("Gather", [value, held], {"axis": 0}), otherwise]
    )


def _doubled(
    ctx: Context, data: Batched, lengths: Lengths, combine: str, places: _Places
) -> ir.Value:
    """Record the doublings: one after the other if their number is known, else in a Loop."""
    assert data.dtype is not None
    neutral = np.array(combine == "Mul", data.element_type.numpy())

    def once(builder: Builder, value: ir.Value, distance: ir.Value) -> ir.Value:
        otherwise = builder.constant(neutral)
        before = _moved(builder, value, places, distance, data.rank, otherwise)
        return builder.op(combine, [value, before])

    if lengths.most is not None:
        value = data.value
        for power in range(max(lengths.most - 1, 0).bit_length()):
            value = once(ctx.builder, value, ctx.builder.scalar(1 << power))
        return value
    step, go = tensor_value("step", _INT64, []), tensor_value("go", _BOOL, [])
    distance = tensor_value("distance", _INT64, [])
    state = tensor_value("sums", data.dtype, [None] * data.rank)
    longest = ctx.op("Squeeze", [lengths.longest, ctx.ints(0)])

    def write(inner: Builder) -> Sequence[ir.Value]:
        value = once(inner, state, distance)
        twice = inner.op("Add", [distance, distance])
        more = inner.op("Less", [twice, longest])
        for out, like in ((value, state), (twice, distance), (more, go)):
            out.type, out.shape = like.type, like.shape
        return [more, twice, value]

    body = ctx.builder.subgraph("doubling", [step, go, distance, state], write)
    one = ctx.builder.scalar(1)
    inputs = [
        ctx.builder.scalar(_MOST_DOUBLINGS),
        ctx.op("Less", [one, longest]),
        one,
        data.value,
    ]
    loop = ctx.builder.node("Loop", inputs, {"body": body}, outputs=2)
    loop.metadata_props[BATCHED_KEY] = ctx.builder.origin
    return loop.outputs[1]
