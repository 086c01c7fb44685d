"""Unique: every sample yields as many elements as it has different ones.

One Unique over the elements of all samples gives each element the number of its value, in the
order of the values. A second one over pairs of sample and number, made one integer, finds the
different elements of each sample: in the order of the samples, and within one by value, or by
first occurrence if the result is not sorted.

Samples ``[b, a, b]`` and ``[b]`` hold the values with the numbers ``[1, 0, 1]`` and ``[1]``. The
pairs are ``01, 00, 01`` and ``11``: two different elements of the first sample, one of the
second.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.counted_rows import lengths_of_rows
from passes.batching.families.merging import sample_numbers, volume
from passes.batching.layouts import Batched
from passes.batching.packed.reshaping import flattened
from passes.batching.packed.row_by_row import crosses, packed_data, sample_axis
from passes.decisions import Code, Decline

__all__ = ["unique", "unique_rows"]


@dataclasses.dataclass(frozen=True)
class _AllElements:
    """The elements of all samples, one behind the other.

    Attributes:
        value: They, ``[T, *rest]``.
        samples: The sample that each belongs to, int64 ``[T]``.
        positions: Its place in the sample, int64 ``[T]``.
        count: Number of samples, int64 ``[1]``.
        rank: Rank of ``value``.
        axis: Where the axis of the elements belongs in a sample of the result.
    """

    value: ir.Value
    samples: ir.Value
    positions: ir.Value
    count: ir.Value
    rank: int
    axis: int


def unique(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
    """The elements of samples of one shape; which one each is comes out stacked."""
    data = ctx.operand(operands, 0)
    axis = _axis(ctx, node, data)
    if axis is None:
        shape = ctx.op("Concat", [ctx.batch, volume(ctx, data.value, 1)], {"axis": 0})
        stacked, rest = ctx.reshape(data.value, shape), 0
    else:
        stacked, rest = _moved(ctx, data.value, axis + 1, 1, data.rank + 1), data.rank - 1
    size = ctx.shape(stacked, 1, 2)
    target = ctx.op("Concat", [ctx.batch, size], {"axis": 0})
    places = ctx.arange(ctx.squeeze(size, [0]))
    samples, positions = (
        ctx.merged(ctx.op("Expand", [x, target]))
        for x in (sample_numbers(ctx, ctx.ints(1), 1), places)
    )
    value = ctx.merged(stacked)
    elements = _AllElements(value, samples, positions, ctx.batch, rest + 1, axis or 0)
    first, indices, inverse, counts = _found(ctx, node, elements)
    which = ctx.stacked(ctx.reshape(inverse.value, target))
    return _as_asked(node, [first, indices, which, counts])


def unique_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output | None]:
    """The elements of samples of different length, or their rows."""
    data, lengths = packed_data(ctx, operands)
    axis = _axis(ctx, node, data)
    if axis not in (None, data.axis):
        raise crosses(node.op_type)
    if axis is None:
        flat = flattened(ctx, data)
        value, lengths, rank = flat.value, flat.own_lengths, 1
    else:
        value, rank = _moved(ctx, data.value, axis, 0, data.rank), data.rank
    samples, positions = lengths.samples, lengths.positions
    elements = _AllElements(value, samples, positions, lengths.count, rank, axis or 0)
    first, indices, inverse, counts = _found(ctx, node, elements)
    which = ctx.packed(inverse.value, lengths)
    return _as_asked(node, [first, indices, which, counts])


def _axis(ctx: Context, node: ir.Node, data: Batched) -> int | None:
    """Return the axis along which elements are compared, None for single numbers.

    Raises:
        Decline: Elements are not told apart as onnxruntime does it.
    """
    if data.element_type.is_floating_point():
        raise Decline(Code.NO_RULE, "the result for NaN depends on the order of all elements")
    axis = ctx.attribute(node, "axis")
    return None if axis is None else sample_axis(int(axis), data.rank)


def _moved(ctx: Context, value: ir.Value, axis: int, to: int, rank: int) -> ir.Value:
    """Move one axis of a value."""
    if axis == to:
        return value
    order = [i for i in range(rank) if i != axis]
    order.insert(to, axis)
    return ctx.op("Transpose", [value], {"perm": order})


def _found(ctx: Context, node: ir.Node, elements: _AllElements) -> list[Output]:
    """Return all outputs; the third one is which of its sample's results each element is."""
    builder, axis = ctx.builder, 0 if elements.rank > 1 else None
    numbers = builder.node("Unique", [elements.value], {"axis": axis}, outputs=4).outputs[2]
    total = ctx.shape(elements.value, 0, 1)
    keys = ctx.op("Add", [ctx.op("Mul", [elements.samples, total]), numbers])
    attributes = {"sorted": ctx.attribute(node, "sorted", 1)}
    _, first, which, counts = builder.node("Unique", [keys], attributes, outputs=4).outputs
    owners, places = (
        ctx.op("Gather", [x, first], {"axis": 0}) for x in (elements.samples, elements.positions)
    )
    lengths = lengths_of_rows(builder, owners, elements.count)
    value = ctx.op("Gather", [elements.value, first], {"axis": 0})
    value = _moved(ctx, value, 0, elements.axis, elements.rank)
    before = ctx.op("Gather", [lengths.starts, elements.samples], {"axis": 0})
    return [
        ctx.packed(value, lengths, elements.axis),
        ctx.packed(places, lengths),
        ctx.packed(ctx.op("Sub", [which, before]), lengths),
        ctx.packed(counts, lengths),
    ]


def _as_asked(node: ir.Node, outputs: Sequence[Output]) -> list[Output | None]:
    return [found if old.name else None for old, found in zip(node.outputs, outputs, strict=False)]
