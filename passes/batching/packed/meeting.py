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
from passes.reading.integers import Linear

__all__ = ["meeting"]


def meeting(ctx: Context, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Return operands with one object of lengths, rows repeated where a sample has one only."""
    lengths = [x.lengths for x in operands if x is not None and x.lengths is not None]
    if not lengths or any(x is not None and x.beside is not None for x in operands):
        return operands
    common = functools.reduce(functools.partial(_common, ctx), lengths)
    return [x if x is None or x.lengths is None else _repeated(ctx, x, common) for x in operands]


def _common(ctx: Context, one: Lengths, other: Lengths) -> Lengths:
    """Return the lengths that two samples have where their rows meet."""
    if one.equal(other):
        return one
    return ctx.lengths_by(
        (one.size, other.size, Linear(1)),
        lambda: Lengths(ctx.builder, broadcast_lengths(ctx, one, other)),
    )


def _repeated(ctx: Context, x: Batched, common: Lengths) -> Batched:
    """Return samples of common lengths: their own rows, or the only one repeated."""
    own = x.lengths
    assert own is not None
    if own.equal(common):
        return x
    repeats = ctx.op("Gather", [is_single(ctx, own), common.samples], {"axis": 0})
    first = ctx.op("Gather", [own.starts, common.samples], {"axis": 0})
    within = ctx.op("Where", [repeats, ctx.builder.scalar(0), common.positions])
    rows = ctx.op("Gather", [x.value, ctx.op("Add", [first, within])], {"axis": x.axis})
    return dataclasses.replace(x, value=rows, lengths=common)
