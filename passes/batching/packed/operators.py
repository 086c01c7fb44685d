"""Single operators that work row by row under a condition of their own.

Bounds ``[0, 1]`` of two samples are spread to the rows of the lengths ``[2, 1]`` first:
``[0, 0, 1]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.elementwise import between, cast_like, own_bounds
from passes.batching.families.tabular import require_widths, side_by_side
from passes.batching.layouts import Batched, present
from passes.batching.packed.checks import equally_long
from passes.batching.packed.experts import gemm_by_own_matrix
from passes.batching.packed.row_by_row import (
    aligned_row,
    broadcasting_rows,
    crosses,
    lengths_of,
    packed_data,
    rows,
    same_rows,
    sample_axis,
)
from passes.batching.places import places_in_all
from passes.decisions import Code, Decline
from passes.graph.equations import lettered
from passes.graph.picking import pick

__all__ = [
    "cast_like_rows",
    "clip_rows",
    "einsum_rows",
    "gemm_rows",
    "joined_columns",
    "one_hot_rows",
    "one_sided_rows",
    "picked_columns",
    "quantization_rows",
    "roi_align_rows",
    "rows_of_features",
    "trilu_rows",
]


def one_sided_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """PRelu: the data has the shape of the result."""
    if not ctx.operand(operands, 0, "X").is_packed:
        raise Decline(Code.RAGGED, "its slope differs in length")
    return broadcasting_rows(ctx, node, operands)


def clip_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Clip, by bounds for all or by those of each sample."""
    data, bounds = ctx.operand(operands, 0, "input"), operands[1:3]
    if all(x is None or x.is_shared for x in bounds):
        return rows(ctx, node, operands)
    lengths, place = lengths_of(operands), data.rank - data.axis
    bounds = own_bounds(ctx, operands)
    aligned = [None if x is None else aligned_row(ctx, x, lengths, place) for x in bounds]
    return [ctx.packed(between(ctx, data, aligned), lengths, data.axis)]


def cast_like_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """CastLike: the second operand gives its element type only."""
    data, (made,) = ctx.operand(operands, 0, "input"), cast_like(ctx, node, operands)
    if data.lengths is None:
        return [made]
    return [ctx.packed(made.value, data.lengths, data.axis, data.beside)]


def gemm_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The rows of A by a shared B, or one of each sample; C is one row, or packed as A is.

    The rows are the columns of an A that is turned.
    """
    a, c = ctx.operand(operands, 0, "A"), ctx.optional(operands, 2)
    lengths = lengths_of(operands)
    is_turned = bool(ctx.attribute(node, "transA", 0))
    if not a.is_packed or a.axis != is_turned:
        raise crosses(node.op_type)
    b = ctx.operand(operands, 1, "B")
    if b.is_stacked and not is_turned:
        return [gemm_by_own_matrix(ctx, node, a, b, c)]
    ctx.require_shared(b, "right side")
    if c is not None and not c.is_packed:
        ctx.require_shared(c, "C")
        if c.rank > 1 and c.dims[0] != 1:
            raise Decline(Code.RAGGED, "its C meets the axis that differs in length")
    if c is not None and c.is_packed and (c.rank, c.axis) != (2, 0):
        raise Decline(Code.RAGGED, "its C has the axis that differs in length elsewhere")
    return same_rows(ctx, node, [None if x is None else x.value for x in operands], lengths)


def quantization_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """One scale for all, or one for each index along an axis of the rows."""
    data, _ = packed_data(ctx, operands)
    scale = ctx.operand(operands, 1, "scale")
    if ctx.attribute(node, "block_size", 0):
        raise crosses(node.op_type)
    per_axis = scale.rank == 1 and scale.dims[0] != 1
    if per_axis and sample_axis(int(ctx.attribute(node, "axis", 1)), data.rank) == data.axis:
        raise crosses(node.op_type)
    return rows(ctx, node, operands)


def one_hot_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The new axis goes before that of different lengths, or behind it."""
    data, lengths = packed_data(ctx, operands)
    new = sample_axis(int(ctx.attribute(node, "axis", -1)), data.rank + 1)
    inputs = [None if x is None else x.value for x in operands]
    return same_rows(ctx, node, inputs, lengths, axis=data.axis + (new <= data.axis))


