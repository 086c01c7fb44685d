"""The batch axis merged into the first axis of the samples, and taken out of it again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.graph.builder import END

__all__ = [
    "merge",
    "merging",
    "sample_numbers",
    "unmerge_outputs",
    "volume",
    "with_spare_row",
    "with_spare_sample",
    "without_spare_sample",
]


def merge(ctx: Context, operand: Operand) -> ir.Value | None:
    """Return an operand of samples ``[N, ...]`` as ``[B * N, ...]``, None for an omitted one.

    A shared operand is repeated for every sample first.
    """
    return None if operand is None else ctx.merged(ctx.expanded(operand))


def unmerge_outputs(ctx: Context, outputs: Sequence[Output], like: ir.Value) -> list[Output]:
    """Return outputs ``[B * N, ...]`` as ``[B, N, ...]``, the sizes taken from ``like``."""
    return [ctx.stacked(ctx.unmerged(out.value, like)) for out in outputs]


def merging(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Every row of the first axis of all operands is by itself: ``[B, N, ...]`` is ``B * N`` rows.

    The first operand is there, and every operand and output has the axis.
    """
    if all(x is None or (x.type.dims or (None,))[0] == 1 for x in operands):
        rows = [None if x is None else ctx.squeeze(ctx.expanded(x), [1]) for x in operands]
        return [ctx.stacked(ctx.unsqueeze(out.value, [1])) for out in ctx.same(node, rows)]
    like = ctx.expanded(ctx.operand(operands, 0))
    new = ctx.same(node, [ctx.merged(like), *(merge(ctx, x) for x in operands[1:])])
    return unmerge_outputs(ctx, new, like)


def volume(ctx: Context, value: ir.Value, start: int, end: int = END) -> ir.Value:
    """Return the product of dimensions ``start`` to ``end`` as an int64 vector ``[1]``."""
    return ctx.op("ReduceProd", [ctx.shape(value, start, end)], {"keepdims": 1})


def sample_numbers(ctx: Context, scale: ir.Value, rank: int) -> ir.Value:
    """Return ``0, scale, 2 * scale, ...``, one for each sample, as int64 ``[B, 1, ..., 1]``.

    Args:
        ctx: The context.
        scale: An int64 vector ``[1]``.
        rank: How many axes of size 1 follow the batch axis.
    """
    numbers = ctx.arange(ctx.squeeze(ctx.batch, [0]))
    return ctx.unsqueeze(ctx.op("Mul", [numbers, scale]), range(1, rank + 1))


def with_spare_sample(ctx: Context, operand: Batched) -> ir.Value:
    """Return an operand as ``[B + 1, *s]`` where there may be no samples, else as ``[B, *s]``.

    The last sample is one of zeros. Some operators of onnxruntime end the process on an empty
    batch; this one is never empty. Nor is that sample where it is the only one: a loop of no
    steps yields 0 for each dimension that is not known.
    """
    value = ctx.expanded(operand)
    if not ctx.may_be_empty:
        return value
    sizes, dims = ctx.shape(value, 1), operand.type.dims
    if dims is None or not all(isinstance(d, int) and d > 0 for d in dims):
        flags = [ctx.op("Equal", [n, ctx.ints(0)]) for n in (sizes, ctx.batch)]
        is_lost = ctx.op("Cast", [ctx.op("And", flags)], {"to": ir.DataType.INT64})
        sizes = ctx.op("Add", [sizes, is_lost])
        value = ctx.reshape(value, ctx.op("Concat", [ctx.batch, sizes], {"axis": 0}))
    shape = ctx.op("Concat", [ctx.ints(1), sizes], {"axis": 0})
    return ctx.op("Concat", [value, _zeros(ctx, operand.element_type, shape)], {"axis": 0})


def with_spare_row(ctx: Context, operand: Batched, axis: int) -> ir.Value:
    """Return a shared operand with a row of zeros where there are no samples and no rows.

    Args:
        ctx: The context.
        operand: The operand.
        axis: The axis of its rows.
    """
    dims, value = operand.type.dims, operand.value
    axis %= operand.rank
    size = None if dims is None else dims[axis]
    if not ctx.may_be_empty or (isinstance(size, int) and size > 0):
        return value
    rows = ctx.shape(value, axis, axis + 1)
    flags = [ctx.op("Equal", [n, ctx.ints(0)]) for n in (rows, ctx.batch)]
    spare = ctx.op("Cast", [ctx.op("And", flags)], {"to": ir.DataType.INT64})
    sides = [ctx.shape(value, 0, axis)] * (axis > 0) + [spare]
    sides += [ctx.shape(value, axis + 1)] * (axis + 1 < operand.rank)
    zeros = _zeros(ctx, operand.element_type, ctx.op("Concat", sides, {"axis": 0}))
    return ctx.op("Concat", [value, zeros], {"axis": axis})


def _zeros(ctx: Context, dtype: ir.DataType, shape: ir.Value) -> ir.Value:
    """Return a tensor of zeros, or of empty strings."""
    if dtype == ir.DataType.STRING:
        return ctx.op("Expand", [ctx.builder.constant(np.array([""], object)), shape])
    zero = ir.tensor(np.zeros(1, dtype.numpy()), dtype=dtype)
    return ctx.op("ConstantOfShape", [shape], {"value": zero})


def without_spare_sample(ctx: Context, value: ir.Value) -> ir.Value:
    """Cut the spare sample of `with_spare_sample` off a result."""
    if not ctx.may_be_empty:
        return value
    return ctx.op("Slice", [value, ctx.ints(0), ctx.ints(-1), ctx.ints(0)])
