"""Operators that only arrange elements, and those that only ask for shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import volume
from passes.batching.flat.families.splitting import split_by_own_sizes
from passes.batching.layouts import Batched
from passes.batching.operators import numbers_of
from passes.batching.packed.fills import expand_to_lengths
from passes.batching.packed.repeats import tile_to_lengths
from passes.decisions import Code, Decline
from passes.graph.builder import END
from passes.graph.graphs import constant_value

__all__ = [
    "concat",
    "expand",
    "eye_like",
    "fitting",
    "flatten",
    "sample_dims",
    "shape",
    "shaping",
    "size",
    "split",
    "squeeze",
    "tile",
    "transpose",
    "unsqueeze",
]


def shaping(operand: Operand, name: str) -> ir.Value | None:
    """Return the value of an operand that sets the shape of the result.

    Raises:
        Decline: It is stacked, so that every sample may have a shape of its own.
    """
    if operand is not None and operand.is_stacked:
        raise Decline(Code.DATA_DEPENDENT, f"samples differ in its {name}")
    return None if operand is None else operand.value


def transpose(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Every axis of the permutation moves up by one; the default reverses a sample's axes."""
    data = ctx.operand(operands, 0, "data")
    order = ctx.attribute(node, "perm")
    if order is None:
        order = range(data.rank - 1, -1, -1)
    return ctx.same(node, [data.value], {"perm": [0, *(axis + 1 for axis in order)]})


def _given_axes(ctx: Context, node: ir.Node, axes: Operand) -> list[int] | None:
    """Return axes from the attribute or from a constant; None if neither tells them."""
    ctx.require_shared(axes, "axes")
    known = ctx.attribute(node, "axes") if axes is None else ctx.constant(axes)
    return None if known is None else [int(axis) for axis in np.atleast_1d(known)]


