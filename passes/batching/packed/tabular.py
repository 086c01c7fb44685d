"""Operators of ``ai.onnx.ml`` on rows of features, for samples of different numbers of rows."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched, present
from passes.batching.packed.row_by_row import crosses, lengths_of, rows, same_rows
from passes.batching.tabular import require_widths, side_by_side

__all__ = ["joined_columns", "picked_columns", "rows_of_features"]


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
