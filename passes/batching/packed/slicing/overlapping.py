"""Bounds what parts of one tensor take that each sample has of its own, where they overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.held import GATHERED, prefers_loop
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline
from passes.numbers.integers import ITERATION, Greatest, Least, Linear

__all__ = ["limit_overlapping"]

_MOST_COUNTED = 1 << 14
"""The rows of so many parts are counted one by one beforehand."""

_HELD = (
    "samples hold parts of one tensor that overlap; where these take much, they run in one loop"
)
_HELD_ANYWAY = (
    "samples hold parts of one tensor that overlap, and nothing asks what that takes: at most the "
    "number of samples x the size of this tensor"
)


def limit_overlapping(
    ctx: Context,
    parts: Output,
    data: Batched,
    axis: int,
    bounds: Sequence[Batched],
    length: object,
) -> None:
    """Let a loop run where parts of a tensor take too much.

    They overlap where all of them begin at one row, or all end at one. What reads the tensor
    itself in place of the parts takes nothing of all this; nor does a tensor take much that a
    sample may have as a whole.

    Args:
        ctx: The context.
        parts: The rows of all samples.
        data: The tensor.
        axis: The axis that is cut.
        bounds: Where the parts begin and end.
        length: How long a part is, or what tells it.

    Raises:
        Decline: They are known to take too much.
    """
    if parts.lengths is None or not any(bound.is_shared for bound in bounds):
        return
    if not prefers_loop(ctx.asked):
        ctx.copies[parts.value] = None, _HELD_ANYWAY
        return
    others = [dim for at, dim in enumerate(data.dims) if at != axis]
    known = [dim for dim in others if isinstance(dim, int)]
    numbers = math.prod(known) if len(known) == len(others) else None
    whole = data.dims[axis]
    if isinstance(whole, int) and numbers is not None and GATHERED.allows_each(numbers, whole):
        return
    count = None if ctx.numbers.last is None else (ctx.numbers.last + 1).number
    rows = _rows(length, count, whole)
    if rows is not None and numbers is not None and count is not None:
        if not GATHERED.allows(rows * numbers, rows, count, ctx.asked):
            detail = f"overlapping parts of one tensor take {rows * numbers:,} numbers"
            raise Decline(Code.COST, detail)
        return
    flag = GATHERED.write(
        ctx.builder,
        ctx.op("Mul", [parts.lengths.total, _numbers(ctx, data, axis, numbers)]),
        parts.lengths.total,
        ctx.batch,
        ctx.asked,
    )
    ctx.copies[parts.value] = flag, _HELD


def _numbers(ctx: Context, data: Batched, axis: int, known: int | None) -> ir.Value:
    """Return how many numbers a row has, int64 ``[1]``."""
    if known is not None:
        return ctx.ints(known)
    rows = ctx.op("Max", [ctx.shape(data.value, axis, axis + 1), ctx.ints(1)])
    whole = ctx.op("Reshape", [ctx.op("Size", [data.value]), ctx.ints(1)])
    return ctx.op("Div", [whole, rows])


def _rows(length: object, count: int | None, most: int | str | None) -> int | None:
    """Return how many rows all parts have; None where that is not known."""
    if not isinstance(length, Linear) or not isinstance(most, int):
        return None
    if count is None or count > _MOST_COUNTED:
        return None
    lengths = [_number_of(length, trip) for trip in range(count)]
    known = [min(max(one, 0), most) for one in lengths if one is not None]
    return sum(known) if len(known) == count else None


def _number_of(number: Linear, trip: int) -> int | None:
    """Return what a number is for one sample, None where more than its place tells it."""
    total = number.constant
    for atom, factor in number.terms:
        if atom == ITERATION:
            total += factor * trip
            continue
        if not isinstance(atom, Least | Greatest):
            return None
        members = [_number_of(member, trip) for member in atom.members]
        known = [one for one in members if one is not None]
        if len(known) < len(members):
            return None
        total += factor * (min if isinstance(atom, Least) else max)(known)
    return total
