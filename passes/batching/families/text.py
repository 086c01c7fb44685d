"""Operators on strings, and on the tokens made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import with_spare_sample, without_spare_sample
from passes.decisions import Code, Decline
from passes.graph.graphs import is_used

__all__ = ["string_normalizer", "string_split", "tf_idf_vectorizer"]


def string_normalizer(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """The strings of all samples in one row; where words are dropped, rows differ in length.

    One more string is appended and cut off again: the operator refuses a row of none.
    """
    if ctx.attribute(node, "stopwords"):
        raise Decline(Code.DATA_DEPENDENT, "how many words are left differs by sample")
    data = ctx.operand(operands, 0, "X").value
    row = ctx.op("Reshape", [data, ctx.ints(-1)])
    spare = ctx.builder.constant(np.array(["a"], object))
    longer = ctx.op("Concat", [row, spare], {"axis": 0})
    (new,) = ctx.same(node, [longer])
    cut = ctx.op("Slice", [new.value, ctx.ints(0), ctx.ints(-1), ctx.ints(0)])
    return [ctx.stacked(ctx.reshape(cut, ctx.op("Shape", [data])))]


def string_split(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output | None]:
    """The numbers of parts; the parts are padded to the longest of the sample, not of all."""
    parts = node.outputs[0]
    if is_used(parts):
        raise Decline(Code.DATA_DEPENDENT, "the largest number of parts differs by sample")
    _, numbers = ctx.same(node, [ctx.operand(operands, 0, "X").value])
    return [None, numbers]


def tf_idf_vectorizer(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """Rows of tokens ``[C]`` are ``[B, C]``; samples of rows are merged.

    onnxruntime refuses no rows, so there is one more where there may be no samples.
    """
    data = ctx.operand(operands, 0, "X")
    rows = with_spare_sample(ctx, data)
    if data.rank == 1:
        (new,) = ctx.same(node, [rows])
    else:
        (new,) = ctx.same(node, [ctx.merged(rows)])
        new = ctx.stacked(ctx.unmerged(new.value, rows))
    return [ctx.stacked(without_spare_sample(ctx, new.value))]
