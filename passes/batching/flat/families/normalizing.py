"""Normalisations of flat samples whose numbers belong to channels, axis 1 of a sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.reducing import reduced
from passes.batching.flat.moves import flat_alone, rows_again
from passes.batching.flat.spreading import aligned
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline
from passes.typing import ValueType

__all__ = [
    "batch_normalization",
    "group_normalization",
    "instance_normalization",
    "mean_variance",
]


def batch_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """``(x - mean) / sqrt(var + epsilon) * scale + bias`` with numbers that all samples share."""
    if len([value for value in node.outputs if value.name]) > 1:
        raise Decline(Code.NO_RULE, "it learns from the samples")
    x, numbers = _data_and_numbers(ctx, operands, 5)
    scale, bias, mean, variance = numbers
    return _scaled(ctx, node, x, scale, bias, mean, variance)


def instance_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """The same by the mean and the variance over the pixels of each image."""
    return _by_own_numbers(ctx, node, operands, lambda x: _of_pixels(ctx, x))


def group_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """The same by the mean and the variance over the pixels of a group of channels."""
    groups = int(ctx.attribute(node, "num_groups"))
    given = list(operands)
    data = ctx.operand(operands, 0, "X")
    channels = data.dims[1] if data.rank > 2 else None
    if not isinstance(channels, int):
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells how many channels it has")
    if ctx.opset < 21:  # one number for each group
        given[1:] = [_of_each(ctx, ctx.operand(operands, i), channels) for i in (1, 2)]
    return _by_own_numbers(ctx, node, given, lambda x: _of_groups(ctx, _of_pixels(ctx, x), groups))


def _by_own_numbers(
    ctx: Context,
    node: ir.Node,
    given: Sequence[Operand],
    mean_of: Callable[[Batched], Batched],
) -> Sequence[Output]:
    """Normalize images by means and variances of their own.

    Args:
        ctx: The context.
        node: The node.
        given: Its operands, with one scale and one bias for each channel.
        mean_of: Returns the means over the pixels that belong together.
    """
    x, numbers = _data_and_numbers(ctx, given, 3)
    mean = mean_of(x)
    difference = ctx.op("Sub", [x.value, aligned(ctx, mean, x.own_flat)])
    squares = dataclasses.replace(x, value=ctx.op("Mul", [difference, difference]))
    scale, bias = numbers
    return _scaled(ctx, node, x, scale, bias, mean, mean_of(squares))


def _of_each(ctx: Context, x: Batched, channels: int) -> Batched:
    """Return a number for each channel of one for each group."""
    column = ctx.unsqueeze(x.value, [1])
    groups = ctx.shape(x.value, 0, 1)
    share = ctx.op("Div", [ctx.ints(channels), groups])
    whole = ctx.op("Expand", [column, ctx.op("Concat", [groups, share], {"axis": 0})])
    value = ctx.reshape(whole, ctx.ints(channels))
    return dataclasses.replace(x, value=value, type=ValueType(x.type.type, (channels,)))


def _of_groups(ctx: Context, x: Batched, groups: int) -> Batched:
    """Return the mean of the channels of a group, for each of them: ``[B, N, C, 1, 1]``."""
    if not x.is_stacked:
        raise Decline(Code.RAGGED, "images differ in number")
    share = ctx.op("Div", [ctx.shape(x.value, 2, 3), ctx.ints(groups)])
    apart = ctx.op("Concat", [ctx.shape(x.value, 0, 2), ctx.ints(groups), share], {"axis": 0})
    parts = ctx.reshape(x.value, apart)
    mean = ctx.op("Expand", [ctx.reduce("ReduceMean", parts, [3], keepdims=True), apart])
    value = ctx.reshape(mean, ctx.op("Shape", [x.value]))
    return dataclasses.replace(x, value=value)


def mean_variance(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """``(x - mean) / (sqrt(mean(x ** 2) - mean ** 2) + 1e-9)``, as its definition has it."""
    x, flat = flat_alone(ctx, operands, "X")
    if not flat.is_plain:
        x = rows_again(ctx, x)
    assert x.dtype is not None
    flat, axes = x.own_flat, ctx.attribute(node, "axes", (0, 2, 3))
    over = {axis % x.rank for axis in axes}
    if not all(axis in over for axis in range(x.rank) if flat.is_ragged(axis)):
        raise Decline(Code.RAGGED, "it leaves out an axis that differs in size")
    dims = tuple(1 if axis in over else dim for axis, dim in enumerate(x.dims))
    mean = _over(ctx, x, axes, dims)
    squares = dataclasses.replace(x, value=ctx.op("Mul", [x.value, x.value]))
    variance = ctx.op("Sub", [_over(ctx, squares, axes, dims).value, _square(ctx, mean)])
    small = ctx.builder.constant(np.array(1e-9, x.dtype.numpy()))
    spread = ctx.op("Add", [ctx.op("Sqrt", [variance]), small])
    centred = ctx.op("Sub", [x.value, aligned(ctx, mean, flat)])
    by = aligned(ctx, dataclasses.replace(mean, value=spread), flat)
    return [ctx.flat(ctx.op("Div", [centred, by]), flat)]


def _square(ctx: Context, x: Batched) -> ir.Value:
    return ctx.op("Mul", [x.value, x.value])


def _over(
    ctx: Context, x: Batched, axes: Sequence[int], dims: tuple[int | str | None, ...]
) -> Batched:
    """Return the mean over axes, which stay with size 1."""
    made = reduced(ctx, "ReduceMean", x, axes, keeps=True)
    return Batched(made.layout, made.value, ValueType(x.type.type, dims))


def _data_and_numbers(
    ctx: Context, operands: Sequence[Operand], count: int
) -> tuple[Batched, list[Batched]]:
    """Return the samples as plain rows, and the numbers of channels as ``[C, 1, 1]``."""
    x, flat = flat_alone(ctx, operands, "X")
    if not flat.is_plain:
        x = rows_again(ctx, x)
    numbers = []
    for index in range(1, count):
        one = ctx.operand(operands, index)
        dims = (*one.dims, *[1] * (x.rank - 2))
        value = ctx.unsqueeze(one.value, range(1, x.rank - 1))
        numbers.append(dataclasses.replace(one, value=value, type=ValueType(one.type.type, dims)))
    return x, numbers


def _of_pixels(ctx: Context, x: Batched) -> Batched:
    """Return the mean over the pixels of each image."""
    dims = (*x.dims[:2], *[1] * (x.rank - 2))
    return _over(ctx, x, range(2, x.rank), dims)


def _scaled(
    ctx: Context,
    node: ir.Node,
    x: Batched,
    scale: Batched,
    bias: Batched,
    mean: Batched,
    variance: Batched,
) -> Sequence[Output]:
    flat = x.own_flat
    assert x.dtype is not None
    small = np.array(ctx.attribute(node, "epsilon", 1e-5)).astype(x.dtype.numpy())
    spread = ctx.op("Sqrt", [ctx.op("Add", [variance.value, ctx.builder.constant(small)])])
    by = aligned(ctx, dataclasses.replace(variance, value=spread), flat)
    centred = ctx.op("Sub", [x.value, aligned(ctx, mean, flat)])
    made = ctx.op("Mul", [ctx.op("Div", [centred, by]), aligned(ctx, scale, flat)])
    return [ctx.flat(ctx.op("Add", [made, aligned(ctx, bias, flat)]), flat)]
