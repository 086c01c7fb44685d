"""Operators that arrange the axes of packed samples, turn them round, or ask for their shape.

Lengths ``[2, 3]`` of rows of 4: the shapes are ``[[2, 4], [3, 4]]``, and the sizes ``[8, 12]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import volume
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.batching.packed.fills import expand_to_lengths
from passes.batching.packed.fixed_length import single_rows
from passes.batching.packed.repeats import tile_to_lengths
from passes.batching.packed.row_by_row import packed_data, rows, same_rows, sample_axis
from passes.batching.packed.segments import lengths_moved_back, with_lengths_in_front
from passes.batching.packed.spread_rows import spread
from passes.decisions import Code, Decline
from passes.graph.builder import END
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative

__all__ = [
    "expand_rows",
    "shape_of_rows",
    "size_of_rows",
    "squeeze_rows",
    "tile_rows",
    "transpose_rows",
    "turned_rows",
    "unsqueeze_rows",
]


def transpose_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The axis of different lengths goes where the operator puts it."""
    data, lengths = packed_data(ctx, operands)
    order = ctx.attribute(node, "perm", range(data.rank)[::-1])
    made = same_rows(ctx, node, [data.value], lengths, axis=list(order).index(data.axis))
    if data.value in ctx.wholes:
        (whole,) = ctx.same(node, [ctx.wholes[data.value]])
        ctx.wholes[made[0].value] = whole.value
    return made


def _given(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> list[int]:
    given = ctx.optional(operands, 1)
    axes = ctx.attribute(node, "axes") if given is None else ctx.constant(given)
    if axes is None:
        raise Decline(Code.RAGGED, "its axes are not given, and a length may be 1")
    return [int(a) for a in axes]


def squeeze_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Axes are removed; where that of different lengths is, each sample has one row."""
    data, lengths = packed_data(ctx, operands)
    axes = {sample_axis(a, data.rank) for a in _given(ctx, node, operands)}
    if data.axis in axes:
        return [ctx.stacked(ctx.squeeze(single_rows(ctx, data), [a + 1 for a in sorted(axes)]))]
    inputs = [None if x is None else x.value for x in operands]
    kept = [a for a in range(data.rank) if a not in axes]
    return same_rows(ctx, node, inputs, lengths, axis=kept.index(data.axis))


def unsqueeze_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Axes are inserted; the one of different lengths goes behind those before it."""
    data, lengths = packed_data(ctx, operands)
    axes = _given(ctx, node, operands)
    rank = data.rank + len(axes)
    added = {sample_axis(a, rank) for a in axes}
    kept = [a for a in range(rank) if a not in added]
    inputs = [None if x is None else x.value for x in operands]
    return same_rows(ctx, node, inputs, lengths, axis=kept[data.axis])


def expand_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """A constant shape that does not reach the axis of different lengths, or with 1 for it.

    A shape may also name the length of each sample, which changes nothing.
    """
    if ctx.operand(operands, 1, "shape").is_stacked:
        return expand_to_lengths(ctx, node, operands)
    data, lengths = packed_data(ctx, operands)
    inputs = [None if x is None else x.value for x in operands]
    shape = ctx.constant(ctx.operand(operands, 1, "shape"))
    place = data.rank - data.axis
    if shape is None and _has_one_row(ctx, node, data):
        return same_rows(ctx, node, inputs, lengths, axis=data.axis)
    if shape is None or (shape.size >= place and shape[-place] != 1):
        raise Decline(Code.RAGGED, "its shape may reach the axis that differs in length")
    return same_rows(ctx, node, inputs, lengths, axis=max(data.rank, shape.size) - place)


def _has_one_row(ctx: Context, node: ir.Node, data: Batched) -> bool:
    """Whether a shape of as many axes has 1 for the lengths, or 0 where there is nothing.

    ``Shape(Slice(x, 0, 1))`` is such a shape: 0 only if ``x`` has no rows.
    """
    numbers = ctx.numbers.of(node.inputs[1])
    if numbers is None or len(numbers) != data.rank:
        return False
    size = numbers[data.axis]
    return is_nonnegative(size) and is_nonnegative(Linear(1) - size)


def tile_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The rows are repeated along axes of their own, or each sample as a whole."""
    data = ctx.operand(operands, 0, "input")
    repeats = ctx.constant(ctx.operand(operands, 1, "repeats"))
    if repeats is None or repeats[data.axis] != 1:
        return tile_to_lengths(ctx, node, operands)
    return rows(ctx, node, operands)


def shape_of_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The shapes of all samples: int64 ``[B, rank]``, cut by ``start`` and ``end``."""
    data, lengths = packed_data(ctx, operands)
    parts = [ctx.unsqueeze(lengths.value, [1])]
    before, behind = data.axis, data.rank - data.axis - 1
    if before:
        parts.insert(0, _repeated(ctx, ctx.shape(data.value, 0, before), before, lengths))
    if behind:
        parts.append(_repeated(ctx, ctx.shape(data.value, before + 1), behind, lengths))
    shapes = ctx.op("Concat", parts, {"axis": 1}) if len(parts) > 1 else parts[0]
    start, end = ctx.attribute(node, "start", 0), ctx.attribute(node, "end", END)
    if start == 0 and end == END:
        return [ctx.stacked(shapes)]
    bounds = [ctx.ints(start), ctx.ints(end), ctx.ints(1)]
    return [ctx.stacked(ctx.op("Slice", [shapes, *bounds]))]


def _repeated(ctx: Context, dims: ir.Value, number: int, lengths: Lengths) -> ir.Value:
    """Repeat dimensions for every sample: ``[B, number]``."""
    target = ctx.op("Concat", [lengths.count, ctx.ints(number)], {"axis": 0})
    return ctx.op("Expand", [dims, target])


def size_of_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Length times the number of elements of all other axes."""
    data, lengths = packed_data(ctx, operands)
    sizes = lengths.value
    for start, end in ((0, data.axis), (data.axis + 1, data.rank)):
        if start < end:
            sizes = ctx.op("Mul", [sizes, volume(ctx, data.value, start, end)])
    return [ctx.stacked(sizes)]


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
