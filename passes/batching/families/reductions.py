"""Operators that reduce or scan along axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched

__all__ = ["arg_extremum", "cumulation", "given_axes", "reduce", "reduction"]


def reduction(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Reduce over the same axes of every sample; over none given means over all of a sample's.

    The axes are an attribute or, from opset 18 on (ReduceSum: 13), a shared input.
    """
    axes = ctx.optional(operands, 1)
    ctx.require_shared(axes, "axes")
    data = ctx.operand(operands, 0, "data")
    keeps_all = bool(ctx.attribute(node, "noop_with_empty_axes", 0))
    numbers = given_axes(ctx, node, axes)
    if numbers == () and keeps_all:
        return ctx.same(node, [data.value])
    if data.rank == 0 and not (numbers is None and keeps_all):
        # A sample of rank 0 has no axis, and still goes through the operator: L1 is its Abs.
        rows = ctx.unsqueeze(data.value, [1])
        return reduce(ctx, node, rows, [1], {"keepdims": 0})
    if numbers is not None:
        shifted = [ctx.axis(n, data.rank) for n in numbers]
        return reduce(ctx, node, data.value, shifted or list(range(1, data.rank + 1)))
    assert axes is not None
    return reduce(ctx, node, data.value, _run_time_axes(ctx, data, axes, keeps_all=keeps_all))


def given_axes(ctx: Context, node: ir.Node, axes: Operand) -> tuple[int, ...] | None:
    """Return the axes of a sample, ``()`` if none are given, None if only run time tells."""
    if axes is None:
        return tuple(ctx.attribute(node, "axes", ()))
    known = ctx.constant(axes)
    if known is not None:
        return tuple(int(n) for n in known)
    return () if axes.type.dims == (0,) else None


def _run_time_axes(ctx: Context, data: Batched, axes: Batched, *, keeps_all: bool) -> ir.Value:
    """Return the axes of the stack; all but the first one where none turn out to be given."""
    shifted = ctx.shifted_axes(axes, data.rank)
    dims = axes.type.dims
    if keeps_all or (dims and isinstance(dims[0], int)):
        return shifted
    is_empty = ctx.op("Equal", [ctx.op("Shape", [axes.value]), ctx.ints(0)])
    count = ctx.op("Where", [is_empty, ctx.ints(data.rank), ctx.ints(0)])
    every = ctx.op("Slice", [ctx.ints(*range(1, data.rank + 1)), ctx.ints(0), count])
    return ctx.op("Concat", [shifted, every], {"axis": 0})


def reduce(
    ctx: Context,
    node: ir.Node,
    data: ir.Value,
    axes: Sequence[int] | ir.Value,
    attributes: Mapping[str, int] | None = None,
) -> Sequence[Output]:
    """Record the reduction over other axes.

    Args:
        ctx: The context of the node.
        node: The reduction.
        data: What is reduced.
        axes: Along which axes, as numbers or as a value.
        attributes: Attributes in the place of the node's own.
    """
    over = axes if isinstance(axes, ir.Value) else ctx.ints(*axes)
    return ctx.same(node, [data, over], {**(attributes or {}), "axes": None})


def arg_extremum(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """ArgMax and ArgMin along one axis, 0 by default."""
    data = ctx.operand(operands, 0, "data")
    if data.rank == 0:
        rows = ctx.unsqueeze(data.value, [1])
        return ctx.same(node, [rows], {"axis": 1, "keepdims": 0})
    axis = ctx.axis_attribute(node, data.rank, 0)
    return ctx.same(node, [data.value], {"axis": axis})


def cumulation(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """CumSum and CumProd along one axis, which is a shared input."""
    axis = ctx.operand(operands, 1, "axis")
    ctx.require_shared(axis, "axis")
    data = ctx.operand(operands, 0, "x")
    return ctx.same(node, [data.value, ctx.moved_axes(axis, data.rank)])
