"""Attention over sequences of different length, padded under a mask.

Sequences of 2 and 3 places become ``[2, 3, size]``. The mask lets queries see the keys
``[[1, 1, 0], [1, 1, 1]]``, and the third row of the first result is cut off.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.attention import attention
from passes.batching.families.merging import with_spare_sample, without_spare_sample
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.padding import padded, places_inside, unpadded
from passes.batching.packed.row_by_row import lengths_of
from passes.batching.packed.rows_as_samples import rows_as_samples
from passes.decisions import Code, Decline
from passes.typing import ValueType

__all__ = ["attention_rows"]

_lists_of_sequences = rows_as_samples(attention, {3: 3})


def attention_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output | None]:
    """Lists of sequences that differ in number, or one sequence that differs in length.

    The sequences of all samples are padded to the longest. A mask leaves out the keys that are
    padding, so that they weigh nothing, and the rows of the queries that are padding are cut off.
    It goes with ``is_causal``; the operator's own ``nonpad_kv_seqlen`` moves the diagonal there.

    Raises:
        Decline: There is a mask or a past, keys differ in length and queries do not, or there
            are several sequences in a sample.
    """
    query, key, value = (ctx.operand(operands, i, n) for i, n in enumerate("QKV"))
    if all(x.axis == 0 for x in (query, key, value)):
        return _lists_of_sequences(ctx, node, operands)
    lengths = lengths_of(operands)
    if any(operands[3:]) or any(out.name for out in node.outputs[1:]):
        raise Decline(Code.RAGGED, "what stands beside its sequence differs in length")
    if not query.is_packed or key.is_packed != value.is_packed:
        raise Decline(Code.RAGGED, "its keys differ in length, and its queries do not")
    if any(x.dims[0] != 1 or (x.is_packed and x.axis != x.rank - 2) for x in operands[:3] if x):
        raise Decline(Code.RAGGED, "it is not over one sequence in each sample")
    width = lengths.width
    ctx.note_padding(query, key, value)
    given = [_side_by_side(ctx, x, lengths, width) for x in (query, key, value)]
    if key.is_packed:
        given.append(_mask(ctx, lengths, width))
    attended = without_spare_sample(ctx, ctx.same(node, given)[0].value)
    return [_packed(ctx, attended, query.rank, lengths, width), *[None] * (len(node.outputs) - 1)]


def _side_by_side(ctx: Context, x: Batched, lengths: Lengths, width: ir.Value) -> ir.Value:
    """Return sequences ``[B, (heads,) L, size]``, one more where there may be none."""
    has_heads = x.rank > 3
    if x.is_packed:
        value = ctx.squeeze(x.value, [0])
        rows = ctx.op("Transpose", [value], {"perm": [1, 0, 2]}) if has_heads else value
        value = padded(ctx, rows, lengths, width)
        value = ctx.op("Transpose", [value], {"perm": [0, 2, 1, 3]}) if has_heads else value
    else:
        value = ctx.squeeze(ctx.expanded(x), [1])
    dims = tuple(None if i == x.axis else d for i, d in enumerate(x.dims))[1:]
    type_ = dataclasses.replace(x.type, dims=dims)
    return with_spare_sample(ctx, Batched(Layout.STACKED, value, type_))


def _mask(ctx: Context, lengths: Lengths, width: ir.Value) -> ir.Value:
    """Return which keys the queries see, ``bool[B, 1, L, L]``."""
    _, inside = places_inside(ctx, lengths.value, width)
    type_ = ValueType(ir.TensorType(ir.DataType.BOOL), (None,))
    every = with_spare_sample(ctx, Batched(Layout.STACKED, inside, type_))
    queries = ctx.op("Concat", [ctx.ints(1, 1), width, ctx.ints(1)], {"axis": 0})
    return ctx.op("Expand", [ctx.unsqueeze(every, [1, 2]), queries])


def _packed(ctx: Context, value: ir.Value, rank: int, lengths: Lengths, width: ir.Value) -> Output:
    """Return ``[B, (heads,) L, size]`` as packed sequences ``[1, (heads,) n, size]``."""
    if rank > 3:
        value = ctx.op("Transpose", [value], {"perm": [0, 2, 1, 3]})
    rows = unpadded(ctx, value, lengths, width)
    if rank > 3:
        rows = ctx.op("Transpose", [rows], {"perm": [1, 0, 2]})
    return ctx.packed(ctx.unsqueeze(rows, [0]), lengths, rank - 2)
