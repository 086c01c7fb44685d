"""Operators that work row by row: on packed samples they run as they are.

The rows of all samples, ``[T, *rest]``, are to such an operator one sample of ``T`` rows. Ranks
and axes are those of a sample, so attributes stay as they are. The same holds where samples
differ in length along another axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output, Rule
from passes.batching.flat.spreading import spread_out
from passes.batching.layouts import Batched, lengths_in, present
from passes.batching.lengths import Lengths
from passes.batching.packed.experts import product_by_own_matrix
from passes.batching.packed.fixed_length import fixed_length, joined_rows
from passes.batching.packed.meeting import meeting
from passes.batching.packed.products import product_of_lengths, softmax_beside
from passes.batching.packed.spread_rows import spread
from passes.batching.packed.zero_points import product_beside_zero_points
from passes.decisions import Code, Decline
from passes.graph.graphs import is_used

__all__ = [
    "aligned_row",
    "along_other_axis",
    "broadcasting_rows",
    "crosses",
    "lengths_of",
    "matrix_rows",
    "of_images",
    "packed_data",
    "rows",
    "same_rows",
    "sample_axis",
    "trailing_rows",
]


def lengths_of(operands: Sequence[Operand]) -> Lengths:
    """Return the lengths that all packed operands have.

    Raises:
        Decline: They are not known to be the same.
    """
    found = lengths_in(operands)
    if not found or not all(found[0].equal(other) for other in found):
        raise Decline(Code.RAGGED, "its operands are not proven to be equally long")
    return found[0]


def packed_data(ctx: Context, operands: Sequence[Operand]) -> tuple[Batched, Lengths]:
    """Return the first operand, which must be packed, the others being shared.

    Raises:
        Decline: Another operand differs from sample to sample.
    """
    data = ctx.operand(operands, 0)
    if data.lengths is None:
        raise Decline(Code.RAGGED, "what belongs to its data differs in length")
    for position, x in enumerate(operands[1:], 1):
        if x is not None and not x.is_shared:
            detail = f"operand {position} differs beside samples of different length"
            raise Decline(Code.BATCHED_OPERAND, detail)
    return data, data.lengths


def same_rows(
    ctx: Context,
    node: ir.Node,
    inputs: Sequence[ir.Value | None],
    lengths: Lengths,
    attributes: Mapping[str, Any] | None = None,
    axis: int = 0,
) -> list[Output]:
    """Record the node's own operator on rows; every output is packed along one axis.

    Args:
        ctx: The context of the node.
        node: The node.
        inputs: What it reads in the place of its inputs.
        lengths: How many rows each sample has.
        attributes: Attributes in the place of its own.
        axis: Along which axis the outputs are packed.
    """
    return [ctx.packed(out.value, lengths, axis) for out in ctx.same(node, inputs, attributes)]


def rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """``f(x)[row] = f(x[row])``: the first operand is packed, and the others are shared."""
    data, lengths = packed_data(ctx, operands)
    inputs = [None if x is None else x.value for x in operands]
    return same_rows(ctx, node, inputs, lengths, axis=data.axis)


def aligned_row(ctx: Context, x: Batched, lengths: Lengths, place: int) -> ir.Value:
    """Return an operand aligned, from the right, with packed samples.

    Args:
        ctx: The context.
        x: The operand.
        lengths: The lengths of the packed samples.
        place: Which axis differs in length, counted from the back: 1 for the last.

    Raises:
        Decline: It reaches the axis of different lengths with anything but size 1 or the same
            lengths: a sample that happens to be of length 1 would broadcast.
    """
    if x.is_packed:
        if x.rank - x.axis != place:
            raise Decline(Code.RAGGED, "a second axis of the result would differ in length")
        return x.value
    reaches = x.rank >= place
    if reaches and x.dims[-place] != 1:
        raise Decline(Code.RAGGED, f"'{x.value.name}' meets an axis that differs in length")
    if x.is_shared:
        return x.value
    before = max(x.rank - place, 0)
    value = ctx.squeeze(x.value, [before + 1]) if reaches else ctx.padded_rank(x, place - 1)
    value = spread(ctx, value, lengths)
    if not before:
        return value
    return ctx.op(
        "Transpose", [value], {"perm": [*range(1, before + 1), 0, *range(before + 1, x.rank)]}
    )


def broadcasting_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """Numpy broadcasting in which one length meets itself, size 1, or nothing.

    What is stacked is repeated for each row of its sample. Where one length meets a number of
    rows, all samples have this number, or one row. Two lengths along two axes are those of a
    sample that differs along both. Two lengths along one axis are compared when the model runs.
    """
    axes = {x.rank - x.axis for x in present(operands) if x.is_packed}
    if ctx.takes_packed_as_flat and len(axes) > 1:
        return spread_out(ctx, node, operands)
    operands = meeting(ctx, operands)
    given = present(operands)
    lengths = lengths_of(operands)
    place = max(x.rank - x.axis for x in given if x.is_packed)
    size = fixed_length(given, place) if len(given) == len(operands) else None
    if size is not None:
        return joined_rows(ctx, node, given, size)
    inputs = [None if x is None else aligned_row(ctx, x, lengths, place) for x in operands]
    axis = max(x.rank for x in given) - place
    return same_rows(ctx, node, inputs, lengths, axis=axis)


def sample_axis(axis: int, rank: int) -> int:
    """Return an axis of a sample, counted from the front.

    Raises:
        Decline: A sample has no such axis.
    """
    if not -rank <= axis < rank:
        raise Decline(Code.NO_RULE, f"a sample of rank {rank} has no axis {axis}")
    return axis % rank


def crosses(op_type: str) -> Decline:
    """Return the decline of a node that works along the axis of different lengths."""
    return Decline(Code.RAGGED, f"{op_type} works along the axis that differs in length")


def along_other_axis(first: Rule | None = None) -> Rule:
    """Make the rule of operators along the axis of their attribute, the last one without it.

    Args:
        first: Rule for the axis of different lengths.
    """

    def along_axis(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
        data, _ = packed_data(ctx, operands)
        if data.beside is not None:
            return [softmax_beside(ctx, node, data)]
        axis = int(ctx.attribute(node, "axis", -1))
        if sample_axis(axis, data.rank) != data.axis:
            return rows(ctx, node, operands)
        if first is None:
            raise crosses(node.op_type)
        return [out for out in first(ctx, node, operands) if out is not None]

    return along_axis


def trailing_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """LayerNormalization and its kin over the axes from one axis on."""
    data, _ = packed_data(ctx, operands)
    axis = int(ctx.attribute(node, "axis", -1))
    if sample_axis(axis, data.rank) <= data.axis:
        raise crosses(node.op_type)
    return rows(ctx, node, operands)


def of_images(rank: int, *, by_channel: bool = False) -> Rule:
    """Make the rule of operators over images, for packed lists of images and shared weights.

    Args:
        rank: Least rank of a list of images.
        by_channel: Whether all numbers of a channel are treated alike, wherever they lie.
    """

    def over_images(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
        data, lengths = packed_data(ctx, operands)
        is_across = data.axis > 0 and not (by_channel and data.axis > 1)
        if data.rank < rank or is_across or ctx.attribute(node, "training_mode", 0):
            raise crosses(node.op_type)
        if any(is_used(out) for out in node.outputs[1:]):
            raise Decline(Code.NO_RULE, "only its first output is known for images of samples")
        inputs = [None if x is None else x.value for x in operands]
        return same_rows(ctx, node, inputs, lengths, axis=data.axis)

    return over_images


def matrix_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """MatMul and its kin.

    Rows, or matrices, of a packed left side by a shared right side; columns of a packed right
    side; rows by a matrix of each sample; or matrices of both sides, for a target without loops
    those that both differ in length.
    """
    right = 3 if node.op_type == "QLinearMatMul" else 1
    a, b = ctx.operand(operands, 0, "A"), ctx.operand(operands, right, "B")
    inputs = [None if x is None else x.value for x in operands]
    product = None
    if node.op_type == "MatMul":
        product = product_of_lengths(ctx, a, b) or product_by_own_matrix(ctx, a, b)
    elif a.beside is None:
        product = product_beside_zero_points(ctx, node, operands)
    if product is not None:
        return [product]
    if a.beside is not None or b.beside is not None:
        raise Decline(Code.RAGGED, "its samples differ in length along two axes")
    if a.is_packed and b.is_packed and a.rank == b.rank > 2 and a.axis == b.axis == 0:
        return same_rows(ctx, node, inputs, lengths_of(operands))
    if (
        node.op_type == "MatMul"
        and a.is_shared
        and b.axis == b.rank - 1
        and min(a.rank, b.rank) > 1
    ):
        last = max(a.rank, b.rank) - 1
        return same_rows(ctx, node, inputs, lengths_of(operands), axis=last)
    data, lengths = packed_data(ctx, operands)
    if data.axis >= data.rank - 1:
        raise crosses(node.op_type)
    by_row = any(x is not None and x.rank > 0 for x in operands[2:3])
    if by_row and (data.axis or data.rank == 2):
        raise Decline(Code.RAGGED, "its zero point may be one for each row")
    if b.rank > 2:
        raise Decline(Code.RAGGED, "its right side has an axis that meets the samples'")
    if b.rank == 2:
        return same_rows(ctx, node, inputs, lengths, axis=data.axis)
    # onnxruntime has no product of no rows with a vector.
    inputs[right] = ctx.unsqueeze(b.value, [1])
    (column,) = ctx.same(node, inputs)
    return [ctx.packed(ctx.squeeze(column.value, [data.rank - 1]), lengths, data.axis)]
