"""Positions that are found in each sample, as many as there are: NonZero, NonMaxSuppression.

Flags ``[1, 0, 1]`` and ``[0, 1, 0]`` of two samples are found at ``[[0, 0, 1], [0, 2, 1]]``: the
first row says how many there are of each sample, ``[2, 1]``, the second one where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.counted_rows import lengths_of_rows
from passes.batching.families.selection import of_images
from passes.batching.layouts import Batched, present
from passes.batching.packed.checks import equally_long
from passes.batching.packed.padding import padded, places_inside
from passes.batching.packed.row_by_row import crosses, lengths_of, packed_data
from passes.decisions import Code, Decline
from passes.graph.builder import END

__all__ = ["non_zero", "non_zero_rows", "suppression_of_rows"]


_CHOSEN = 2
"""For so many samples each place is taken to be found."""


def non_zero(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The first coordinate of what is found in all samples is the sample, in ascending order."""
    data = ctx.operand(operands, 0)
    if not data.rank:
        raise Decline(Code.NO_RULE, "a number has no position")
    found = ctx.op("NonZero", [data.value])
    samples, positions = _first(ctx, found), _behind_first(ctx, found)
    out = _positions(ctx, positions, data.value, samples, ctx.batch, held_padded=True)
    if data.rank <= 2 and out.lengths is not None and out.lengths.likely is None:
        out.lengths.likely = _likely(ctx, data)
    return [out]


def _likely(ctx: Context, flags: Batched) -> ir.Value:
    """Return about how many flags of all samples are set, int64 ``[1]``.

    Flags ``[T]`` of each expert say which tokens chose it, and a token is taken to choose two.
    Flags ``[K, T]`` say which tokens chose it as the first, the second and so on: each choice is
    one expert's.
    """
    sizes = ctx.shape(flags.value, 1, 1 + flags.rank)
    if flags.rank == 1:
        return ctx.op("Mul", [sizes, ctx.ints(_CHOSEN)])
    return ctx.op("ReduceProd", [sizes], {"keepdims": 1})


def non_zero_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The first coordinate is a row of all samples; its place in its sample stands for it."""
    data, lengths = packed_data(ctx, operands)
    found = ctx.op("NonZero", [data.value])
    rows = _first(ctx, found)
    samples, places = (
        ctx.op("Gather", [x, rows], {"axis": 0}) for x in (lengths.samples, lengths.positions)
    )
    positions = ctx.unsqueeze(places, [0])
    if data.rank > 1:
        positions = ctx.op("Concat", [positions, _behind_first(ctx, found)], {"axis": 0})
    held = lengths.held_padded and data.rank == 1
    return [_positions(ctx, positions, data.value, samples, lengths.count, held_padded=held)]


def _positions(
    ctx: Context,
    positions: ir.Value,
    data: ir.Value,
    samples: ir.Value,
    count: ir.Value,
    *,
    held_padded: bool,
) -> Output:
    """Return positions. A tensor that is searched again has as many of them."""
    lengths = ctx.lengths_by(
        data, lambda: lengths_of_rows(ctx.builder, samples, count, held_padded=held_padded)
    )
    return ctx.packed(positions, lengths, 1)


def _first(ctx: Context, found: ir.Value) -> ir.Value:
    """Return the first coordinates, ``[M]``."""
    return ctx.op("Gather", [found, ctx.builder.scalar(0)], {"axis": 0})


def _behind_first(ctx: Context, found: ir.Value) -> ir.Value:
    """Return all coordinates but the first, ``[rank, M]``."""
    return ctx.op("Slice", [found, ctx.ints(1), ctx.ints(END), ctx.ints(0)])


def suppression_of_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """One image in each sample, padded by boxes of no size with the lowest score.

    Those come last, so that they suppress none and take the place of none; what is chosen of
    them where no threshold keeps them out is left out of the result.

    Raises:
        Decline: Boxes or scores are not packed, or a sample has several images.
    """
    boxes, scores = ctx.operand(operands, 0, "boxes"), ctx.operand(operands, 1, "scores")
    settings = [ctx.require_shared(x, "limits") for x in operands[2:]]
    if not (boxes.is_packed and scores.is_packed):
        raise crosses(node.op_type)
    if (boxes.axis, scores.axis) != (1, 2) or boxes.dims[0] != 1:
        raise Decline(Code.RAGGED, "it is not over the boxes of one image in each sample")
    boxes, scores = present(equally_long(ctx, [boxes, scores]))
    lengths = lengths_of([boxes, scores])
    ctx.note_padding(boxes, scores)
    width = lengths.width
    _, inside = places_inside(ctx, lengths.value, width)
    lowest = ctx.builder.constant(np.array(-np.inf, np.float32))
    by_box = ctx.op("Transpose", [ctx.squeeze(scores.value, [0])], {"perm": [1, 0]})
    known = padded(ctx, by_box, lengths, width)
    filled = ctx.op("Where", [ctx.unsqueeze(inside, [2]), known, lowest])
    by_class = ctx.op("Transpose", [filled], {"perm": [0, 2, 1]})
    all_boxes = padded(ctx, ctx.squeeze(boxes.value, [0]), lengths, width)
    (new,) = ctx.same(node, [all_boxes, by_class, *settings])
    images, places = (
        ctx.op("Gather", [new.value, ctx.builder.scalar(i)], {"axis": 1}) for i in (0, 2)
    )
    sizes = ctx.op("Gather", [lengths.value, images], {"axis": 0})
    is_box = ctx.op("Less", [places, sizes])
    found = ctx.op("Compress", [new.value, is_box], {"axis": 0})
    return [of_images(ctx, found, ctx.ints(1))]
