"""Resize of one axis: onnxruntime sums along the axis beside it, which keeps its size."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.flat.resizing.size_changes import SizeChange
from passes.batching.flat.samples import FlatSamples
from passes.decisions import Code, Decline

__all__ = ["REGION", "with_axis_beside"]

REGION = "tf_crop_and_resize"
_BESIDE = {
    (2, 0): (1,),
    (2, 1): (0,),
    (3, 0): (1, 2),
    (3, 1): (0, 2),
    (3, 2): (1, 0),
    (4, 1): (2,),
    (4, 2): (3,),
    (4, 3): (2,),
    (5, 2): (3, 4),
    (5, 3): (2, 4),
    (5, 4): (3, 2),
}
"""By rank and axis: which axes are summed, too; of several any will do."""


def with_axis_beside(
    ctx: Context, node: ir.Node, flat: FlatSamples, change: SizeChange, mode: str
) -> tuple[list[SizeChange], int | None]:
    """Return the change of an axis, and that of the axis beside it, which keeps its size.

    Args:
        ctx: The context.
        node: The Resize.
        flat: The samples.
        change: What happens to the axis that changes.
        mode: How places are summed.

    Returns:
        The changes, in the order of the axes of a sample; and the axis in memory beside the one
        that changes where no such change can say it, as it is none of the grid.

    Raises:
        Decline: No axis beside it is known.
    """
    rank, axis = len(flat.order), flat.order.index(change.at)
    if ctx.attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Decline(Code.NO_RULE, "it keeps the aspect of one axis")
    if ctx.attribute(node, "coordinate_transformation_mode", "half_pixel") == REGION:
        raise Decline(Code.NO_RULE, "it resizes a region along one axis")
    beside = [flat.order[a] for a in _BESIDE.get((rank, axis), ())]
    # Antialiased, each axis is summed alone: any other that stays will do.
    if mode == "antialias" and rank == 4 and beside and beside[0] >= flat.grid.rank:
        beside = [flat.order[1]]
    inside = [at for at in beside if at < flat.grid.rank]
    if inside:
        kept = _kept(ctx, flat, change, inside[0])
        return sorted([change, kept], key=lambda one: flat.order.index(one.at)), None
    if not beside or mode != "linear":
        raise Decline(Code.NO_RULE, f"it resizes axis {axis} of samples of rank {rank} alone")
    return [change], beside[0]


def _kept(ctx: Context, flat: FlatSamples, change: SizeChange, at: int) -> SizeChange:
    """Return the change of an axis that keeps its size, said as that of the other."""
    is_one = flat.is_counted_once(at)
    amount = ctx.builder.constant(np.ones(1, np.float32))
    total = None
    if change.is_size:
        amount = flat.size(at)
        total = flat.dimension(flat.order.index(at))
    return dataclasses.replace(
        change,
        position=-1,
        at=at,
        amount=amount,
        is_fixed=is_one or not change.is_size,
        is_one=is_one,
        total=total,
    )
