"""Rows of packed samples, each seen as a sample of one row: what batches samples batches rows.

A Det of samples ``[2, 4, 4]`` and ``[3, 4, 4]`` is one of five matrices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output, Rule
from passes.batching.families.losses import loss_and_weight, reduction_of
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import equally_long
from passes.batching.packed.row_by_row import lengths_of
from passes.batching.packed.segments import FLOATS, known_dtype, segment
from passes.batching.packed.spread_rows import spread
from passes.decisions import Code, Decline

__all__ = ["ANY", "loss_of_rows", "rows_as_samples"]

ANY = 99
"""As a rank: however many axes an operand has, none of them meets the samples' first one."""


def rows_as_samples(rule: Rule, of_samples: Mapping[int, int]) -> Rule:
    """Make the rule of an operator that treats each index of its operands' first axis alone.

    Args:
        rule: Its rule for stacked operands.
        of_samples: Positions of operands that have no such axis, and up to which rank they have
            none. They may be shared or stacked; all others are packed alike.
    """

    def run(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
        lengths = lengths_of(operands)
        given = [_row(ctx, i, x, lengths, of_samples) for i, x in enumerate(operands)]
        local = _of_rows(ctx, lengths)
        found: list[Output | None] = []
        for out in rule(local, node, given):
            if out is None:
                found.append(None)
            elif out.layout is Layout.SHARED:
                found.append(out)
            else:
                found.append(ctx.packed(ctx.squeeze(out.value, [1]), lengths))
        return found

    return run


def _row(
    ctx: Context, position: int, x: Operand, lengths: Lengths, of_samples: Mapping[int, int]
) -> Operand:
    """Return an operand as one of samples of one row."""
    if x is None:
        return None
    if x.is_packed:
        value = ctx.unsqueeze(x.value, [1])
        type_ = dataclasses.replace(x.type, dims=(1, *x.dims[1:]))
        return Batched(Layout.STACKED, value, type_)
    most = of_samples.get(position)
    if most is None or (x.rank > most and x.dims[0] != 1):
        detail = f"operand {position} meets the axis that differs in length"
        raise Decline(Code.RAGGED, detail)
    if x.is_shared:
        return x
    return dataclasses.replace(x, value=spread(ctx, x.value, lengths))


def _of_rows(ctx: Context, lengths: Lengths) -> Context:
    """Return the context in which rows are the samples; there may be no row."""
    return ctx.with_batch(ctx.builder, lengths.total, may_be_empty=True)


def loss_of_rows(rule: Rule) -> Rule:
    """Make the rule of a loss: one for each row, or their sum or mean over the rows of a sample.

    A mean with weights or ignored targets is divided by the sum of the weights.
    """
    by_row = rows_as_samples(rule, {2: 1})

    def loss(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
        operands = equally_long(ctx, operands)
        reduction = reduction_of(ctx, node)
        if reduction == "none":
            return by_row(ctx, node, operands)
        weighted = ctx.optional(operands, 2) is not None
        is_weighed = weighted or ctx.attribute(node, "ignore_index") is not None
        data, lengths = ctx.operand(operands, 0), lengths_of(operands)
        dtype = known_dtype(data, FLOATS)
        given = [_row(ctx, i, x, lengths, {2: 1}) for i, x in enumerate(operands)]
        local = _of_rows(ctx, lengths)
        if reduction == "mean" and is_weighed:
            sums, weights, log = loss_and_weight(local, node, given)
            total, divisor = (
                segment(ctx, x, lengths, "add", dtype, [None]) for x in (sums, weights)
            )
            total = ctx.op("Div", [total, divisor])
            found = [ctx.packed(ctx.squeeze(log, [1]), lengths)]
            return [ctx.stacked(total), *found[: len(node.outputs) - 1]]
        first, *logs = rule(local, node, given)
        assert first is not None
        total = segment(ctx, first.value, lengths, "add", dtype, [None])
        if reduction == "mean":
            total = ctx.op("Div", [total, ctx.op("Cast", [lengths.value], {"to": dtype})])
        rest = [x and ctx.packed(ctx.squeeze(x.value, [1]), lengths) for x in logs]
        return [ctx.stacked(total), *rest]

    return loss
