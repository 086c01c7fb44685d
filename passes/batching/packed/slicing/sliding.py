"""Convolutions and frames along the axis in which samples differ in length.

The samples lie one behind the other, with zeros in between, and one convolution slides over all
of them. With lengths ``[2, 3]``, three taps and one zero on either side, it runs over
``0 a a 0 0 b b b 0``, and of its 7 results the first two and the last three belong to samples.
With a stride of 2 each sample starts at an even place. The frames of an STFT are cut alike, with
the length of a frame as its taps and no zeros at either side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output, Rule
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.batching.packed.row_by_row import crosses, packed_data, same_rows
from passes.batching.packed.slicing.pads import with_fill_row
from passes.decisions import Code, Decline
from passes.numbers.integers import Linear

__all__ = ["framed_rows", "sliding"]


@dataclasses.dataclass(frozen=True)
class _Filter:
    """How a filter slides along one axis.

    Attributes:
        begin: Zeros in front of a sample.
        end: Zeros behind.
        reach: Rows that one result reads, first to last.
        stride: Rows from one result to the next.
        attributes: What changes of the node's attributes.
    """

    begin: int
    end: int
    reach: int
    stride: int
    attributes: Mapping[str, Any]


def sliding(over_images: Rule) -> Rule:
    """Make the rule of a convolution.

    Args:
        over_images: Its rule where the samples differ in the number of images.
    """

    def slide(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
        data = ctx.operand(operands, 0)
        if not data.axis:
            return over_images(ctx, node, operands)
        if data.axis == 1:
            raise crosses(node.op_type)
        return _slid(ctx, node, operands, _filter(ctx, node, ctx.operand(operands, 1, "W"), data))

    return slide


def framed_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """STFT of signals ``[N, length]`` or ``[N, length, 1 or 2]`` that differ in number or length.

    A signal shorter than a frame is an error.
    """
    data, lengths = packed_data(ctx, operands)
    if not data.axis:
        inputs = [None if x is None else x.value for x in operands]
        return same_rows(ctx, node, inputs, lengths)
    if data.axis > 1:
        raise crosses(node.op_type)
    step, size = _number(ctx, operands, 1), _size_of_frames(ctx, operands)
    if step is None or size is None or step < 1:
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells the length of its frames or their step")
    return _slid(ctx, node, operands, _Filter(0, 0, size, step, {}))


def _size_of_frames(ctx: Context, operands: Sequence[Operand]) -> int | None:
    window = ctx.optional(operands, 2)
    if window is None:
        return _number(ctx, operands, 3)
    (size,) = window.dims or (None,)
    return size if isinstance(size, int) else None


def _number(ctx: Context, operands: Sequence[Operand], position: int) -> int | None:
    known = ctx.constant(ctx.optional(operands, position))
    return None if known is None else int(known.reshape(-1)[0])


def _slid(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], one: _Filter
) -> Sequence[Output]:
    """Let a filter slide over all samples, and keep what belongs to one of them."""
    data, lengths = packed_data(ctx, operands)
    slots = _slots(ctx, lengths, one)
    value = _laid_apart(ctx, data, lengths, slots, one)
    inputs = [value, *(None if x is None else x.value for x in operands[1:])]
    (found,) = ctx.same(node, inputs, one.attributes)
    made = _result_lengths(ctx, lengths, one)
    first = ctx.op("Div", [slots.starts, ctx.builder.scalar(one.stride)])
    own = ctx.op("Gather", [first, made.samples], {"axis": 0})
    where = ctx.op("Add", [own, made.positions])
    kept = ctx.op("Gather", [found.value, where], {"axis": data.axis})
    return [ctx.packed(kept, made, data.axis)]


def _filter(ctx: Context, node: ir.Node, weight: Batched, data: Batched) -> _Filter:
    """Return how the node's filter slides along the axis of different lengths.

    Raises:
        Decline: Nothing tells its size, or what is padded follows from the size of a sample.
    """
    count, at = data.rank - 2, data.axis - 2
    kernel = ctx.attribute(node, "kernel_shape", weight.dims[2:])
    if len(kernel) != count or not all(isinstance(size, int) for size in kernel):
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells the size of its filter")
    strides = ctx.attribute(node, "strides", [1] * count)
    dilations = ctx.attribute(node, "dilations", [1] * count)
    reach = [1 + (k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    pads = list(ctx.attribute(node, "pads", [0] * (2 * count)))
    automatic = ctx.attribute(node, "auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        if any(stride != 1 for stride in strides):
            raise Decline(Code.RAGGED, "what it pads follows from the length of a sample")
        less, more = [(r - 1) // 2 for r in reach], [r // 2 for r in reach]
        pads = less + more if automatic == "SAME_UPPER" else more + less
    elif automatic == "VALID":
        pads = [0] * (2 * count)
    begin, end = pads[at], pads[count + at]
    if min(begin, end) < 0:
        raise Decline(Code.NO_RULE, "it pads by a negative number")
    pads[at] = pads[count + at] = 0
    changed = {"pads": pads, "auto_pad": "NOTSET"}
    return _Filter(begin, end, reach[at], strides[at], changed)


def _slots(ctx: Context, lengths: Lengths, one: _Filter) -> Lengths:
    """Return how many rows each sample takes, its zeros included: a multiple of the stride."""
    more = one.begin + one.end + one.stride - 1
    sizes = ctx.op("Add", [lengths.value, ctx.builder.scalar(more)])
    if one.stride > 1:
        stride = ctx.builder.scalar(one.stride)
        sizes = ctx.op("Mul", [ctx.op("Div", [sizes, stride]), stride])
    return Lengths(ctx.builder, sizes)


def _laid_apart(
    ctx: Context, data: Batched, lengths: Lengths, slots: Lengths, one: _Filter
) -> ir.Value:
    """Lay all samples one behind the other with zeros in between, and behind the last one."""
    starts, sizes = (
        ctx.op("Gather", [v, slots.samples], {"axis": 0}) for v in (lengths.starts, lengths.value)
    )
    places = ctx.op("Sub", [slots.positions, ctx.builder.scalar(one.begin)])
    is_behind = ctx.op("GreaterOrEqual", [places, ctx.builder.scalar(0)])
    is_before = ctx.op("Less", [places, sizes])
    inside = ctx.op("And", [is_behind, is_before])
    where = ctx.op("Where", [inside, ctx.op("Add", [starts, places]), lengths.total])
    behind = ctx.op("Expand", [lengths.total, ctx.ints(one.reach)])
    where = ctx.op("Concat", [where, behind], {"axis": 0})
    return ctx.op("Gather", [with_fill_row(ctx, data, None), where], {"axis": data.axis})


def _result_lengths(ctx: Context, lengths: Lengths, one: _Filter) -> Lengths:
    """Return the lengths of the results; a sample shorter than the filter is an error."""
    left = lengths.size + Linear(one.begin + one.end - one.reach)
    key = left + Linear(1) if one.stride == 1 else (left, Linear(one.stride))

    def make() -> Lengths:
        rest = one.begin + one.end - one.reach
        sizes = ctx.op("Add", [lengths.value, ctx.builder.scalar(rest)])
        is_short = ctx.op("Less", [sizes, ctx.builder.scalar(0)])
        sizes = failing_where(ctx, sizes, [is_short])
        if one.stride > 1:
            sizes = ctx.op("Div", [sizes, ctx.builder.scalar(one.stride)])
        sizes = ctx.op("Add", [sizes, ctx.builder.scalar(1)])
        return Lengths(ctx.builder, sizes, size=key if isinstance(key, Linear) else None)

    return ctx.lengths_by(key, make)
