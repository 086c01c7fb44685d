"""Packed samples whose length another operand, or an attribute, fixes.

A slice that is multiplied by a window of 8 numbers has 8 rows, or one that goes to all of them;
any other length is an error in each sample, and here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.layouts import Batched
from passes.batching.packed.checks import failing_where
from passes.graph.limits import LONGEST_VECTOR

__all__ = ["fixed_length", "joined_rows", "single_rows"]


def single_rows(ctx: Context, x: Batched) -> ir.Value:
    """Return packed samples of one row each, ``[B, *before, 1, *rest]``."""
    return _rows_at(ctx, x, 1)


def fixed_length(operands: Sequence[Batched], place: int) -> int | None:
    """Return the size that packed samples must have to meet other operands, or None.

    Args:
        operands: The operands of an elementwise operator.
        place: Which axis differs in length, counted from the back: 1 for the last.
    """
    if any(x.is_packed and (x.beside is not None or x.rank - x.axis != place) for x in operands):
        return None
    met = {x.dims[-place] for x in operands if not x.is_packed and x.rank >= place} - {1}
    size = met.pop() if len(met) == 1 else None
    return size if isinstance(size, int) and 1 < size <= LONGEST_VECTOR else None


def joined_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Batched], size: int
) -> Sequence[Output]:
    """Record an elementwise operator on samples that have so many rows, or one."""
    rank = max(x.rank for x in operands)
    inputs = []
    for x in operands:
        value = _rows_at(ctx, x, size) if x.is_packed else x.value
        if x.is_packed or x.is_stacked:
            value = ctx.unsqueeze(value, range(1, 1 + rank - x.rank))
        inputs.append(value)
    return [ctx.stacked(out.value) for out in ctx.same(node, inputs)]


def _rows_at(ctx: Context, x: Batched, size: int) -> ir.Value:
    """Return samples of so many rows, or of one repeated: ``[B, *before, size, *rest]``."""
    lengths = x.own_lengths
    is_single = ctx.op("Equal", [lengths.value, ctx.builder.scalar(1)])
    is_whole = ctx.op("Equal", [lengths.value, ctx.builder.scalar(size)])
    bad = ctx.op("Not", [ctx.op("Or", [is_single, is_whole])])
    starts = ctx.unsqueeze(failing_where(ctx, lengths.starts, [bad]), [1])
    within = ctx.builder.constant(np.arange(size, dtype=np.int64))
    none = ctx.builder.constant(np.zeros(size, np.int64))
    steps = ctx.op("Where", [ctx.unsqueeze(is_single, [1]), none, within])
    rows = ctx.op("Gather", [x.value, ctx.op("Add", [starts, steps])], {"axis": x.axis})
    if not x.axis:
        return rows
    order = [x.axis, *range(x.axis), *range(x.axis + 1, x.rank + 1)]
    return ctx.op("Transpose", [rows], {"perm": order})
