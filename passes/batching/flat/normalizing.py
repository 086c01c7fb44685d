"""Normalisations of flat samples whose numbers belong to channels, axis 1 of a sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.moves import restacked, rows_again
from passes.batching.flat.reducing import reduced
from passes.batching.flat.spreading import aligned
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline
from passes.typing import ValueType

__all__ = ["batch_normalization", "instance_normalization"]


def batch_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """``(x - mean) / sqrt(var + epsilon) * scale + bias`` with numbers that all samples share."""
    if len([value for value in node.outputs if value.name]) > 1:
        raise Decline(Code.NO_RULE, "it learns from the samples")
    x, numbers = _data_and_numbers(ctx, operands, 5)
    if x is None:
        return restacked(ctx, node, operands)
    scale, bias, mean, variance = numbers
    return _scaled(ctx, node, x, scale, bias, mean, variance)


def instance_normalization(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """The same by the mean and the variance over the pixels of each image."""
    x, numbers = _data_and_numbers(ctx, operands, 3)
    if x is None:
        return restacked(ctx, node, operands)
    flat = x.flat
    assert flat is not None
    pixels = range(2, x.rank)
    mean = _of_each(ctx, x, reduced(ctx, "ReduceMean", x, pixels, keeps=True))
    difference = ctx.op("Sub", [x.value, aligned(ctx, mean, flat)])
    squares = dataclasses.replace(x, value=ctx.op("Mul", [difference, difference]))
    variance = _of_each(ctx, x, reduced(ctx, "ReduceMean", squares, pixels, keeps=True))
    scale, bias = numbers
    return _scaled(ctx, node, x, scale, bias, mean, variance)


def _data_and_numbers(
    ctx: Context, operands: Sequence[Operand], count: int
) -> tuple[Batched | None, list[Batched]]:
    """Return the samples as plain rows, and the numbers of channels as ``[C, 1, 1]``.

    The samples are None where all have one shape.
    """
    x = ctx.operand(operands, 0, "X")
    if x.flat is None or any(o is not None and not o.is_shared for o in operands[1:]):
        raise Decline(Code.BATCHED_OPERAND, "its numbers differ from sample to sample")
    if x.flat.has_one_shape:
        return None, []
    if not x.flat.is_plain:
        x = rows_again(ctx, x)
    numbers = []
    for index in range(1, count):
        one = ctx.operand(operands, index)
        dims = (*one.dims, *[1] * (x.rank - 2))
        value = ctx.unsqueeze(one.value, range(1, x.rank - 1))
        numbers.append(dataclasses.replace(one, value=value, type=ValueType(one.type.type, dims)))
    return x, numbers


def _of_each(ctx: Context, x: Batched, made: Output) -> Batched:
    """Return a result of a reduction over pixels as an operand."""
    dims = (*x.dims[:2], *[1] * (x.rank - 2))
    return Batched(made.layout, made.value, ValueType(x.type.type, dims))


def _scaled(
    ctx: Context,
    node: ir.Node,
    x: Batched,
    scale: Batched,
    bias: Batched,
    mean: Batched,
    variance: Batched,
) -> Sequence[Output]:
    flat = x.flat
    assert flat is not None and x.dtype is not None
    small = np.array(ctx.attribute(node, "epsilon", 1e-5)).astype(x.dtype.numpy())
    spread = ctx.op("Sqrt", [ctx.op("Add", [variance.value, ctx.builder.constant(small)])])
    by = aligned(ctx, dataclasses.replace(variance, value=spread), flat)
    centred = ctx.op("Sub", [x.value, aligned(ctx, mean, flat)])
    made = ctx.op("Mul", [ctx.op("Div", [centred, by]), aligned(ctx, scale, flat)])
    return [ctx.flat(ctx.op("Add", [made, aligned(ctx, bias, flat)]), flat)]
