"""Unique over all elements of flat samples, which come out in one line."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.moves import read_simply
from passes.batching.flat.regridding import in_a_line
from passes.batching.packed.distinct import unique_rows
from passes.decisions import Code, Decline

__all__ = ["unique"]


def unique(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
    """The elements of images of any size.

    Raises:
        Decline: It tells rows or columns apart, which differ in size, or the elements are floats.
    """
    simple = read_simply(ctx, node, operands)
    if simple is not None:
        return simple
    if ctx.attribute(node, "axis") is not None:
        raise Decline(Code.NO_RULE, "it compares rows or columns of samples of several sizes")
    return unique_rows(ctx, node, [in_a_line(ctx, ctx.operand(operands, 0))])
