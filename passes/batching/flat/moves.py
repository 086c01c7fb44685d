"""Moves that the rules for flat samples share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching import table
from passes.batching.context import Context, Operand, Output
from passes.batching.flat.reading import as_packed, as_rows, as_stacked, in_order
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout, flats_of, present
from passes.decisions import Code, Decline
from passes.graph.drafts import drafting

__all__ = [
    "entry",
    "flat_alone",
    "has_fill",
    "one_place_each",
    "read_if_simple",
    "read_off",
    "read_simply",
    "restacked",
    "rows_again",
    "stacked_again",
    "stacked_or_packed",
    "stacked_rule",
    "turned",
    "with_axis_in_grid",
]


def flat_alone(
    ctx: Context, operands: Sequence[Operand], name: str
) -> tuple[Batched, FlatSamples]:
    """Return the first operand, which is flat, and how its samples are read.

    Raises:
        Decline: It is not, or another one differs from sample to sample.
    """
    x = ctx.operand(operands, 0, name)
    others = [o for o in operands[1:] if o is not None]
    if x.flat is None or not all(o.is_shared for o in others):
        detail = f"more than its {name} differs from sample to sample"
        raise Decline(Code.BATCHED_OPERAND, detail)
    return x, x.flat


def one_place_each(flat: FlatSamples) -> bool:
    """Whether each place of a sample reads one place of the rows, and none reads nothing."""
    return flat.sampler is None and not has_fill(flat)


def has_fill(flat: FlatSamples) -> bool:
    """Whether a place of a sample may read nothing."""
    return any(t is not None and t.valid is not None for t in flat.tables)


def restacked(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Run the rule for stacked operands on flat ones of one shape.

    Raises:
        Decline: The samples of one differ in shape, or the rule declines.
    """
    given: list[Operand] = []
    for x in operands:
        if x is None or x.flat is None:
            given.append(x)
        elif x.flat.has_one_shape:
            given.append(stacked_again(ctx, x))
        else:
            raise Decline(Code.RAGGED, "its samples differ along several axes")
    if any(x.is_packed for x in present(given)):
        return _by_packed_rule(ctx, node, given)
    return stacked_rule(ctx, node, given)


def stacked_rule(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> list[Output]:
    """Return what the rule for stacked operands yields.

    Raises:
        Decline: There is none, or it declines.
    """
    row = table.find(node, ctx.opset)
    if not isinstance(row, table.Row):
        raise Decline(Code.NO_RULE, "it has no rule")
    return [out for out in row.rule(ctx, node, operands) if out is not None]


def _by_packed_rule(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Run the rule for packed operands.

    Raises:
        Decline: There is none for such operands, or it declines.
    """
    row = table.find_packed(node, ctx.opset)
    if row is None:
        raise Decline(Code.NO_RULE, "it has no rule for samples of different length")
    packed = [x for x in present(operands) if x.is_packed]
    if any(x.axis for x in packed) and not row.any_axis:
        raise Decline(Code.RAGGED, "its samples may differ in length behind the first axis")
    if any(x.beside for x in packed) and not row.two_axes:
        raise Decline(Code.RAGGED, "its samples differ in length along two axes")
    return [out for out in row.rule(ctx, node, operands) if out is not None]


def read_simply(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output] | None:
    """Run the rule for stacked or packed operands where all flat ones can be read as such.

    Returns:
        The outputs; None where samples differ along several axes.

    Raises:
        Decline: That rule declines.
    """
    flats = flats_of(operands)
    if all(flat.has_one_shape for flat in flats):
        return restacked(ctx, node, operands)
    if any(not flat.has_one_shape and flat.ragged_axis is None for flat in flats):
        return None
    given = [None if x is None else stacked_or_packed(ctx, x) for x in operands]
    return _by_packed_rule(ctx, node, given)


def read_if_simple(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output] | None:
    """Return what `read_simply` does, None where it declines as well."""
    try:
        with drafting() as draft:
            found = read_simply(ctx, node, operands)
            draft.keep_all()
    except Decline:
        return None
    return found


def stacked_again(ctx: Context, x: Batched) -> Batched:
    """Return flat samples of one shape as stacked ones."""
    return dataclasses.replace(x, layout=Layout.STACKED, value=as_stacked(ctx, x), flat=None)


def stacked_or_packed(ctx: Context, x: Batched) -> Batched:
    """Return flat samples as a stacked or packed value; any other value stays as it is.

    Raises:
        Decline: They differ along several axes.
    """
    if x.flat is None:
        return x
    if x.flat.has_one_shape:
        return stacked_again(ctx, x)
    if x.flat.ragged_axis is None:
        raise Decline(Code.NO_RULE, "it has no rule for samples that differ along several axes")
    return as_packed(ctx, x)


def rows_again(ctx: Context, x: Batched) -> Batched:
    """Return flat samples whose rows lie as the samples do, but for the order of axes."""
    rows, samples = as_rows(ctx, x)
    return dataclasses.replace(x, value=rows, flat=samples)


def read_off(ctx: Context, x: Batched) -> Batched:
    """Return flat samples; each of their places reads one place of the rows."""
    return x if one_place_each(x.own_flat) else rows_again(ctx, x)


def turned(ctx: Context, x: Batched, perm: Sequence[int]) -> Batched:
    """Return flat samples whose axes lie in memory in a given order.

    Args:
        ctx: The context.
        x: The samples.
        perm: The axes of a sample in that order.
    """
    rows, made = in_order(ctx, x.permuted(perm))
    back = tuple(perm.index(axis) for axis in range(len(perm)))
    return dataclasses.replace(x, value=rows, flat=dataclasses.replace(made, order=back))


def with_axis_in_grid(ctx: Context, x: Batched, axis: int) -> Batched:
    """Return flat samples with an axis behind the grid as the last one of it.

    Each place along it becomes a row, so that samples may read their own places of it.
    """
    flat = x.own_flat
    assert flat.sampler is None
    at, first, value = flat.order[axis], flat.grid.rank, x.value
    place, rank = at - first + 1, len(flat.order) - first + 1
    if place > 1:
        perm = [0, place, *(i for i in range(1, rank) if i != place)]
        value = ctx.op("Transpose", [value], {"perm": perm})
    size = ctx.shape(value, 1, 2)
    target = ctx.op("Mul", [ctx.shape(value, 0, 1), size])
    if rank > 2:
        target = ctx.op("Concat", [target, ctx.shape(value, 2)], {"axis": 0})
    dim = x.dims[axis]
    column = dim if isinstance(dim, int) else ctx.op("Expand", [size, flat.grid.count])
    grid = flat.grid.with_last(column)
    moved = tuple(first if a == at else a + (first <= a < at) for a in flat.order)
    made = dataclasses.replace(flat, grid=grid, order=moved, tables=(*flat.tables, None))
    return dataclasses.replace(x, value=ctx.reshape(value, target), flat=made)


def entry(ctx: Context, vector: Batched, position: int) -> ir.Value:
    """Return an entry of a vector, int64 ``[1]`` if all samples share it, else ``[B]``."""
    known = ctx.constant(vector)
    if known is not None and position < known.size:
        return ctx.ints(int(known.ravel()[position]))
    value = ctx.entry(vector, position)
    return (
        value
        if vector.dtype == ir.DataType.INT64
        else ctx.op("Cast", [value], {"to": int(ir.DataType.INT64)})
    )
