"""Crops and pads of flat samples: which places a result reads along each axis.

Cropped by 1 place in front, place ``k`` reads place ``k + 1``. Padded by 1, it reads place
``k - 1``, and place 0 the number that pads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.axis_table import largest, picked, places
from passes.batching.flat.formula import Formula, integers
from passes.batching.flat.moves import entry, has_fill, restacked, rows_again, with_axis_in_grid
from passes.batching.flat.reading import as_stacked
from passes.batching.flat.samples import AxisTable, FlatSamples
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.decisions import Code, Decline
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative
from passes.typing.value_types import is_number

__all__ = ["center_crop_pad", "pad", "padded_along"]


def center_crop_pad(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Crop or pad each sample around its middle.

    An axis beside the ragged ones is cropped or padded once all samples have one shape; where they
    do not come to have one, each place along it becomes a row.
    """
    x = _settled(ctx, operands)
    if x is None:
        return restacked(ctx, node, operands)
    flat = x.own_flat
    targets = ctx.operand(operands, 1, "shape")
    if not targets.has_an_axis:
        raise Decline(Code.RAGGED, "its shape differs along several axes")
    rank = len(flat.order)
    axes = [a % rank for a in node.attributes.get_ints("axes", range(rank))]
    known = ctx.constant(targets)
    if not targets.is_shared or any(flat.is_ragged(a) for a in range(rank) if a not in axes):
        numbers = [None] * len(axes) if known is None else known.reshape(-1).tolist()
        changed = [a for a, n in zip(axes, numbers, strict=False) if n is None or n != x.dims[a]]
        x = _with_axes_in_grid(ctx, x, changed)
        flat = x.own_flat
    tables, beside = list(flat.tables), list[tuple[int, ir.Value]]()
    for position, axis in enumerate(axes):
        at = flat.order[axis]
        number = None if known is None else int(known.reshape(-1)[position])
        if at >= flat.grid.rank and number is not None and number == x.dims[axis]:
            continue
        target = entry(ctx, targets, position)
        if number is None:
            # The largest size of no images is the least number there is.
            target = integers(ctx, target).max(0).value
        if at >= flat.grid.rank:
            beside.append((axis, target))
            continue
        tables[at] = _cropped(ctx, flat, at, target, number, is_fixed=targets.is_shared)
    made = dataclasses.replace(flat, tables=tuple(tables))
    made = _with_zeros(ctx, x, made)
    if not beside:
        return [ctx.flat(x.value, made)]
    whole = as_stacked(ctx, dataclasses.replace(x, flat=made))
    for axis, target in beside:
        whole = _cropped_along(ctx, whole, axis + 1, target, x)
    return [ctx.stacked(whole)]


def _with_axes_in_grid(ctx: Context, x: Batched, axes: Sequence[int]) -> Batched:
    """Return samples some of whose axes belong to the grid."""
    for axis in sorted(axes):
        if x.own_flat.order[axis] < x.own_flat.grid.rank:
            continue
        if x.own_flat.sampler is not None:
            x = rows_again(ctx, x)
        x = with_axis_in_grid(ctx, x, axis)
    return x


def _settled(ctx: Context, operands: Sequence[Operand]) -> Batched | None:
    """Return the data, whose samples may be padded with zeros; None where it is to be stacked."""
    x = ctx.operand(operands, 0, "data")
    if x.flat is None:
        raise Decline(Code.BATCHED_OPERAND, "its bounds come from samples of several sizes")
    if not has_fill(x.flat):
        return x
    return None if x.flat.has_one_shape else rows_again(ctx, x)


def _cropped(
    ctx: Context,
    flat: FlatSamples,
    at: int,
    target: ir.Value,
    number: int | None,
    *,
    is_fixed: bool,
) -> AxisTable:
    """Return the middle of each sample along an axis, or places that it is the middle of."""
    width = target if is_fixed else largest(ctx, target)
    size, wanted = integers(ctx, flat.size(at)), integers(ctx, target)
    table = flat.tables[at]
    is_inside = table is not None and number is not None and number <= table.least
    shift = _middle(size - wanted)
    where = integers(ctx, places(ctx, width)) + shift.unsqueeze(1)
    return picked(ctx, flat, at, where.value, target, is_fixed=is_fixed, may_miss=not is_inside)


def _middle(surplus: Formula) -> Formula:
    """Return where a crop begins, negative for a pad: half of what is too much, rounded down."""
    return surplus.max(0) / 2 - (0 - surplus).max(0) / 2


def _cropped_along(
    ctx: Context, value: ir.Value, axis: int, target: ir.Value, x: Batched
) -> ir.Value:
    """Crop or pad a stacked value around its middle along one axis."""
    size = integers(ctx, ctx.shape(value, axis, axis + 1))
    shift = _middle(size - integers(ctx, target))
    where = integers(ctx, places(ctx, target)).on(lambda v: ctx.squeeze(v, [0])) + shift
    inside = where.min(size - 1).max(0)
    taken = ctx.op("Gather", [value, inside.value], {"axis": axis})
    valid = inside.compare("Equal", where).value
    rank = len(x.dims) + 1
    valid = ctx.unsqueeze(valid, range(axis))
    valid = ctx.unsqueeze(valid, range(axis + 1, rank))
    return ctx.op("Where", [valid, taken, _zero(ctx, x)])


def _zero(ctx: Context, x: Batched) -> ir.Value:
    if not is_number(x.dtype):
        raise Decline(Code.NO_RULE, f"samples of {x.dtype} cannot be padded here")
    return ctx.builder.constant(np.zeros((), x.dtype.numpy()))


