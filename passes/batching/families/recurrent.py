"""Recurrent networks: the samples join the batch that the operator has itself."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import volume, with_spare_sample, without_spare_sample
from passes.batching.layouts import Batched

__all__ = ["recurrent"]

_WEIGHTS = {1: "W", 2: "R", 3: "B", 7: "P"}
_LENGTHS = 4


def recurrent(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
    """LSTM, GRU and RNN with one set of weights for all samples.

    ``X`` is ``[T, N, I]`` and a state ``[D, N, H]``, or ``N`` is the first axis of both where
    ``layout`` is 1. onnxruntime ends the process where ``N`` is 0, hence the spare sample.
    """
    for index, name in _WEIGHTS.items():
        ctx.require_shared(ctx.optional(operands, index), name)
    position = 0 if node.attributes.get_int("layout", 0) else 1
    x = with_spare_sample(ctx, ctx.operand(operands, 0, "X"))
    given: list[ir.Value | None] = [_merged(ctx, x, position)]
    for index, operand in enumerate(operands[1:], start=1):
        if operand is None or index in _WEIGHTS:
            given.append(None if operand is None else operand.value)
        else:
            at = 0 if index == _LENGTHS else position
            given.append(_merged_operand(ctx, operand, at))
    outputs: list[Output | None] = []
    for index, (old, new) in enumerate(zip(node.outputs, ctx.same(node, given), strict=True)):
        if old.name == "":
            outputs.append(None)
            continue
        at = 0 if position == 0 else 2 if index == 0 else 1
        value = _unmerged(ctx, new.value, at, rank=4 if index == 0 else 3, x=x, position=position)
        outputs.append(ctx.stacked(without_spare_sample(ctx, value)))
    return outputs


def _merged_operand(ctx: Context, operand: Batched, position: int) -> ir.Value:
    return _merged(ctx, with_spare_sample(ctx, operand), position)


def _merged(ctx: Context, value: ir.Value, position: int) -> ir.Value:
    """Merge the batch axis into axis ``position`` of the samples, 0 or 1."""
    if position == 0:
        return ctx.merged(value)
    moved = ctx.op("Transpose", [value], {"perm": [1, 0, 2, 3]})
    dims = [ctx.shape(moved, 0, 1), volume(ctx, moved, 1, 3), ctx.shape(moved, 3)]
    return ctx.reshape(moved, ctx.op("Concat", dims, {"axis": 0}))


def _unmerged(
    ctx: Context, value: ir.Value, at: int, *, rank: int, x: ir.Value, position: int
) -> ir.Value:
    """Split axis ``at`` of a result into ``B`` and ``N``, and put ``B`` in front.

    Args:
        ctx: The context.
        value: The result.
        at: The axis of ``B * N``.
        rank: The rank of the result.
        x: The operand ``X`` with the batch axis in front.
        position: The axis of ``N`` in a sample of ``X``.
    """
    if at == 0:
        return ctx.unmerged(value, x)
    both = [ctx.shape(x, 0, 1), ctx.shape(x, position + 1, position + 2)]
    dims = [ctx.shape(value, 0, at), *both, ctx.shape(value, at + 1)]
    split = ctx.reshape(value, ctx.op("Concat", dims, {"axis": 0}))
    rest = [axis for axis in range(rank + 1) if axis != at]
    return ctx.op("Transpose", [split], {"perm": [at, *rest]})
