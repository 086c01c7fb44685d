"""Operators that work row by row: on flat samples they run on all rows at once.

Where samples are yet to be read off their rows, each place from one row, it makes no difference
which comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.failing import is_total
from passes.batching.flat.moves import has_fill, restacked, rows_again
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline

__all__ = ["aligned", "broadcasting", "concat", "matrix_rows", "rows"]


def rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """``f(x)[row] = f(x[row])``: the first operand is flat."""
    return broadcasting(ctx, node, operands)


def broadcasting(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Numpy broadcasting of flat samples with each other, with shared and with stacked values."""
    reads_first = _is_read(operands) or _may_fail_elsewhere(ctx, node, operands)
    if _have_one_shape(operands) and reads_first:
        return restacked(ctx, node, operands)
    given, flat = _on_one_grid(ctx, operands, reads_first=reads_first)
    inputs = [None if x is None else aligned(ctx, x, flat) for x in given]
    new = ctx.same(node, inputs)
    return [ctx.flat(out.value, flat) for out in new]


def _have_one_shape(operands: Sequence[Operand]) -> bool:
    return all(x is None or x.flat is None or x.flat.has_one_shape for x in operands)


def _is_read(operands: Sequence[Operand]) -> bool:
    """Whether rows are summed or filled, so that it matters what comes first."""
    flats = [x.flat for x in operands if x is not None and x.flat is not None]
    return any(f.sampler is not None or has_fill(f) for f in flats) or any(
        not _is_alike(flats[0], f) for f in flats
    )


def _is_alike(one: FlatSamples, other: FlatSamples) -> bool:
    """Whether samples are read alike off rows that lie alike."""
    return (
        one.grid.equal(other.grid)
        and one.order == other.order
        and all(a is b for a, b in zip(one.tables, other.tables, strict=True))
    )


def _may_fail_elsewhere(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> bool:
    """Whether a node may fail on rows that no sample reads: a number that is divided by is 0."""
    are_plain = all(x is None or x.flat is None or x.flat.is_plain for x in operands)
    return not are_plain and not is_total(node, ctx.opset, ctx.type_of)


def _on_one_grid(
    ctx: Context, operands: Sequence[Operand], *, reads_first: bool
) -> tuple[list[Operand], FlatSamples]:
    """Return operands whose flat ones lie alike, row for row.

    Args:
        ctx: The context.
        operands: The operands.
        reads_first: Whether the samples have to be read off their rows before.

    Raises:
        Decline: They are not proven to lie alike.
    """
    given: list[Operand] = list(operands)
    if reads_first or _tells_samples_apart(given):
        given = [x if x is None or x.flat is None else rows_again(ctx, x) for x in given]
    flats = [x.flat for x in given if x is not None and x.flat is not None]
    if any(not _is_alike(flats[0], other) for other in flats):
        raise Decline(Code.RAGGED, "its operands are not proven to have the same sizes")
    return given, flats[0]


def _tells_samples_apart(operands: Sequence[Operand]) -> bool:
    """Whether an operand has a number for each sample, or for places along the grid."""
    flat = next(x.flat for x in operands if x is not None and x.flat is not None)
    leading = any(isinstance(dim, int) for dim in flat.grid.dims)
    others = [x for x in operands if x is not None and x.flat is None]
    return not flat.is_plain and any(not x.is_shared or (leading and x.rank > 1) for x in others)


def aligned(ctx: Context, x: Batched, flat: FlatSamples) -> ir.Value:
    """Return an operand aligned with rows ``[P, *rest]``.

    Raises:
        Decline: It reaches an axis along which samples differ, or has a higher rank.
    """
    if x.flat is not None:
        return x.value
    rank, first = len(flat.order), flat.grid.rank
    if x.rank > rank or not (x.is_shared or x.is_stacked):
        raise Decline(Code.RAGGED, f"'{x.value.name}' has other axes than the samples")
    if x.is_shared and not x.rank:
        return x.value
    missing = rank - x.rank
    along: list[int] = []
    for axis in range(missing, rank):
        at = flat.order[axis]
        if at >= first or x.dims[axis - missing] == 1:
            continue
        if not isinstance(flat.grid.dims[at], int):
            raise Decline(Code.RAGGED, f"'{x.value.name}' meets an axis that differs in size")
        if x.dims[axis - missing] != flat.grid.dims[at]:
            raise Decline(Code.RAGGED, f"'{x.value.name}' may broadcast along axis {axis}")
        along.append(at)
    value = _in_memory_order(ctx, x, flat, along)
    if x.is_shared and not along:
        return value
    assert flat.is_plain
    indices = [flat.grid.rows.samples] if x.is_stacked else []
    indices += [flat.grid.place(at) for at in along]
    if len(indices) == 1:
        return ctx.op("Gather", [value, indices[0]], {"axis": 0})
    entry = ctx.op("Concat", [ctx.unsqueeze(i, [1]) for i in indices], {"axis": 1})
    return ctx.op("GatherND", [value, entry])


def _in_memory_order(
    ctx: Context, x: Batched, flat: FlatSamples, along: Sequence[int]
) -> ir.Value:
    """Return an operand with its axes in memory order, those of size 1 along the grid left out.

    The batch axis of a stacked one comes first, then what it has along the grid, then the rest.
    """
    rank, first = len(flat.order), flat.grid.rank
    missing, shift = rank - x.rank, int(x.is_stacked)
    value = x.value
    if missing:
        value = ctx.unsqueeze(value, range(shift, shift + missing))
    order = [flat.order.index(at) + shift for at in range(rank)]
    perm = [*range(shift), *order]
    if perm != sorted(perm):
        value = ctx.op("Transpose", [value], {"perm": perm})
    gone = [at + shift for at in range(first) if at not in along]
    return ctx.squeeze(value, gone)


def matrix_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """MatMul of the last axis, behind the grid, by a shared matrix."""
    x, other = ctx.operand(operands, 0, "A"), ctx.operand(operands, 1, "B")
    if x.flat is None or not other.is_shared or other.rank != 2:
        raise Decline(Code.RAGGED, "only the left side may differ along several axes")
    if x.flat.has_one_shape:
        return restacked(ctx, node, operands)
    if x.flat.sampler is not None or has_fill(x.flat):
        x = rows_again(ctx, x)
    flat = x.flat
    assert flat is not None
    if len(flat.order) != flat.grid.rank + 1 or flat.order[-1] != flat.grid.rank:
        raise Decline(Code.RAGGED, "it sums over an axis that differs in size")
    (new,) = ctx.same(node, [x.value, other.value])
    return [ctx.flat(new.value, flat)]


def concat(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Concat of flat samples along an axis behind the grid."""
    if any(x is None or x.flat is None for x in operands):
        raise Decline(Code.RAGGED, "what it joins with does not differ along several axes")
    if _have_one_shape(operands) and _is_read(operands):
        return restacked(ctx, node, operands)
    given, flat = _on_one_grid(ctx, operands, reads_first=_is_read(operands))
    rank = len(flat.order)
    at = flat.order[int(ctx.attribute(node, "axis", 0)) % rank]
    if at < flat.grid.rank:
        raise Decline(Code.RAGGED, "it joins along an axis that differs in size")
    axis = at - flat.grid.rank + 1
    (new,) = ctx.same(node, [None if x is None else x.value for x in given], {"axis": axis})
    return [ctx.flat(new.value, flat)]