def squeeze(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The axes move up by one; where none are given, the batch axis must not go with them."""
    data, axes = ctx.operand(operands, 0, "data"), ctx.optional(operands, 1)
    given = _given_axes(ctx, node, axes)
    if given == []:
        raise Decline(Code.NO_RULE, "its axes are empty, which runtimes read in two ways")
    if given is not None:
        shifted = [ctx.axis(axis, data.rank) for axis in given]
        return [ctx.stacked(ctx.squeeze(data.value, shifted))]
    if axes is not None:
        return ctx.same(node, [data.value, ctx.shifted_axes(axes, data.rank)])
    if all(isinstance(d, int) for d in data.dims):
        ones = [i for i, d in enumerate(data.dims, 1) if d == 1]
        return [ctx.stacked(ctx.squeeze(data.value, ones))]
    dims = ctx.shape(data.value, 1)
    kept = ctx.op("Not", [ctx.op("Equal", [dims, ctx.ints(1)])])
    rest = ctx.op("Compress", [dims, kept], {"axis": 0})
    target = ctx.op("Concat", [ctx.shape(data.value, 0, 1), rest], {"axis": 0})
    return [ctx.stacked(ctx.reshape(data.value, target))]


def unsqueeze(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The axes move up by one; a negative one counts from the end of the result, as before."""
    data, axes = ctx.operand(operands, 0, "data"), ctx.optional(operands, 1)
    given = _given_axes(ctx, node, axes)
    if given is not None:
        shifted = [ctx.axis(axis, data.rank + len(given)) for axis in given]
        return [ctx.stacked(ctx.unsqueeze(data.value, shifted))]
    if axes is None:
        raise Decline(Code.NO_RULE, "its axes are left out")
    zero, one, away = (ctx.ints(n) for n in (0, 1, -1))
    shift = ctx.op("Where", [ctx.op("Less", [axes.value, zero]), zero, one])
    least = ctx.op("Sub", [ctx.ints(-data.rank), ctx.op("Shape", [axes.value])])
    shift = ctx.op("Where", [ctx.op("Less", [axes.value, least]), away, shift])
    return ctx.same(node, [data.value, ctx.op("Add", [axes.value, shift])])


def flatten(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """``[B, *s]`` to ``[B, front, back]``."""
    data = ctx.operand(operands, 0, "input")
    axis = ctx.attribute(node, "axis", 1) if data.rank else 0
    axis += data.rank if axis < 0 else 0
    sizes = [_product(data.dims[:axis]), _product(data.dims[axis:])]
    if all(sizes):
        return [ctx.stacked(ctx.op("Reshape", [data.value, ctx.ints(0, *numbers_of(sizes))]))]
    front, back = (
        ctx.ints(known) if known is not None else volume(ctx, data.value, start, end)
        for known, start, end in zip(sizes, (1, axis + 1), (axis + 1, END), strict=True)
    )
    target = ctx.op("Concat", [ctx.shape(data.value, 0, 1), front, back], {"axis": 0})
    return [ctx.stacked(ctx.reshape(data.value, target))]


def _product(dims: Sequence[int | str | None]) -> int | None:
    numbers = numbers_of(dims)
    return math.prod(numbers) if len(numbers) == len(dims) else None


def expand(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Expand samples that have as many axes as the result.

    Then the shape, which aligns from the right, does not reach the batch axis.
    """
    data, wanted = ctx.operand(operands, 0, "input"), ctx.operand(operands, 1, "shape")
    if wanted.is_stacked:
        return expand_to_lengths(ctx, node, operands)
    target = shaping(wanted, "shape")
    dims = ctx.type_of(node.outputs[0]).dims
    length = wanted.dims[0] if dims is None else len(dims)
    if isinstance(length, int):
        aligned = ctx.padded_rank(data, max(data.rank, length))
        return ctx.same(node, [aligned, target])
    more = ctx.op("Sub", [ctx.op("Shape", [wanted.value]), ctx.ints(data.rank)])
    count = ctx.op("Max", [more, ctx.ints(0)])
    ones = ctx.op("ConstantOfShape", [count], {"value": ir.tensor(np.ones(1, np.int64))})
    parts = [ctx.shape(data.value, 0, 1), ones, ctx.shape(data.value, 1)]
    aligned = ctx.reshape(data.value, ctx.op("Concat", parts, {"axis": 0}))
    return ctx.same(node, [aligned, target])


def tile(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The batch axis is repeated once."""
    data, repeats = ctx.operand(operands, 0, "input"), ctx.operand(operands, 1, "repeats")
    if repeats.is_stacked:
        return tile_to_lengths(ctx, node, operands)
    value = shaping(repeats, "repeats")
    known = ctx.constant(repeats)
    if known is not None:
        times = ctx.ints(1, *(int(n) for n in known))
    else:
        times = ctx.op("Concat", [ctx.ints(1), value], {"axis": 0})
    return ctx.same(node, [data.value, times])


def concat(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The axis moves up by one; a shared operand is repeated for every sample."""
    given = [ctx.operand(operands, i) for i in range(len(operands))]
    axis = ctx.axis_attribute(node, given[0].rank)
    return ctx.same(node, [ctx.expanded(x) for x in given], {"axis": axis})


def split(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The axis, 0 by default, moves up by one; sizes of each sample cut places of each."""
    data, given = ctx.operand(operands, 0, "input"), ctx.optional(operands, 1)
    if given is not None and given.is_stacked and ctx.takes_flat:
        return split_by_own_sizes(ctx, node, operands)
    sizes = shaping(given, "split")
    axis = ctx.axis_attribute(node, data.rank, 0)
    value = fitting(ctx, node, data, sizes, axis)
    return ctx.same(node, [value] if sizes is None else [value, sizes], {"axis": axis})


def fitting(
    ctx: Context, node: ir.Node, data: Batched, sizes: ir.Value | None, axis: int
) -> ir.Value:
    """Return what a Split cuts by sizes that need not fit where there are no samples.

    Samples that the sizes do not fit are an error. No samples are not, but Split would fail: a
    Reshape of ``[0, 1]`` to ``[0, 4]`` lets it cut 1 and 3 of the 4.

    Args:
        ctx: The context.
        node: The Split.
        data: Stacked or packed samples.
        sizes: The shared sizes, None where they are an attribute or left out.
        axis: The axis of ``data.value`` that is cut, from the front.
    """
    attribute = ctx.attribute(node, "split", None)
    before = int(data.is_stacked)
    is_known = isinstance(data.dims[axis - before], int)
    if not ctx.may_be_empty or is_known or (sizes is None and attribute is None):
        return data.value
    behind = data.rank + before - axis - 1
    known = attribute if sizes is None else constant_value(sizes)
    if known is not None:
        shape = ctx.ints(*[0] * axis, int(np.sum(known)), *[0] * behind)
    else:
        total = ctx.op("ReduceSum", [sizes], {"keepdims": 1})
        parts = [ctx.ints(*[0] * axis), total, ctx.ints(*[0] * behind)]
        shape = ctx.op("Concat", parts, {"axis": 0})
    return ctx.op("Reshape", [data.value, shape])


def shape(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The shape of one sample is shared: what is computed from it is computed once."""
    data = ctx.operand(operands, 0, "data")
    start, end = (
        min(max(n + data.rank if n < 0 else n, 0), data.rank)
        for n in (ctx.attribute(node, "start", 0), ctx.attribute(node, "end", data.rank))
    )
    dims = data.dims[start:end]
    if all(isinstance(d, int) for d in dims):
        return [ctx.shared(ctx.ints(*numbers_of(dims)))]
    return [ctx.shared(ctx.shape(data.value, start + 1, end + 1))]


def size(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The number of elements of one sample is shared."""
    data = ctx.operand(operands, 0, "data")
    known = _product(data.dims)
    if known is not None:
        return [ctx.shared(ctx.builder.scalar(known))]
    dims = ctx.shape(data.value, 1)
    return [ctx.shared(ctx.op("ReduceProd", [dims], {"keepdims": 0}))]


def eye_like(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The result depends on the shape and the element type only, so it is shared.

    A half-precision input is kept as one: runtimes without that kernel cast it by themselves.
    """
    data = ctx.operand(operands, 0, "input")
    dtype, attributes = ctx.attribute(node, "dtype"), {"k": ctx.attribute(node, "k", 0)}
    if dtype is None and data.dtype is None:
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells the element type of the result")
    filled = ir.DataType.FLOAT if data.dtype is None or dtype is not None else data.dtype
    zero = ir.tensor(np.zeros(1, filled.numpy()), dtype=filled)
    one = ctx.op("ConstantOfShape", [ctx.shape(data.value, 1)], {"value": zero})
    if dtype is not None:
        attributes["dtype"] = int(dtype)
    return [ctx.shared(ctx.op("EyeLike", [one], attributes))]


def sample_dims(ctx: Context, x: Batched) -> ir.Value:
    """Return the dimensions of one sample as an int64 vector."""
    return ctx.shape(x.value, 1) if x.is_stacked else ctx.op("Shape", [x.value])
