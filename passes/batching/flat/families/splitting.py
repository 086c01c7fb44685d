"""Split along an axis along which samples differ, or by sizes that they have of their own.

Each part is a cut: the places from where the part before it ends. That the sizes fit is asked
when the model runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.beside import along
from passes.batching.flat.families.cutting import cut_along
from passes.batching.flat.formula import Formula, integers
from passes.batching.flat.laying import laid_out
from passes.batching.flat.moves import entry, read_off, with_axis_in_grid
from passes.batching.layouts import Batched
from passes.batching.packed.checks import failing_where
from passes.decisions import Code, Decline

__all__ = ["split", "split_by_own_sizes"]


def split(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
    """Split of flat samples."""
    x, sizes = ctx.operand(operands, 0, "input"), ctx.optional(operands, 1)
    if x.flat is None:
        raise Decline(Code.BATCHED_OPERAND, "its sizes come from samples of several sizes")
    axis = int(ctx.attribute(node, "axis", 0)) % len(x.flat.order)
    if not x.flat.is_ragged(axis) and (sizes is None or sizes.is_shared):
        return along(0)(ctx, node, operands)
    return _cut_apart(ctx, node, x, sizes, axis)


def split_by_own_sizes(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """Split of shared or stacked data by sizes of each sample."""
    x, sizes = ctx.operand(operands, 0, "input"), ctx.optional(operands, 1)
    axis = int(ctx.attribute(node, "axis", 0)) % x.rank
    return _cut_apart(ctx, node, laid_out(ctx, x, [axis]), sizes, axis)


def _cut_apart(
    ctx: Context, node: ir.Node, x: Batched, sizes: Operand, axis: int
) -> Sequence[Output]:
    """Return the parts of flat samples."""
    if x.own_flat.order[axis] >= x.own_flat.grid.rank:
        x = with_axis_in_grid(ctx, read_off(ctx, x), axis)
    flat = x.own_flat
    at, start = flat.order[axis], integers(ctx, ctx.ints(0))
    found = []
    for part in _parts(ctx, node, sizes, integers(ctx, flat.size(at))):
        bounds, tables = [start.value, (start + part).value], list(flat.tables)
        tables[at] = cut_along(ctx, flat, at, bounds, 1, (None, None), are_shared=False)
        found.append(ctx.flat(x.value, dataclasses.replace(flat, tables=tuple(tables))))
        start = start + part
    return found


def _parts(ctx: Context, node: ir.Node, sizes: Operand, size: Formula) -> list[Formula]:
    """Return the size of each part; it is an error at run time if they do not fit.

    Raises:
        Decline: Nothing tells that there are as many sizes as parts.
    """
    count = len(node.outputs)
    if sizes is None:
        return _even(ctx, node, count, size)
    if not sizes.has_an_axis or sizes.dims != (count,):
        raise Decline(Code.RAGGED, "nothing tells how many sizes there are")
    parts = [integers(ctx, entry(ctx, sizes, position)) for position in range(count)]
    rest = size
    for part in parts:
        rest = rest - part
    flags = [rest.compare("Equal", 0).on(lambda fits: ctx.op("Not", [fits]))]
    flags += [part.compare("Less", 0) for part in parts]
    return [_checked(ctx, parts[0], flags), *parts[1:]]


def _even(ctx: Context, node: ir.Node, count: int, size: Formula) -> list[Formula]:
    """Return parts of one size, the last one of what is left where their number is given."""
    if ctx.attribute(node, "num_outputs") is None:
        part = size / count
        whole = (size - part * count).compare("Equal", 0)
        return [_checked(ctx, part, [whole.on(lambda fits: ctx.op("Not", [fits]))])] * count
    part = (size + (count - 1)) / count
    is_too_much = (size - part * (count - 1)).compare("Less", 0)
    part = _checked(ctx, part, [is_too_much])
    return [*[part] * (count - 1), size - part * (count - 1)]


def _checked(ctx: Context, part: Formula, flags: Sequence[Formula]) -> Formula:
    """Return the sizes of a part, int64 ``[B]``, behind a check of each sample."""
    each = part.on(lambda value: ctx.op("Expand", [value, ctx.batch]))
    values = [flag.on(lambda value: ctx.op("Expand", [value, ctx.batch])).value for flag in flags]
    return each.on(lambda value: failing_where(ctx, value, values))
