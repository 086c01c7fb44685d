"""The sizes of each axis behind a Resize of flat samples.

By a scale of 1.5, ``[2, 3]`` becomes ``[3, 4]``: 4.5 columns are 4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand
from passes.batching.flat.moves import with_axis_in_grid
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import operand
from passes.numbers.integers import Linear

__all__ = ["SizeChange", "known_scales", "least_size", "size_changes", "with_changed_axes_in_grid"]


@dataclasses.dataclass(frozen=True)
class SizeChange:
    """What happens to one axis of a sample.

    Attributes:
        position: Where sizes or scales have it; -1 where they do not, as it stays.
        at: The axis of the grid.
        axes: How many axes sizes, scales and regions have.
        amount: Its new size, int64 ``[1]`` or ``[B]``, or its scale, float likewise.
        is_size: Whether it is a size.
        is_fixed: Whether it is one number for all samples.
        is_one: Whether the results have one size.
        total: Its new size as a sum, None if nothing is known of it.
    """

    position: int
    at: int
    axes: int
    amount: ir.Value
    is_size: bool
    is_fixed: bool
    is_one: bool = False
    total: Linear | None = None


def size_changes(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], x: Batched, flat: FlatSamples
) -> list[SizeChange]:
    """Return what happens to each axis that may change; nothing where all stay.

    Args:
        ctx: The context of the node.
        node: A Resize.
        operands: Its operands.
        x: What it resizes.
        flat: How the samples of that lie.

    Raises:
        Decline: Neither scales nor sizes are given for all samples, or an axis beside the ragged
            ones may change its size.
    """
    rank = len(flat.order)
    given = node.attributes.get_ints("axes", range(rank))
    axes = [a % rank for a in given]
    sizes = ctx.optional(operands, 3)
    amounts = sizes if sizes is not None else ctx.optional(operands, 2)
    if amounts is None or not amounts.has_an_axis:
        raise Decline(Code.NO_RULE, "neither scales nor sizes are given for all samples")
    is_size = sizes is not None
    sums = ctx.numbers.of(node.inputs[3]) if is_size else None
    known = None if is_size else known_scales(ctx, node.inputs[2])
    stretches = ctx.attribute(node, "keep_aspect_ratio_policy", "stretch") == "stretch"
    found = []
    for position, axis in enumerate(axes):
        at = flat.order[axis]
        total = None if sums is None or len(sums) != len(axes) else sums[position]
        if _stays(total, _size(ctx, node, x, axis), _of_all(known, axes), position):
            if not stretches:
                raise Decline(Code.NO_RULE, "an axis that stays decides the size of the others")
            continue
        if at >= flat.grid.rank:
            raise Decline(
                Code.NO_RULE, f"axis {axis}, beside the ragged ones, may change its size"
            )
        is_fixed = amounts.is_shared
        if total is not None and ctx.numbers.is_shared(total):
            amount, is_fixed = ctx.numbers.write(ctx, total), True
        else:
            amount = ctx.entry(amounts, position)
        kept = total if stretches else None
        found.append(SizeChange(position, at, len(axes), amount, is_size, is_fixed, total=kept))
    if is_size and stretches:
        return [dataclasses.replace(c, is_one=c.is_fixed) for c in found]
    are_one = [c.is_fixed and flat.is_counted_once(c.at) for c in found]
    if not stretches:
        are_one = [all(are_one)] * len(found)
    return [dataclasses.replace(c, is_one=one) for c, one in zip(found, are_one, strict=True)]


def _stays(
    total: Linear | None,
    size: Linear | None,
    known: Sequence[float | None] | None,
    position: int,
) -> bool:
    """Whether an axis is known to keep its size, given as a sum or as a scale."""
    if total is not None:
        return total == size
    return known is not None and known[position] == 1.0


def _of_all(known: list[float | None] | None, axes: Sequence[int]) -> list[float | None] | None:
    """Return scales if there is one for each axis."""
    return known if known is not None and len(known) == len(axes) else None


def with_changed_axes_in_grid(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], x: Batched
) -> Batched:
    """Return samples all of whose axes that change are those of their grid."""
    axes = [a % x.rank for a in node.attributes.get_ints("axes", range(x.rank))]
    sizes = ctx.optional(operands, 3)
    sums = None if sizes is None else ctx.numbers.of(node.inputs[3])
    known = None if sizes is not None else known_scales(ctx, node.inputs[2])
    for position, axis in enumerate(axes):
        flat = x.own_flat
        total = sums[position] if sums is not None and len(sums) == len(axes) else None
        is_beside = flat.order[axis] >= flat.grid.rank and isinstance(x.dims[axis], int)
        size = _size(ctx, node, x, axis)
        if is_beside and not _stays(total, size, _of_all(known, axes), position):
            x = with_axis_in_grid(ctx, x, axis)
    return x


def _size(ctx: Context, node: ir.Node, x: Batched, axis: int) -> Linear | None:
    """Return the size of one sample along an axis, None if nothing is known of it."""
    flat, dim = x.flat, x.dims[axis]
    assert flat is not None
    if flat.order[axis] < flat.grid.rank:
        return flat.dimension(axis)
    return Linear(dim) if isinstance(dim, int) else ctx.numbers.dimension(operand(node, 0), axis)


def known_scales(ctx: Context, value: ir.Value | None) -> list[float | None] | None:
    """Return the entries of a vector that are constants, None for the others.

    None as a whole where not even their number is known.
    """
    known = constant_value(value)
    if known is not None:
        return [float(n) for n in known.reshape(-1)]
    node = None if value is None else value.producer()
    if not is_operator(node, "Concat"):
        return None
    found: list[float | None] = []
    for part in node.inputs:
        array = constant_value(part)
        dims = None if part is None else ctx.type_of(part).dims
        if array is not None:
            found += [float(n) for n in array.reshape(-1)]
        elif dims is not None and len(dims) == 1 and isinstance(dims[0], int):
            found += [None] * dims[0]
        else:
            return None
    return found


def least_size(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], change: SizeChange
) -> int:
    """Return a number that no size of the result along an axis is less than."""
    policy = ctx.attribute(node, "keep_aspect_ratio_policy", "stretch")
    known = ctx.constant(ctx.optional(operands, 3))
    if known is None or policy == "not_larger" or change.position < 0:
        return 0
    return int(known.reshape(-1)[change.position])