def _with_zeros(ctx: Context, x: Batched, flat: FlatSamples) -> FlatSamples:
    """Return samples with zero where a place reads nothing, if one may."""
    if all(table is None or table.valid is None for table in flat.tables):
        return flat
    return dataclasses.replace(flat, fill=_zero(ctx, x))


def pad(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Pad each sample along axes of the grid; a negative amount crops.

    Where the sum of size and amounts is proven to be one number, the samples have one shape.
    """
    x = ctx.operand(operands, 0, "data")
    mode = str(ctx.attribute(node, "mode", "constant"))
    if x.flat is None:
        raise Decline(Code.BATCHED_OPERAND, "its pads come from samples of several sizes")
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise Decline(Code.NO_RULE, f"{mode} padding has no form for samples of several sizes")
    fill = ctx.optional(operands, 2) if mode == "constant" else None
    if fill is not None and not fill.is_shared:
        raise Decline(Code.BATCHED_OPERAND, "its fill differs from sample to sample")
    if x.flat.sampler is not None or (has_fill(x.flat) and mode == "constant"):
        if x.flat.has_one_shape:
            return restacked(ctx, node, operands)
        x = rows_again(ctx, x)
    flat, pads = x.flat, ctx.operand(operands, 1, "pads")
    assert flat is not None
    axes = _padded_axes(ctx, operands, len(flat.order))
    known, sums = ctx.constant(pads), ctx.numbers.of(node.inputs[1])
    if not pads.has_an_axis:
        raise Decline(Code.RAGGED, "its pads differ along several axes")
    count = pads.dims[0] if sums is None else len(sums)
    if isinstance(count, int) and count != 2 * len(axes):
        raise Decline(Code.NO_RULE, "it has no two amounts for each axis")
    if mode == "wrap" and (known is None or min(known, default=0) < 0):
        raise Decline(Code.NO_RULE, "it may crop what it wraps around")
    tables = list(flat.tables)
    for position, axis in enumerate(axes):
        at, behind = flat.order[axis], position + len(axes)
        if known is not None and known[position] == known[behind] == 0:
            continue
        if sums is not None and sums[position] == sums[behind] == Linear():
            continue
        if at >= flat.grid.rank:
            raise Decline(Code.NO_RULE, "it may pad an axis beside the ragged ones")
        begin, end = (integers(ctx, entry(ctx, pads, n)) for n in (position, behind))
        size = flat.dimension(axis)
        total = None
        if sums is not None and size is not None:
            total = size + sums[position] + sums[behind]
        is_fixed = pads.is_shared and flat.is_counted_once(at)
        tables[at] = _padded(ctx, flat, at, begin, end, total, mode, is_fixed=is_fixed)
    made = dataclasses.replace(flat, tables=tuple(tables))
    if mode == "constant" and has_fill(made):
        value = _zero(ctx, x) if fill is None else ctx.squeeze(fill.value, range(fill.rank))
        made = dataclasses.replace(made, fill=value)
    return [ctx.flat(x.value, made)]


def _padded_axes(ctx: Context, operands: Sequence[Operand], rank: int) -> list[int]:
    return [axis % rank for axis in ctx.known_axes(operands, range(rank))]


def padded_along(
    ctx: Context, flat: FlatSamples, at: int, begin: Formula, end: Formula
) -> AxisTable:
    """Return the places of samples that are padded by amounts of their own, reading nothing.

    Args:
        ctx: The context of the node.
        flat: How the samples lie.
        at: Which of the axes is padded.
        begin: How many places come before those of a sample, int64 ``[B]``; below 0 it is cut.
        end: How many come behind.
    """
    return _padded(ctx, flat, at, begin, end, None, "constant", is_fixed=False)


def _padded(
    ctx: Context,
    flat: FlatSamples,
    at: int,
    begin: Formula,
    end: Formula,
    total: Linear | None,
    mode: str,
    *,
    is_fixed: bool,
) -> AxisTable:
    """Return the places of padded samples along one axis."""
    size = integers(ctx, flat.size(at))
    count = size + begin + end
    if total is None or not is_nonnegative(total):
        count, total = count.max(0), total if is_fixed else None
    known: Lengths | None = None
    if total is not None and ctx.numbers.is_shared(total):
        count, is_fixed = integers(ctx, ctx.numbers.write(ctx, total)), True
    elif total is not None and not is_fixed:
        known = _of_sum(ctx, total, count.value)
        count = integers(ctx, known.value)
    width = count.value if is_fixed else largest(ctx, count.value)
    where = integers(ctx, places(ctx, width)) - begin.unsqueeze(1)
    if mode == "reflect":
        last = size.unsqueeze(1) - 1
        there_and_back = last + last
        where = where.abs() % there_and_back.max(1)
        where = where.min(there_and_back - where)
    if mode == "wrap":
        where = where % size.max(1).unsqueeze(1)
    is_constant = mode == "constant"
    made = picked(ctx, flat, at, where.value, count.value, is_fixed=is_fixed, may_miss=is_constant)
    kept = Lengths(ctx.builder, count.value).size if total is None and not is_fixed else total
    return dataclasses.replace(made, size=kept, lengths=known)


def _of_sum(ctx: Context, total: Linear, count: ir.Value) -> Lengths:
    """Return counts that a sum tells: one object for one sum."""
    return ctx.lengths_by(total, lambda: Lengths(ctx.builder, count, size=total))
