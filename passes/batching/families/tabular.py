"""Operators of ``ai.onnx.ml`` on rows of features: models, and what prepares features for them.

A sample ``[C]`` is one row, and a sample ``[N, C]`` is ``N`` of them. onnxruntime takes no others
for these operators.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import merging
from passes.batching.layouts import Batched, present
from passes.decisions import Code, Decline

__all__ = [
    "feature_rows",
    "joined_features",
    "picked_features",
    "predictions",
    "require_widths",
    "side_by_side",
]


def feature_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """What gives each row another one of its size: ``[C]`` is ``[B, C]``, others are merged."""
    data = ctx.operand(operands, 0, "X")
    return ctx.same(node, [data.value]) if _rank([data]) == 1 else merging(ctx, node, operands)


def predictions(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """What gives ``[N, ...]`` for the rows of a sample, and ``[1, ...]`` for a sample ``[C]``."""
    if _rank(present(operands)) == 2:
        return merging(ctx, node, operands)
    rows = [None if x is None else ctx.expanded(x) for x in operands]
    return [ctx.stacked(ctx.unsqueeze(out.value, [1])) for out in ctx.same(node, rows)]


def _rank(given: Sequence[Batched]) -> int:
    """Return the rank of the samples of all operands.

    Raises:
        Decline: It is neither 1 nor 2, or not one.
    """
    ranks = {x.rank for x in given}
    if ranks not in ({1}, {2}):
        raise Decline(Code.NO_RULE, "its samples are neither rows of features nor one row")
    return ranks.pop()


def joined_features(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """FeatureVectorizer: floats side by side. onnxruntime ends the process on no rows."""
    given = present(operands)
    rank = _rank(given)
    require_widths(ctx, node, given)
    joined = side_by_side(ctx, [ctx.expanded(x) for x in given])
    return [ctx.stacked(ctx.unsqueeze(joined, [1]) if rank == 1 else joined)]


def require_widths(ctx: Context, node: ir.Node, given: Sequence[Batched]) -> None:
    """Check that the operands are as wide as a FeatureVectorizer says: others it fills or cuts.

    Raises:
        Decline: They are not, or it is not known.
    """
    if [x.dims[-1] for x in given] != list(ctx.attribute(node, "inputdimensions", ())):
        raise Decline(Code.NO_RULE, "its operands are not known to be as wide as it says")


def side_by_side(ctx: Context, values: Sequence[ir.Value]) -> ir.Value:
    """Return values as floats, joined along their last axis."""
    floats = [ctx.op("Cast", [value], {"to": ir.DataType.FLOAT}) for value in values]
    return ctx.op("Concat", floats, {"axis": -1})


def picked_features(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """ArrayFeatureExtractor: columns of the last axis, as a row of its own of a sample ``[C]``."""
    data = ctx.operand(operands, 0, "X")
    places = ctx.require_shared(ctx.operand(operands, 1, "Y"), "Y")
    (found,) = ctx.same(node, [data.value, places])
    return [ctx.stacked(ctx.unsqueeze(found.value, [1]))] if data.rank == 1 else [found]
