"""Sequences turned round along the axis in which packed samples differ in length.

Lengths ``[3, 2]``: the rows are read in the order ``[2, 1, 0, 4, 3]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.packed.checks import failing_where
from passes.batching.packed.segments import lengths_moved_back, spread, with_lengths_in_front
from passes.decisions import Code, Decline

__all__ = ["turned_rows"]


def turned_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """ReverseSequence: each row reads the one that lies as far from the other end of its sample.

    Of lengths ``[2, 3]``, turned whole, the five rows read rows ``[1, 0, 4, 3, 2]``. TensorFlow's
    exporter writes ``tf.reverse`` so.
    """
    given, counts = ctx.operand(operands, 0, "input"), ctx.operand(operands, 1, "sequence_lens")
    lengths = given.lengths
    if lengths is None or counts.lengths is not None:
        raise Decline(Code.RAGGED, "how much of it is turned differs in length")
    if given.axis != ctx.attribute(node, "time_axis", 0):
        raise Decline(Code.RAGGED, "its samples differ in length along another axis than time")
    data = with_lengths_in_front(ctx, given)
    axes = ctx.ints(*range(2, data.rank)) if data.rank > 2 else None
    positions = lengths.positions
    if ctx.numbers.number(node.inputs[1]) != lengths.size:
        positions = _checked(ctx, positions, counts.value, lengths.value)
    place = ctx.op("Unsqueeze", [positions, ctx.ints(1)])
    count = spread(ctx, counts.value, lengths) if counts.is_stacked else counts.value
    other = ctx.op("Sub", [ctx.op("Sub", [count, place]), ctx.builder.scalar(1)])
    is_turned = ctx.op("Less", [place, count])
    number = ctx.op("Squeeze", [lengths.total, ctx.ints(0)])
    number = ctx.arange(number)
    first = ctx.op("Sub", [ctx.op("Unsqueeze", [number, ctx.ints(1)]), place])
    rows = ctx.op("Add", [first, ctx.op("Where", [is_turned, other, place])])
    rows = rows if axes is None else ctx.op("Unsqueeze", [rows, axes])
    rows = ctx.op("Expand", [rows, ctx.op("Shape", [data.value])])
    value = ctx.op("GatherElements", [data.value, rows], {"axis": 0})
    return [ctx.packed(lengths_moved_back(ctx, value, given), lengths, given.axis)]


def _checked(ctx: Context, places: ir.Value, counts: ir.Value, sizes: ir.Value) -> ir.Value:
    """Return places that are an error if more is turned than a sample has, or less than 0."""
    sizes = ctx.op("Unsqueeze", [sizes, ctx.ints(1)])
    flags = [ctx.op("Less", [sizes, counts]), ctx.op("Less", [counts, ctx.builder.scalar(0)])]
    flag = ctx.op("Reshape", [ctx.op("Or", flags), ctx.ints(-1)])
    return failing_where(ctx, places, [flag])
