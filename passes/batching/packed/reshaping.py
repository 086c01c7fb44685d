"""Reshape and Flatten of packed samples: the axis of different lengths stays one axis.

The axes before it keep their number of elements; those behind it may join it or leave it, by a
number that is the same for all samples.

Lengths ``[2, 3]`` of rows of 4: as vectors, ``[5, 4]`` is ``[20]``, with the lengths ``[8, 12]``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.regridding import reshape_to_several
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.batching.packed.row_by_row import packed_data, same_rows
from passes.decisions import Code, Decline

__all__ = ["flatten_rows", "flattened", "product", "reshape_rows"]

_OPEN = -1
"""The dimension that differs from sample to sample, among numbers."""


def flatten_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Both groups of axes become one."""
    data, _ = packed_data(ctx, operands)
    axis = int(ctx.attribute(node, "axis", 1))
    axis += data.rank if axis < 0 else 0
    if (data.axis, axis) == (0, 1):
        return same_rows(ctx, node, [data.value], data.own_lengths)
    is_left = data.axis < axis
    other = product(data.dims[axis:] if is_left else data.dims[:axis])
    if other is None:
        raise Decline(Code.RAGGED, "nothing tells the size of the axes that it merges")
    return [_reshaped(ctx, data, [_OPEN, other] if is_left else [other, _OPEN])]


def reshape_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """To a constant shape, or to one that holds a length of the samples by its symbol."""
    data, target = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "shape")
    if target.is_packed:
        raise Decline(Code.RAGGED, "its shape may differ in length")
    known = ctx.constant(target)
    if known is not None:
        keeps_zero = bool(ctx.attribute(node, "allowzero", 0))
        dims = _resolved([int(n) for n in known], data, keeps_zero=keeps_zero)
    else:
        dims = _counted(ctx, node, data) or _named(ctx, ctx.type_of(node.outputs[0]).dims, data)
        if dims is None:
            made = _checked(ctx, node, data, target)
            if made is not None:
                return [made]
    if dims is not None and dims.count(_OPEN) == 1:
        with contextlib.suppress(Decline):
            return [_reshaped(ctx, data, dims)]
    if ctx.takes_packed_as_flat:
        return reshape_to_several(ctx, node, operands)
    raise Decline(Code.RAGGED, "nothing tells that it keeps the axis that differs in length")


def flattened(ctx: Context, data: Batched) -> Output:
    """Return packed samples as vectors.

    Raises:
        Decline: A sample does not lie in one piece, or nothing tells the size of a row.
    """
    return _reshaped(ctx, data, [_OPEN])


