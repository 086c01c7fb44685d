"""Operators that work on each element by itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output, Rule
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline

__all__ = [
    "WITHOUT_MAX",
    "between",
    "broadcasting",
    "cast_like",
    "clip",
    "dropout",
    "elementwise",
    "in_inference",
    "one_sided_broadcasting",
    "own_bounds",
    "same_shape",
]

WITHOUT_MAX = frozenset(
    {ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT8, ir.DataType.UINT16}
)
"""Element types that onnxruntime's Clip has and its Max and Min have not."""


def elementwise(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """``f(x)[k] = f(x[k])``: the operator itself, with its attributes.

    An axis that was inserted just before goes behind it, so that runtimes see what feeds it.
    """
    is_tensor = isinstance(ctx.type_of(node.outputs[0]).type, ir.TensorType)
    if is_tensor and len(operands) == 1 and operands[0] is not None:
        before = ctx.before_unsqueeze(operands[0].value, [1])
        if before is not None:
            (new,) = ctx.same(node, [before])
            return [ctx.stacked(ctx.unsqueeze(new.value, [1]))]
    return ctx.same(node, [None if x is None else x.value for x in operands])


def broadcasting(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Numpy broadcasting of any number of operands.

    Let ``R`` be the largest rank of a sample among the operands. A stacked operand of a smaller
    rank becomes ``[B, 1, ..., 1, *s]`` so that its own axes stay at the right; a shared one
    aligns by itself.
    """
    present = [x for x in operands if x is not None]
    if len(present) == 1:
        return ctx.same(node, [present[0].value])
    rank = max(x.rank for x in present)
    return ctx.same(node, [None if x is None else ctx.padded_rank(x, rank) for x in operands])


def one_sided_broadcasting(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """PRelu: the second operand aligns with the first, which has the shape of the result."""
    data, slope = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "slope")
    return ctx.same(node, [ctx.expanded(data), ctx.padded_rank(slope, data.rank)])


def same_shape(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Operands of one shape, without broadcasting."""
    return ctx.same(node, [None if x is None else ctx.expanded(x) for x in operands])


def cast_like(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """CastLike: the second operand gives its element type only."""
    data, target = ctx.operand(operands, 0, "input"), ctx.operand(operands, 1, "target")
    (new,) = ctx.same(node, [data.value, target.value])
    return [new if data.is_stacked else ctx.shared(new.value)]


def clip(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Clip, whose bounds are attributes before opset 11 and scalars since.

    Bounds that differ from sample to sample: Max, then Min, so that the upper one wins where
    they cross.
    """
    data, bounds = ctx.operand(operands, 0, "input"), operands[1:3]
    if all(x is None or x.is_shared for x in bounds):
        return ctx.same(node, [data.value, *(None if x is None else x.value for x in bounds)])
    bounds = own_bounds(ctx, operands)
    aligned = [None if x is None else ctx.padded_rank(x, data.rank) for x in bounds]
    return [ctx.stacked(between(ctx, data, aligned))]


def own_bounds(ctx: Context, operands: Sequence[Operand]) -> list[Operand]:
    """Return the bounds of a Clip for Max and Min, which yield NaN for a bound that is NaN.

    Clip compares, so that such a bound holds nothing back: it becomes an infinite one.
    """
    bounds: list[Operand] = []
    for bound, none in zip(operands[1:3], (-np.inf, np.inf), strict=False):
        if bound is not None and bound.element_type.is_floating_point():
            known = ctx.constant(bound)
            if known is None or np.isnan(known):
                value = bound.value
                limit = ctx.builder.constant(np.array(none, bound.element_type.numpy()))
                value = ctx.op("Where", [ctx.op("IsNaN", [value]), limit, value])
                bound = dataclasses.replace(bound, value=value)
        bounds.append(bound)
    return bounds


def between(ctx: Context, data: Batched, bounds: Sequence[ir.Value | None]) -> ir.Value:
    """Return samples between bounds that broadcast: a lower one, and an upper one."""
    widens = data.dtype in WITHOUT_MAX
    y = data.value
    for op_type, bound in zip(("Max", "Min"), bounds, strict=False):
        if bound is None:
            continue
        given = [y, bound]
        if widens:
            given = [ctx.op("Cast", [v], {"to": int(ir.DataType.INT32)}) for v in given]
        y = ctx.op(op_type, given)
    if widens and data.dtype is not None:
        y = ctx.op("Cast", [y], {"to": int(data.dtype)})
    return y


def dropout(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Dropout in inference, where it drops nothing whatever its ratio is."""
    data = _dropped(ctx, operands)
    new = ctx.same(node, [data.value])
    return new if data.is_stacked else [ctx.shared(out.value) for out in new]


def in_inference(rule: Rule) -> Rule:
    """Let a rule for operators of one operand take a Dropout that drops nothing."""

    def apply(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
        return rule(ctx, node, [_dropped(ctx, operands)])

    return apply


def _dropped(ctx: Context, operands: Sequence[Operand]) -> Batched:
    """Return the data of a Dropout in inference.

    It trains only if an input says so, which it has since opset 12.

    Raises:
        Decline: It trains, or may.
    """
    trains = ctx.optional(operands, 2)
    known = ctx.constant(trains)
    if trains is not None and (known is None or known.any()):
        raise Decline(Code.RANDOM, "it drops elements of its own from every sample")
    return ctx.operand(operands, 0, "data")
