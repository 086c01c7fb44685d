"""Operators that work on each element by itself."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output

__all__ = ["broadcasting", "elementwise"]


def elementwise(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """``f(x)[k] = f(x[k])``: the operator itself, with its attributes."""
    return ctx.same(node, [None if x is None else x.value for x in operands])


def broadcasting(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Numpy broadcasting of any number of operands.

    Let ``R`` be the largest rank of a sample among the operands. A stacked operand of a smaller
    rank becomes ``[B, 1, ..., 1, *s]`` so that its own axes stay at the right; a shared one
    aligns by itself.
    """
    present = [x for x in operands if x is not None]
    if len(present) == 1:
        return ctx.same(node, [present[0].value])
    rank = max(x.rank for x in present)
    return ctx.same(node, [None if x is None else ctx.padded_rank(x, rank) for x in operands])
