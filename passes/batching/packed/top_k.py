"""TopK, by which exporters write sorting, of samples that differ in length.

Lengths ``[2, 3]`` are padded to ``[2, 3]`` rows with what comes last in the order. A sample has
its own rows in front then, and of ties the one with the lower number, which no padding has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.batching.packed.padding import Spans, laid_out, unpadded
from passes.batching.packed.products import top_k_beside
from passes.batching.packed.row_by_row import crosses, rows, sample_axis
from passes.batching.packed.segments import axis_moved_back, with_lengths_in_front
from passes.decisions import Code, Decline
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative

__all__ = ["sorted_rows", "top_k_rows", "top_of_rows"]

_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64})
"""Element types for which onnxruntime has the operator in all opsets."""


def top_k_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The K largest or smallest of each sample; K may be a number of each sample."""
    data, count = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "K")
    if not data.is_packed:
        raise Decline(Code.BATCHED_OPERAND, "its K differs in length")
    axis = sample_axis(int(ctx.attribute(node, "axis", -1)), data.rank)
    if data.beside is not None:
        if axis != data.rank - 1 or not count.is_shared:
            raise crosses("TopK")
        return top_k_beside(ctx, data, count.value, is_largest=_is_largest(ctx, node))
    if axis != data.axis:
        if not count.is_shared:
            raise Decline(Code.BATCHED_OPERAND, "its K differs from sample to sample")
        return rows(ctx, node, operands)
    _check_type(data)
    first = with_lengths_in_front(ctx, data)
    number = ctx.numbers.number(node.inputs[1])
    of_numbers = _of_one_number if count.is_shared else _of_own_numbers
    made = of_numbers(ctx, node, first, count, number)
    return [axis_moved_back(ctx, out, data.axis, data.rank) for out in made]


def top_of_rows(ctx: Context, node: ir.Node, data: Batched, count: Batched) -> Sequence[ir.Value]:
    """Return values and places of as many rows of each sample: ``[B, K, *rest]``.

    Raises:
        Decline: onnxruntime does not sort numbers of this type.
    """
    _check_type(data)
    number = ctx.numbers.number(node.inputs[1])
    return [out.value for out in _of_one_number(ctx, node, data, count, number)]


def sorted_rows(ctx: Context, node: ir.Node, data: Batched) -> Sequence[ir.Value]:
    """Return values and places of all rows of each sample, packed alike.

    Raises:
        Decline: onnxruntime does not sort numbers of this type.
    """
    _check_type(data)
    lengths = data.lengths
    assert lengths is not None
    width = lengths.width
    found = _sorted(ctx, node, data, lengths.starts, width, width)
    return [unpadded(ctx, value, lengths, width) for value in found]


def _check_type(data: Batched) -> None:
    if data.dtype not in _TYPES:
        raise crosses("TopK")


def _is_largest(ctx: Context, node: ir.Node) -> bool:
    return bool(ctx.attribute(node, "largest", 1))


def _sorted(
    ctx: Context, node: ir.Node, data: Batched, starts: ir.Value, width: ir.Value, most: ir.Value
) -> Sequence[ir.Value]:
    """Return values and places of the first ``most`` rows of each sample: ``[B, most, *rest]``."""
    assert data.dtype is not None
    assert data.lengths is not None
    largest = _is_largest(ctx, node)
    spans = Spans(starts, data.lengths.value, data.lengths.total)
    fill = np.array(_last(data.dtype, is_largest=largest), data.dtype.numpy())
    laid = laid_out(ctx, data.value, spans, width, fill)
    attributes = {"axis": 1, "sorted": 1, **({} if largest else {"largest": 0})}
    found = ctx.builder.node("TopK", [laid, most], attributes, outputs=2).outputs
    if data.rank > 1 or not data.lengths.held_padded:
        ctx.limit_padding(data)
    return found


def _last(dtype: ir.DataType, *, is_largest: bool) -> float:
    if dtype.is_floating_point():
        return -np.inf if is_largest else np.inf
    limits = np.iinfo(dtype.numpy())
    return limits.min if is_largest else limits.max


def _of_one_number(
    ctx: Context, node: ir.Node, data: Batched, count: Batched, number: Linear | None
) -> list[Output]:
    """Return as many rows of each sample; one that has fewer is an error."""
    lengths = data.lengths
    assert lengths is not None
    most = ctx.op("Reshape", [count.value, ctx.ints(1)])
    flags = []
    if number is None or not is_nonnegative(lengths.size - number):
        flags.append(ctx.op("Less", [lengths.value, most]))
    starts = failing_where(ctx, lengths.starts, flags)
    width = ctx.op("Max", [lengths.width, most])
    return [ctx.stacked(v) for v in _sorted(ctx, node, data, starts, width, most)]


def _of_own_numbers(
    ctx: Context, node: ir.Node, data: Batched, count: Batched, number: Linear | None
) -> list[Output]:
    """Return a number of rows of each sample; one that has fewer is an error."""
    lengths = data.lengths
    assert lengths is not None
    if number == lengths.size:
        made = lengths
    else:
        made = Lengths(ctx.builder, _checked(ctx, lengths, count, number), size=number)
    if made is lengths:
        return [ctx.packed(value, made) for value in sorted_rows(ctx, node, data)]
    most = made.width
    found = _sorted(ctx, node, data, lengths.starts, lengths.width, most)
    return [ctx.packed(unpadded(ctx, v, made, most), made) for v in found]


def _checked(ctx: Context, lengths: Lengths, count: Batched, number: Linear | None) -> ir.Value:
    sizes = ctx.op("Reshape", [count.value, ctx.batch])
    flags = []
    if number is None or not is_nonnegative(lengths.size - number):
        flags.append(ctx.op("Greater", [sizes, lengths.value]))
    if number is None or not is_nonnegative(number):
        flags.append(ctx.op("Less", [sizes, ctx.builder.scalar(0)]))
    return failing_where(ctx, sizes, flags)
