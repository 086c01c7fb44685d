"""Words and tokens in samples that differ in length.

Where tokens are counted, shorter samples are filled up by one that no n-gram has, so that nothing
more is counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import without_spare_sample
from passes.batching.families.text import string_normalizer
from passes.batching.layouts import Batched
from passes.batching.packed.padding import places_inside
from passes.batching.packed.row_by_row import packed_data
from passes.decisions import Code, Decline

__all__ = ["normalized_words", "tf_idf_of_rows"]


def normalized_words(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """StringNormalizer that drops no words: all words are one row."""
    data, lengths = packed_data(ctx, operands)
    (new,) = string_normalizer(ctx, node, operands)
    return [ctx.packed(new.value, lengths, data.axis)]


def tf_idf_of_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """TfIdfVectorizer of samples ``[N]``, or of samples of ``N`` rows of tokens.

    onnxruntime refuses no rows, so there is one more where there may be none.
    """
    data, lengths = packed_data(ctx, operands)
    fill = ctx.builder.constant(_unknown_token(ctx, node, data.dtype))
    if data.rank == 1:
        return [ctx.stacked(_of_each(ctx, node, data, fill))]
    if data.axis:
        raise Decline(Code.RAGGED, "its rows of tokens differ in length")
    shape = ctx.op("Concat", [ctx.ints(1), ctx.shape(data.value, 1)], {"axis": 0})
    rows = ctx.op("Concat", [data.value, ctx.op("Expand", [fill, shape])], {"axis": 0})
    (new,) = ctx.same(node, [rows])
    cut = ctx.op("Slice", [new.value, ctx.ints(0), ctx.ints(-1), ctx.ints(0)])
    return [ctx.packed(cut, lengths)]


def _of_each(ctx: Context, node: ir.Node, data: Batched, fill: ir.Value) -> ir.Value:
    """Return what is counted in each sample of tokens, ``[B, F]``."""
    lengths = data.own_lengths
    ctx.limit_padding(data)
    tokens = ctx.op("Concat", [data.value, fill], {"axis": 0})
    width = ctx.op("Max", [lengths.width, ctx.ints(1)])
    places, inside = places_inside(ctx, lengths.value, width)
    own = ctx.op("Add", [places, ctx.unsqueeze(lengths.starts, [1])])
    where = ctx.op("Where", [inside, own, lengths.total])
    if ctx.may_be_empty:
        shape = ctx.op("Concat", [ctx.ints(1), width], {"axis": 0})
        spare = ctx.op("Expand", [lengths.total, shape])
        where = ctx.op("Concat", [where, spare], {"axis": 0})
    (new,) = ctx.same(node, [ctx.op("Gather", [tokens, where], {"axis": 0})])
    return without_spare_sample(ctx, new.value)


def _unknown_token(ctx: Context, node: ir.Node, dtype: ir.DataType | None) -> np.ndarray:
    """Return a token that no n-gram of the operator has, as a row of one."""
    if dtype == ir.DataType.STRING:
        words = set(ctx.attribute(node, "pool_strings") or ())
        drawn = itertools.chain([""], map(str, itertools.count()))
        return np.array([next(word for word in drawn if word not in words)], object)
    numbers = set(ctx.attribute(node, "pool_int64s") or ())
    free = next(n for n in itertools.count() if n not in numbers)
    return np.array([free], np.int32 if dtype == ir.DataType.INT32 else np.int64)
