"""Reshape: a target without -1 wherever the batch may be empty.

A -1 stands for what is left of the number of elements. Beside a batch of 0 nothing tells it, so
the sizes of one sample tell it instead: when the graph is rewritten where they are known by
then, and in the graph where not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.shapes import shaping
from passes.batching.layouts import Batched

__all__ = ["reshape"]


def reshape(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Reshape to a shared target, constant or not."""
    data, wanted = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "shape")
    shaping(wanted, "shape")
    copies = not ctx.attribute(node, "allowzero", 0)
    known = ctx.constant(wanted)
    if known is None:
        return [ctx.stacked(_to_run_time_target(ctx, data, wanted.value, copies=copies))]
    return [ctx.stacked(_to_constant(ctx, data, [int(n) for n in known], copies=copies))]


def _to_constant(ctx: Context, data: Batched, target: list[int], *, copies: bool) -> ir.Value:
    if not copies and 0 in target:
        dims = ctx.op("Concat", [ctx.shape(data.value, 0, 1), ctx.ints(*target)], {"axis": 0})
        return ctx.reshape(data.value, dims)
    if -1 not in target or not ctx.may_be_empty:
        # 0 copies the dimension at its own place, and both places move up by one.
        return ctx.op("Reshape", [data.value, ctx.ints(0, *target)])
    place = target.index(-1)
    left = [i for i in range(data.rank) if i >= len(target) or target[i] != 0]
    unknown = [i for i in left if not isinstance(data.dims[i], int)]
    have = math.prod(d for d in (data.dims[i] for i in left) if isinstance(d, int))
    taken = math.prod(n for n in target if n > 0)
    if (not unknown and have >= taken) or (unknown == [place] and have == taken):
        # Either -1 is a known number, or it keeps the dimension that stands at its place.
        number = 0 if unknown else have // taken
        resolved = [number if n == -1 else n for n in target]
        return ctx.op("Reshape", [data.value, ctx.ints(0, *resolved)])
    return ctx.reshape(data.value, _resolved(ctx, data, target, left, taken))


def _resolved(
    ctx: Context, data: Batched, target: Sequence[int], left: Sequence[int], taken: int
) -> ir.Value:
    """Return ``[B, *target]`` with every dimension computed.

    Args:
        ctx: The context.
        data: What is reshaped.
        target: Constant target of a sample, with a -1.
        left: The axes of a sample that are not copied.
        taken: Product of the positive numbers of the target.
    """
    dims = ctx.shape(data.value, 0)
    picked = ctx.op("Gather", [dims, ctx.ints(*(i + 1 for i in left))], {"axis": 0})
    rest = ctx.op("ReduceProd", [picked], {"keepdims": 1})
    if taken != 1:
        rest = ctx.op("Div", [rest, ctx.ints(taken)])
    parts = [ctx.op("Gather", [dims, ctx.ints(0)], {"axis": 0})]
    for i, n in enumerate(target):
        if n == -1:
            parts.append(rest)
        elif n == 0:
            parts.append(ctx.op("Gather", [dims, ctx.ints(i + 1)], {"axis": 0}))
        else:
            parts.append(ctx.ints(n))
    return ctx.op("Concat", parts, {"axis": 0})


def _to_run_time_target(
    ctx: Context, data: Batched, target: ir.Value, *, copies: bool
) -> ir.Value:
    if not ctx.may_be_empty and copies:
        dims = ctx.op("Concat", [ctx.ints(0), target], {"axis": 0})
        return ctx.op("Reshape", [data.value, dims])
    own = ctx.shape(data.value, 1)
    zero = ctx.ints(0)
    if copies:
        # A 0 beyond the rank of the sample is an error: what stands there does not matter.
        long = ctx.op("Concat", [own, target], {"axis": 0})
        aligned = ctx.op("Slice", [long, zero, ctx.op("Shape", [target])])
        target = ctx.op("Where", [ctx.op("Equal", [target, zero]), aligned, target])
    resolved = ctx.op("Where", [ctx.op("Less", [target, zero]), _rest(ctx, own, target), target])
    dims = ctx.op("Concat", [ctx.shape(data.value, 0, 1), resolved], {"axis": 0})
    return ctx.reshape(data.value, dims)


def _rest(ctx: Context, own: ir.Value, target: ir.Value) -> ir.Value:
    """Return what a -1 in a target stands for, int64 ``[1]``.

    Beside another dimension of 0 it stands for nothing and the sample fails. Without samples
    the dimensions of 0 on both sides are taken as the same ones, so that what follows meets the
    size that it would meet behind them.
    """
    zero, one = ctx.ints(0), ctx.ints(1)
    # With a -1 among them, the product is minus the product of all others.
    others = ctx.op("ReduceProd", [target], {"keepdims": 1})
    least = ctx.op("Where", [ctx.op("Equal", [others, zero]), one, zero])
    total = ctx.op("ReduceProd", [ctx.op("Max", [own, least])], {"keepdims": 1})
    parts = ctx.op("Max", [ctx.op("Abs", [target]), one])
    return ctx.op("Div", [total, ctx.op("ReduceProd", [parts], {"keepdims": 1})])
