"""Reductions of samples that differ in length, by samples laid side by side.

Needed where the opset has no ScatterElements that adds (16) or finds a maximum (18).

One long sample among many short ones would make the padded form many times as large as the
samples. Then two reductions follow each other: one over pieces of about the square root of the
longest length, one over the results of each sample's pieces. Lengths ``[9, 1, 1, 1, 1]`` have
pieces of 3 rows: 3 for the first sample and 1 for each other, 7 in all. No form takes more rows
than 4 times those of the samples, or than those and about ``2 * B * sqrt(longest)`` more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.lengths import Lengths
from passes.batching.packed.padding import Spans, laid_out, padded
from passes.graph.builder import Builder

__all__ = ["reduced_side_by_side"]

_MOST_WASTE = 4
"""How many times the rows of all samples the padded form may have."""

_OPERATORS = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}


def reduced_side_by_side(
    ctx: Context,
    value: ir.Value,
    lengths: Lengths,
    reduction: str,
    neutral: np.ndarray,
    rest: Sequence[int | str | None],
) -> ir.Value:
    """Reduce the rows ``[T, *rest]`` of each sample: ``[B, *rest]``.

    Args:
        ctx: The context.
        value: The rows.
        lengths: Which sample each belongs to.
        reduction: ``add``, ``mul``, ``max`` or ``min``.
        neutral: The result for a sample without rows, of the element type of the rows.
        rest: The dimensions of a row.
    """
    operator, rank = _OPERATORS[reduction], 1 + len(rest)
    longest, starts, total = lengths.width, lengths.starts, lengths.total
    most = ctx.op("Mul", [total, ctx.ints(_MOST_WASTE)])
    wastes = ctx.op("Greater", [ctx.op("Mul", [longest, lengths.count]), most])

    def at_once(local: Context) -> ir.Value:
        wide = laid_out(local, value, Spans(starts, lengths.value, total), longest, neutral, rest)
        return local.reduce(operator, wide, [1], keepdims=False)

    def by_pieces(local: Context) -> ir.Value:
        size = _root(local, longest)
        if local is ctx:
            size = ctx.op("Where", [wastes, size, longest])
        return _twice(local, value, lengths, size, operator, neutral, rest)

    if ctx.lacks("If"):
        return by_pieces(ctx)

    def branch(write: Callable[[Context], ir.Value]) -> Callable[[Builder], list[ir.Value]]:
        def written(inner: Builder) -> list[ir.Value]:
            return [_typed(write(ctx.inside(inner)), neutral, rank)]

        return written

    branches = {
        "then_branch": ctx.builder.subgraph("by_pieces", [], branch(by_pieces)),
        "else_branch": ctx.builder.subgraph("at_once", [], branch(at_once)),
    }
    made = ctx.op("If", [ctx.squeeze(wastes, [0])], branches)
    return _typed(made, neutral, rank)


def _typed(value: ir.Value, like: np.ndarray, rank: int) -> ir.Value:
    value.type = ir.TensorType(ir.DataType.from_numpy(like.dtype))
    value.shape = ir.Shape([None] * rank)
    return value


def _root(ctx: Context, longest: ir.Value) -> ir.Value:
    """Return about the square root of the longest length; any size of pieces will do.

    Devices have no square root of doubles.
    """
    root = ctx.op("Sqrt", [ctx.op("Cast", [longest], {"to": ir.DataType.FLOAT})])
    return ctx.op("Cast", [ctx.op("Ceil", [root])], {"to": ir.DataType.INT64})


def _twice(
    ctx: Context,
    value: ir.Value,
    lengths: Lengths,
    size: ir.Value,
    operator: str,
    neutral: np.ndarray,
    rest: Sequence[int | str | None],
) -> ir.Value:
    """Reduce pieces of so many rows, and then what they come to."""
    above = ctx.op("Sub", [ctx.op("Add", [lengths.value, size]), ctx.ints(1)])
    pieces = Lengths(ctx.builder, ctx.op("Div", [above, size]))
    wide = laid_out(ctx, value, _pieces(ctx, lengths, pieces, size), size, neutral, rest)
    each = ctx.reduce(operator, wide, [1], keepdims=False)
    beside = padded(ctx, each, pieces, pieces.width, neutral, rest)
    return ctx.reduce(operator, beside, [1], keepdims=False)


def _pieces(ctx: Context, lengths: Lengths, pieces: Lengths, size: ir.Value) -> Spans:
    """Return the pieces of all samples; each reaches to the end of its sample."""
    first = ctx.op("Mul", [pieces.positions, size])
    of_sample = pieces.samples
    starts, sizes = (
        ctx.op("Gather", [v, of_sample], {"axis": 0}) for v in (lengths.starts, lengths.value)
    )
    starts, sizes = ctx.op("Add", [starts, first]), ctx.op("Sub", [sizes, first])
    return Spans(starts, sizes, lengths.total)
