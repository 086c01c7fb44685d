"""Regions of interest of packed samples: any number of them in the images of each sample.

Two samples of 2 images each: the ``batch_indices`` ``[0]`` and ``[1, 0]`` become ``[0, 3, 2]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import present
from passes.batching.packed.checks import equally_long
from passes.batching.packed.row_by_row import lengths_of, same_rows
from passes.batching.places import places_in_all
from passes.decisions import Code, Decline

__all__ = ["roi_align_rows"]


def roi_align_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """All regions at once; ``batch_indices`` count the images of all samples.

    The images of all samples have one shape.
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
