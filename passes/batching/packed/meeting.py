"""Packed samples of lengths that are not proven to be equal, as operands of one operator.

Lengths ``[2, 1, 3]`` meet ``[2, 4, 1]``: the first samples are equally long, and in each of the
others one row goes to all rows of its counterpart, as numpy broadcasts. The result has lengths
``[2, 4, 3]``. Any other pair of lengths is an error in the sample alone, and here.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from passes.batching.context import Context, Operand
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import broadcast_lengths, is_single
from passes.graph.picking import pick
from passes.numbers.integers import Linear

__all__ = ["meeting"]


def meeting(ctx: Context, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Return operands with one object of lengths, rows repeated where a sample has one only.

    Lengths of different axes do not meet: ``[h, 1]`` and ``[w]`` are broadcast to ``[h, w]``.
    """
    packed = [x for x in operands if x is not None and x.lengths is not None]
    if len({x.rank - x.axis for x in packed}) != 1:
        return operands
    common = _common_of(ctx, [x.lengths for x in packed])
    beside = _common_of(ctx, [x.beside for x in packed])
    return [
        x if x is None or x.lengths is None else _widened(ctx, _repeated(ctx, x, common), beside)
        for x in operands
    ]


def _common_of(ctx: Context, found: Sequence[Lengths | None]) -> Lengths | None:
    given = [lengths for lengths in found if lengths is not None]
    return functools.reduce(functools.partial(_common, ctx), given) if given else None


def _common(ctx: Context, one: Lengths, other: Lengths) -> Lengths:
    """Return the lengths that two samples have where their rows meet."""
    if one.equal(other):
        return one
    ctx.note_meeting()
    return ctx.lengths_by(
        (one.size, other.size, Linear(1)),
        lambda: broadcast_lengths(ctx, one, other),
    )


def _repeated(ctx: Context, x: Batched, common: Lengths | None) -> Batched:
    """Return samples of common lengths: their own rows, or the only one repeated."""
    own = x.own_lengths
    if common is None or own.equal(common):
        return x
    repeats = ctx.op("Gather", [is_single(ctx, own), common.samples], {"axis": 0})
    first = ctx.op("Gather", [own.starts, common.samples], {"axis": 0})
    within = ctx.op("Where", [repeats, ctx.builder.scalar(0), common.positions])
    rows = ctx.op("Gather", [x.value, ctx.op("Add", [first, within])], {"axis": x.axis})
    return dataclasses.replace(x, value=rows, lengths=common)


def _widened(ctx: Context, x: Batched, common: Lengths | None) -> Batched:
    """Return rows of common lengths along the last axis: their own, or one number repeated."""
    own, lengths, last = x.beside, x.lengths, x.rank - 1
    if own is None or common is None or own.equal(common):
        return x
    assert lengths is not None
    width = common.width
    missing = ctx.op("Sub", [width, ctx.shape(x.value, last, last + 1)])
    before, more = ctx.ints(*[0] * (2 * last + 1)), ctx.op("Max", [missing, ctx.ints(0)])
    wide = ctx.op("Pad", [x.value, ctx.op("Concat", [before, more], {"axis": 0})])
    wide = ctx.op("Slice", [wide, ctx.ints(0), width, ctx.ints(last)])
    first = ctx.op("Slice", [wide, ctx.ints(0), ctx.ints(1), ctx.ints(last)])
    repeats = ctx.op("Gather", [is_single(ctx, own), lengths.samples], {"axis": 0})
    repeats = ctx.unsqueeze(repeats, range(1, x.rank - x.axis))
    value = pick(ctx.builder, repeats, first, wide, x.dtype)
    return dataclasses.replace(x, value=value, beside=common)