def _reshaped(
    ctx: Context, data: Batched, dims: Sequence[int], total: ir.Value | None = None
) -> Output:
    """Return packed samples with other dimensions.

    Args:
        ctx: The context.
        data: The samples ``[*before, n, *rest]``.
        dims: Their new dimensions, one of them open.
        total: The number of all rows, where that is checked; None if it is read off the data.
    """
    axis = dims.index(_OPEN)
    if total is None and list(dims) == [
        _OPEN if i == data.axis else d for i, d in enumerate(data.dims)
    ]:
        return ctx.packed(data.value, data.own_lengths, axis)
    before, rest = product(data.dims[: data.axis]), product(data.dims[data.axis + 1 :])
    other = math.prod(dims[axis + 1 :])
    if before is None or rest is None or math.prod(dims[:axis]) != before:
        raise Decline(Code.RAGGED, "nothing tells that it keeps the axis that differs in length")
    lengths, size = data.own_lengths, total or ctx.shape(data.value, data.axis, data.axis + 1)
    if rest != other:
        if other == 0 or rest % other:
            raise Decline(Code.RAGGED, "nothing tells that it fits the length of each sample")
        lengths = lengths.times(rest // other)
        size = ctx.op("Mul", [size, ctx.ints(rest // other)])
    parts = [ctx.ints(*dims[:axis]), size, ctx.ints(*dims[axis + 1 :])]
    sizes = [p for p, n in zip(parts, (axis, 1, len(dims) - axis - 1), strict=True) if n]
    shape = ctx.op("Concat", sizes, {"axis": 0}) if len(sizes) > 1 else size
    return ctx.packed(ctx.reshape(data.value, shape), lengths, axis)


def _resolved(target: Sequence[int], data: Batched, *, keeps_zero: bool) -> list[int] | None:
    """Return dimensions in which all are numbers but the open one, None if there are none."""
    found: list[int | str | None] = []
    copied = None
    for i, number in enumerate(target):
        if number == 0 and not keeps_zero:
            if i >= data.rank:
                return None
            copied = i if i == data.axis else copied
            found.append(_OPEN if i == data.axis else data.dims[i])
        else:
            found.append(number)
    dims = [d for d in found if isinstance(d, int)]
    if len(dims) < len(found):
        return None
    if copied is None or target.count(-1) == 0:
        return dims
    # The axis of different lengths is copied, so the -1 is another one: a number.
    rest = [d for i, d in enumerate(data.dims) if i != data.axis]
    size, others = product(rest), math.prod(d for d in dims if d != _OPEN)
    if size is None or others == 0 or size % others:
        return None
    return [d if target[i] != -1 else size // others for i, d in enumerate(dims)]


def _named(
    ctx: Context, dims: Sequence[int | str | None] | None, data: Batched
) -> list[int] | None:
    """Return dimensions; one of them stands for the lengths.

    None if none does, or another one is not known.
    """
    found = [
        _OPEN if ctx.lengths_named(d) is data.lengths else d if isinstance(d, int) else None
        for d in dims or ()
    ]
    numbers = [d for d in found if d is not None]
    return numbers if len(numbers) == len(found) else None


def _counted(ctx: Context, node: ir.Node, data: Batched) -> list[int] | None:
    """Return dimensions by a target that is computed, None if they are not known.

    One of them is a length of the sample, or a multiple of it.
    """
    numbers = ctx.numbers.of(node.inputs[1])
    if numbers is None:
        return None
    apart = [i for i, n in enumerate(numbers) if n.number is None]
    dims = [_OPEN if n.number is None else n.number for n in numbers]
    others = [n for i, n in enumerate(dims) if i not in apart]
    rest = product([d for i, d in enumerate(data.dims) if i != data.axis])
    if len(apart) != 1 or rest is None or 0 in others or min(others, default=1) < -1:
        return None
    size, most = data.own_lengths.size, math.prod(n for n in others if n > 0)
    if _OPEN in others:
        times = next((k for k in range(1, rest + 1) if size * k == numbers[apart[0]]), None)
        if others.count(_OPEN) > 1 or times is None or rest % (times * most):
            return None
        left = rest // (times * most)
        return [left if n == _OPEN and i not in apart else n for i, n in enumerate(dims)]
    fits = rest % most == 0 and size * (rest // most) == numbers[apart[0]]
    return dims if fits else None


def _checked(ctx: Context, node: ir.Node, data: Batched, target: Batched) -> Output | None:
    """Return samples that are reshaped by a number of each sample, behind a check.

    A sample cut to ``n`` rows ``[l, 24]`` takes the shape ``[n, 3, 8]`` only if it has that many.
    The rows are counted by lengths that are an error if one does not.
    """
    numbers = ctx.numbers.of(node.inputs[1]) or ()
    apart = [i for i, n in enumerate(numbers) if n.number is None]
    others = [n.number for n in numbers if n.number is not None]
    rest = product([d for i, d in enumerate(data.dims) if i != data.axis])
    keeps_zero = bool(ctx.attribute(node, "allowzero", 0))
    if len(apart) != 1 or not (keeps_zero or apart[0] == data.axis):
        return None
    if rest is None or min(others, default=1) < 1 or rest % math.prod(others):
        return None
    times = rest // math.prod(others)
    copies = times == 1 and not keeps_zero
    lengths = _checked_lengths(ctx, data.own_lengths, ctx.entry(target, apart[0]), times, copies)
    dims = [_OPEN if n.number is None else n.number for n in numbers]
    with contextlib.suppress(Decline):
        return _reshaped(ctx, dataclasses.replace(data, lengths=lengths), dims, lengths.total)
    return None


def _checked_lengths(
    ctx: Context, lengths: Lengths, given: ir.Value, times: int, copies: bool
) -> Lengths:
    """Return lengths that are an error if a given number is not so many times the length.

    What is less than 0 stands for the number that fits, and 0 too if it copies the length.
    """
    needed = ctx.op("Mul", [lengths.value, ctx.builder.scalar(times)])
    differs = ctx.op("Not", [ctx.op("Equal", [given, needed])])
    counts = ctx.op("GreaterOrEqual", [given, ctx.builder.scalar(int(copies))])
    flag = ctx.op("And", [differs, counts])
    return lengths.checked(ctx.builder, failing_where(ctx, lengths.value, [flag]))


def product(dims: Sequence[int | str | None]) -> int | None:
    """Return the product of dimensions, None if one is not known."""
    numbers = [d for d in dims if isinstance(d, int)]
    return math.prod(numbers) if len(numbers) == len(dims) else None
