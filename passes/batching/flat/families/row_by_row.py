"""Operators that work row by row: on flat samples they run on all rows at once.

Where samples are yet to be read off their rows, each place from one row, it makes no difference
which comes first.

A Relu of images ``[2, 3]`` and ``[1, 4]`` runs once, on ten rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.failing import is_total
from passes.batching.families.elementwise import WITHOUT_MAX, own_bounds
from passes.batching.flat.families.beside import with_last_axis_last
from passes.batching.flat.moves import one_place_each, restacked, rows_again
from passes.batching.flat.samples import FlatSamples
from passes.batching.flat.spreading import aligned, spread_alike
from passes.batching.layouts import Batched, flats_of, present, with_flat
from passes.decisions import Code, Decline
from passes.graph.drafts import drafting

__all__ = ["are_alike", "broadcasting", "clip", "matrix_rows", "on_one_grid"]


def broadcasting(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Element by element, with Numpy's broadcasting among flat, shared and stacked values."""
    reads_first = _is_read(operands) or _may_fail_elsewhere(ctx, node, operands)
    if not _have_one_shape(operands):
        return _on_rows(ctx, node, operands, reads_first=reads_first)
    if not reads_first:
        # An operand of a size that nothing tells has no place beside the rows.
        with contextlib.suppress(Decline), drafting() as draft:
            found = _on_rows(ctx, node, operands, reads_first=False)
            draft.keep_all()
            return found
    return restacked(ctx, node, operands)


def _on_rows(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], *, reads_first: bool
) -> Sequence[Output]:
    """Run a node on all rows at once.

    Raises:
        Decline: An operand does not lie as the rows do.
    """
    given, flat = on_one_grid(ctx, operands, reads_first=reads_first)
    inputs = [None if x is None else aligned(ctx, x, flat) for x in given]
    new = ctx.same(node, inputs)
    return [ctx.flat(out.value, flat) for out in new]


def clip(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Clip; by bounds of each sample as the greater, then the lesser: it takes scalars alone."""
    x = ctx.operand(operands, 0, "input")
    if x.flat is None or all(bound is None or bound.is_shared for bound in operands[1:]):
        return broadcasting(ctx, node, operands)
    if x.flat.has_one_shape:
        return restacked(ctx, node, operands)
    if x.dtype in WITHOUT_MAX:
        raise Decline(Code.NO_RULE, f"bounds of each sample have no form for {x.dtype}")
    found: Sequence[Output] = []
    for op_type, bound in zip(("Max", "Min"), own_bounds(ctx, operands), strict=False):
        if bound is not None:
            found = broadcasting(ctx, ir.node(op_type, []), [x, bound])
            x = dataclasses.replace(x, value=found[0].value, flat=found[0].flat)
    return found


def _have_one_shape(operands: Sequence[Operand]) -> bool:
    return not any(x.differs for x in present(operands))


def _is_read(operands: Sequence[Operand]) -> bool:
    """Whether rows are summed or filled, so that it matters what comes first."""
    flats = flats_of(operands)
    return not (all(map(one_place_each, flats)) and are_alike(flats))


def are_alike(flats: Sequence[FlatSamples]) -> bool:
    """Whether all samples are read alike off rows that lie alike."""
    return all(_is_alike(flats[0], other) for other in flats)


def _is_alike(one: FlatSamples, other: FlatSamples) -> bool:
    """Whether samples are read alike off rows that lie alike."""
    return (
        one.grid.equal(other.grid)
        and one.order == other.order
        and all(a is b for a, b in zip(one.tables, other.tables, strict=True))
    )


def _may_fail_elsewhere(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> bool:
    """Whether a node may fail on rows that no sample reads: a number that is divided by is 0."""
    are_plain = all(flat.is_plain for flat in flats_of(operands))
    return not are_plain and not is_total(node, ctx.opset, ctx.type_of)


def on_one_grid(
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
        given = with_flat(given, functools.partial(rows_again, ctx))
    flats = flats_of(given)
    if _have_other_axes(given, flats):
        return spread_alike(ctx, operands)
    return given, flats[0]


def _have_other_axes(operands: Sequence[Operand], flats: Sequence[FlatSamples]) -> bool:
    """Whether operands do not lie alike: some differ along fewer axes than others."""
    given = present(operands)
    return (
        not are_alike(flats)
        or any(x.is_packed for x in given)
        or max(x.rank for x in given) > len(flats[0].order)
    )


def _tells_samples_apart(operands: Sequence[Operand]) -> bool:
    """Whether an operand has a number for each sample, or for places along the grid."""
    flat = flats_of(operands)[0]
    others = [x for x in present(operands) if not x.is_flat]
    return not flat.is_plain and any(not x.is_shared or _meets_grid(x, flat) for x in others)


def _meets_grid(x: Batched, flat: FlatSamples) -> bool:
    """Whether an operand that all samples share has several places along the grid."""
    if x.rank > len(flat.order):
        return False
    met = flat.order[len(flat.order) - x.rank :]
    return any(at < flat.grid.rank and dim != 1 for at, dim in zip(met, x.dims, strict=True))


def matrix_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """MatMul of the last axis, behind the grid, by a shared matrix or vector."""
    x, other = ctx.operand(operands, 0, "A"), ctx.operand(operands, 1, "B")
    if x.flat is None or not other.is_shared or other.rank not in (1, 2):
        raise Decline(Code.RAGGED, "only the left side may differ along several axes")
    x = with_last_axis_last(ctx, x)
    flat = x.own_flat
    (new,) = ctx.same(node, [x.value, other.value])
    if other.rank == 1:
        flat = dataclasses.replace(flat, order=flat.order[:-1])
    return [ctx.flat(new.value, flat)]
