"""LSTM, GRU and RNN over packed samples, padded under the operator's own lengths.

Sequences of 2 and 3 steps run as ``[2, 3, N, I]``, and what lies behind the second step of the
first is cut off.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.recurrent import recurrent
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.padding import padded, unpadded, zero_of
from passes.decisions import Code, Decline
from passes.typing import ValueType

__all__ = ["recurrent_rows"]

_SEQUENCE_LENS = 4


def recurrent_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output | None]:
    """Run the operator on ``[B, L, N, I]`` with the length of each sample for ``sequence_lens``.

    The operator itself keeps padding out of every result; rows of ``Y`` behind a sample's last
    one are cut off. A sample without rows is given one of zeros, since onnxruntime's GRU
    ends the process where a length is 0.

    Raises:
        Decline: Something else than ``X`` differs in length, or ``X`` has its time axis second.
    """
    x = ctx.operand(operands, 0, "X")
    others = [o for o in operands[1:] if o is not None]
    if any(o.is_packed for o in others):
        raise Decline(Code.RAGGED, "what belongs to X differs in length")
    assert x.lengths is not None
    if node.attributes.get_int("layout", 0):
        raise Decline(Code.RAGGED, "the axis that differs in length is not its time axis")
    if ctx.optional(operands, _SEQUENCE_LENS) is not None:
        raise Decline(Code.RAGGED, "it has lengths of its own")
    if len(x.dims) != 3:
        raise Decline(Code.UNKNOWN_RANK, "X is not known to have three axes")
    lengths = x.lengths
    width = lengths.width
    ctx.note_padding(x)
    rows = padded(ctx, x.value, lengths, width, zero_of(x), x.dims[1:])
    given: list[Operand] = [*operands, *[None] * (_SEQUENCE_LENS + 1 - len(operands))]
    dims = (None, *x.dims[1:])
    given[0] = Batched(Layout.STACKED, rows, ValueType(x.type.type, dims))
    given[_SEQUENCE_LENS] = _sequence_lens(ctx, x.value, lengths, dims[1])
    outputs: list[Output | None] = []
    for index, out in enumerate(recurrent(ctx, node, given)):
        if out is None:
            outputs.append(None)
        elif index == 0:
            outputs.append(ctx.packed(unpadded(ctx, out.value, lengths, width), lengths))
        else:
            outputs.append(ctx.stacked(_final(ctx, out.value, lengths, x.element_type)))
    return outputs


def _final(ctx: Context, value: ir.Value, lengths: Lengths, dtype: ir.DataType) -> ir.Value:
    """Return final states ``[B, D, N, H]``; without rows onnxruntime has zeros."""
    has_rows = ctx.op("Greater", [lengths.value, ctx.builder.scalar(0)])
    zero = ctx.builder.constant(np.zeros((), dtype.numpy()))
    return ctx.op("Where", [ctx.unsqueeze(has_rows, [1, 2, 3]), value, zero])


def _sequence_lens(ctx: Context, x: ir.Value, lengths: Lengths, size: int | str | None) -> Batched:
    numbers = ctx.op("Max", [lengths.value, ctx.ints(1)])
    column = ctx.unsqueeze(ctx.op("Cast", [numbers], {"to": ir.DataType.INT32}), [1])
    target = ctx.op("Concat", [lengths.count, ctx.shape(x, 1, 2)], {"axis": 0})
    value = ctx.op("Expand", [column, target])
    return Batched(Layout.STACKED, value, ValueType(ir.TensorType(ir.DataType.INT32), (size,)))
