"""Operators that work along one axis of a sample, which is no axis along which samples differ.

Each row holds all places along that axis, so that they run on all rows at once.

A Softmax along the channels of images ``[h, w, 3]`` runs on the rows of 3 numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output, Rule
from passes.batching.flat.moves import flat_alone, read_off, read_simply, turned
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline

__all__ = ["along", "gather", "trailing", "with_last_axis_last"]


def along(default: int) -> Rule:
    """Return a rule for operators with an attribute ``axis``.

    Args:
        default: The axis where none is given.
    """

    def rule(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
        simple = read_simply(ctx, node, operands)
        if simple is not None:
            return simple
        x, others = _data_and_shared(ctx, operands)
        x, at = _axis_behind(ctx, x, int(ctx.attribute(node, "axis", default)))
        flat = x.own_flat
        axis = at - flat.grid.rank + 1
        new = ctx.same(node, [x.value, *others], {"axis": axis})
        if not ctx.attribute(node, "keepdims", 1):
            flat = _without(flat, at)
        return [ctx.flat(out.value, flat) for out in new]

    return rule


def gather(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Gather of shared places along an axis: their axes take its place."""
    simple = read_simply(ctx, node, operands)
    if simple is not None:
        return simple
    x, (indices,) = _data_and_shared(ctx, operands)
    found = ctx.operand(operands, 1, "indices")
    x, at = _axis_behind(ctx, x, int(ctx.attribute(node, "axis", 0)))
    flat = x.own_flat
    more = found.rank - 1
    (new,) = ctx.same(node, [x.value, indices], {"axis": at - flat.grid.rank + 1})
    order: list[int] = []
    for place in flat.order:
        if place == at:
            order += range(at, at + found.rank)
        else:
            order.append(place + more * (place > at))
    return [ctx.flat(new.value, dataclasses.replace(flat, order=tuple(order)))]


def _data_and_shared(
    ctx: Context, operands: Sequence[Operand]
) -> tuple[Batched, list[ir.Value | None]]:
    """Return the first operand, which is flat, and the values of the others.

    Raises:
        Decline: Another one differs from sample to sample.
    """
    x, _ = flat_alone(ctx, operands, "data")
    return read_off(ctx, x), [None if o is None else o.value for o in operands[1:]]


def _axis_behind(ctx: Context, x: Batched, axis: int) -> tuple[Batched, int]:
    """Return flat samples that have an axis behind their grid, and where in memory it is.

    Args:
        ctx: The context.
        x: The samples; none of their places reads nothing, or several.
        axis: An axis of a sample.

    Raises:
        Decline: The samples differ along the axis.
    """
    flat = x.own_flat
    axis %= len(flat.order)
    if flat.is_ragged(axis):
        raise Decline(Code.RAGGED, "it works along an axis that differs in size")
    if flat.order[axis] >= flat.grid.rank:
        return x, flat.order[axis]
    x = with_rows_of_pixels(ctx, x)
    return x, x.own_flat.order[axis]


def with_last_axis_last(ctx: Context, x: Batched) -> Batched:
    """Return flat samples whose last axis is the last in memory, too, and behind their grid.

    Raises:
        Decline: The samples differ along it.
    """
    x, at = _axis_behind(ctx, read_off(ctx, x), -1)
    flat = x.own_flat
    behind, axes = at - flat.grid.rank + 1, x.rank - flat.grid.rank + 1
    if behind == axes - 1:
        return x
    perm = [*(i for i in range(axes) if i != behind), behind]
    value = ctx.op("Transpose", [x.value], {"perm": perm})
    order = tuple(x.rank - 1 if a == at else a - (a > at) for a in flat.order)
    return dataclasses.replace(x, value=value, flat=dataclasses.replace(flat, order=order))


def trailing(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """LayerNormalization and its kin over the last axis."""
    x, _ = flat_alone(ctx, operands, "X")
    if int(ctx.attribute(node, "axis", -1)) % x.rank != x.rank - 1:
        raise Decline(Code.RAGGED, "it works along an axis that differs in size")
    if len([value for value in node.outputs if value.name]) > 1:
        raise Decline(Code.NO_RULE, "its means are asked for, too")
    x = with_last_axis_last(ctx, x)
    others = [None if o is None else o.value for o in operands[1:]]
    new = ctx.same(node, [x.value, *others], {"axis": -1})
    return [ctx.flat(out.value, x.own_flat) for out in new]


def with_rows_of_pixels(ctx: Context, x: Batched) -> Batched:
    """Return flat samples whose grid has no axis but those along which they differ."""
    flat = x.own_flat
    axes = range(len(flat.order))
    made = turned(
        ctx, x, [*filter(flat.is_ragged, axes), *(a for a in axes if not flat.is_ragged(a))]
    )
    if made.own_flat.grid.rank != sum(map(flat.is_ragged, axes)):
        raise Decline(Code.RAGGED, "the size of an axis that all share is not known")
    return made


def _without(flat: FlatSamples, at: int) -> FlatSamples:
    """Return samples without an axis behind the grid."""
    order = tuple(place - (place > at) for place in flat.order if place != at)
    return dataclasses.replace(flat, order=order)
