"""EyeLike of flat samples: ones on a diagonal of matrices of several sizes.

Of sizes ``[[2, 3], [1, 1]]`` the ones stand in rows 0, 4 and 6 of seven.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.moves import restacked
from passes.batching.flat.reading import in_order
from passes.decisions import Code, Decline

__all__ = ["eye_like"]


def eye_like(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """One where the place along the second axis is that along the first and ``k``, else zero."""
    x = ctx.operand(operands, 0, "input")
    assert x.flat is not None
    if x.flat.has_one_shape:
        return restacked(ctx, node, operands)
    dtype = ctx.attribute(node, "dtype") or x.dtype
    if dtype is None:
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells the element type of the result")
    rows, flat = in_order(ctx, x)
    row = flat.grid.place(0)
    if flat.grid.rank == 2:
        column = flat.grid.place(1)
    else:
        column = ctx.arange(ctx.squeeze(ctx.shape(rows, 1, 2), [0]))
        row = ctx.unsqueeze(row, [1])
    wanted = ctx.op("Add", [row, ctx.builder.scalar(int(ctx.attribute(node, "k", 0)))])
    is_one = ctx.op("Equal", [wanted, column])
    return [ctx.flat(ctx.op("Cast", [is_one], {"to": int(dtype)}), flat)]