def trilu_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Matrices of the rows; or a sample that is a matrix, whose rows know their places."""
    data = ctx.operand(operands, 0, "input")
    if data.rank > 2:
        return rows(ctx, node, operands)
    diagonal, lengths = ctx.optional(operands, 1), lengths_of([data])
    if data.dtype == ir.DataType.STRING:
        raise Decline(Code.NO_RULE, "no text is a zero")
    size = ctx.op("Squeeze", [ctx.shape(data.value, 1), ctx.ints(0)])
    zero = ctx.builder.scalar(0)
    columns = ctx.arange(size)
    offsets = ctx.op("Sub", [columns, ctx.unsqueeze(lengths.positions, [1])])
    least = zero
    if diagonal is not None:
        number = aligned_row(ctx, diagonal, lengths, 1)
        least = ctx.unsqueeze(number, [1] if diagonal.is_stacked else [0])
    upper = ctx.attribute(node, "upper", 1)
    kept = ctx.op("GreaterOrEqual" if upper else "LessOrEqual", [offsets, least])
    none = ctx.builder.constant(np.array(0, data.element_type.numpy()))
    value = pick(ctx.builder, kept, data.value, none, data.dtype)
    return [ctx.packed(value, lengths, 0, data.beside)]


def einsum_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The first letter of every packed term is the first of the result and in no other place."""
    given, lengths = [ctx.operand(operands, i) for i in range(len(operands))], lengths_of(operands)
    found = lettered(node.attributes.get_string("equation", ""), [x.rank for x in given])
    if found is None or not found[1]:
        raise crosses(node.op_type)
    terms, letter = found[0], found[1][0]
    for term, x in zip(terms, given, strict=True):
        if x.is_stacked:
            raise Decline(Code.BATCHED_OPERAND, "an operand differs beside packed samples")
        if term.count(letter) != x.is_packed or (x.is_packed and term[:1] != letter):
            raise crosses(node.op_type)
    return same_rows(ctx, node, [x.value for x in given], lengths)


def roi_align_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """All regions at once; ``batch_indices`` count the images of all samples.

    The images of all samples have one shape. Of two samples of 2 images each the
    ``batch_indices`` ``[0]`` and ``[1, 0]`` become ``[0, 3, 2]``.
    """
    x = ctx.operand(operands, 0, "X")
    regions = present(equally_long(ctx, operands[1:3]))
    if not x.has_an_axis or any(not one.is_packed or one.axis for one in regions):
        raise Decline(Code.RAGGED, "images differ in number or in size, or are more than regions")
    rois, numbers = regions
    lengths, images, where = lengths_of(regions), x.value, numbers.value
    if x.is_stacked:
        size, images = ctx.shape(x.value, 1, 2), ctx.merged(x.value)
        starts = ctx.op("Mul", [lengths.samples, size])
        total = ctx.shape(images, 0, 1)
        where = places_in_all(ctx, where, starts, size, total, from_end=False)
    return same_rows(ctx, node, [images, rois.value, where], lengths)


def rows_of_features(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """What treats each row by itself: the rows of all samples are those of one."""
    given = _rows_in(node, operands)
    return same_rows(ctx, node, [x.value for x in given], lengths_of(operands))


def joined_columns(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """FeatureVectorizer: floats side by side."""
    given = _rows_in(node, operands)
    require_widths(ctx, node, given)
    return [ctx.packed(side_by_side(ctx, [x.value for x in given]), lengths_of(operands))]


def _rows_in(node: ir.Node, operands: Sequence[Operand]) -> list[Batched]:
    """Return the operands. They must be rows of features.

    Raises:
        Decline: One is anything else.
    """
    given = present(operands)
    if any(not x.is_packed or x.rank != 2 or x.axis != 0 for x in given):
        raise crosses(node.op_type)
    return given


def picked_columns(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """ArrayFeatureExtractor along the last axis, where samples differ along another one."""
    data = ctx.operand(operands, 0, "X")
    if data.rank < 2 or data.axis == data.rank - 1:
        raise crosses(node.op_type)
    return rows(ctx, node, operands)
