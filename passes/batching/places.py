"""Positions in one sample as positions in what holds all samples."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.context import Context

__all__ = ["places_in_all"]


def places_in_all(
    ctx: Context,
    where: ir.Value,
    starts: ir.Value,
    sizes: ir.Value,
    total: ir.Value,
    *,
    from_end: bool = True,
) -> ir.Value:
    """Return positions in samples that lie one behind the other as positions in all of them.

    A position outside of its sample is none of a neighbour: it comes to lie behind the last one
    of all, which is an error there, too. All operands broadcast.

    Args:
        ctx: The context.
        where: Positions in a sample, int64.
        starts: The first position of each sample, int64.
        sizes: How many each sample has, int64.
        total: How many there are in all, int64.
        from_end: Whether a negative position counts from the end of the sample.
    """
    zero = ctx.builder.scalar(0)
    from_front = where
    if from_end:
        wrapped = ctx.op("Add", [where, sizes])
        from_front = ctx.op("Where", [ctx.op("Less", [where, zero]), wrapped, where])
    outside = ctx.op(
        "Or", [ctx.op("Less", [from_front, zero]), ctx.op("GreaterOrEqual", [from_front, sizes])]
    )
    return ctx.op("Where", [outside, total, ctx.op("Add", [from_front, starts])])
