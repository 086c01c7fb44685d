"""Rows that go on until a flag begins anew: the last value, or the total since then.

For the flags ``[1, 0, 1, 0]`` the rows ``[5, 6, 7, 8]`` become ``[5, 5, 7, 7]``, and as totals
``[5, 11, 7, 15]``. No row behind a flag depends on one before it, whatever that holds.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.common.widths import CHOSEN, check_width
from passes.carried.joined import Joined, same_dims
from passes.carried.pattern import Pattern
from passes.carried.totals.doubling import check_steps, doubled
from passes.graph.builder import END, Builder
from passes.graph.picking import pick
from passes.numbers.integer_reads import INTEGERS
from passes.reading.iterations import Carried

__all__ = [
    "Begun",
    "RunningPattern",
    "begun",
    "expanded",
    "filled",
    "kept_rows",
    "last_kept",
    "row_flags",
    "totals",
]


class Begun:
    """The initial value with a true flag, and behind it the rows and flags of all iterations.

    Attributes:
        rows: ``[1 + n, *s]``.
        flags: ``[1 + n]``, or as the rows where each element has a flag of its own.
        rank: The number of axes of one row.
        is_whole: Whether there is one flag for each row.
    """

    def __init__(self, rows: ir.Value, flags: ir.Value, rank: int, *, is_whole: bool) -> None:
        self.rows = rows
        self.flags = flags
        self.rank = rank
        self.is_whole = is_whole


def begun(
    joined: Joined, carried: Carried, flags: int, rows: int, *, is_whole: bool = False
) -> Begun:
    """Record rows and flags behind the initial value.

    Args:
        joined: Writes the graph.
        carried: The carried value.
        flags: Which term holds the flags.
        rows: Which term holds the rows.
        is_whole: Whether a flag has one element, of any rank.

    Raises:
        NotAMapError: The shape of the carried value is not proven to stay as it is, or it is too
            wide.
    """
    builder, initial = joined.builder, carried.initial
    is_whole = is_whole or joined.types[flags].dims == ()
    if not is_whole:
        check_width(joined, carried, CHOSEN)
        joined.needs_shape(flags, carried, always=True)
    joined.needs_shape(rows, carried, always=True)
    rank = joined.rank(initial)
    first = builder.op("Unsqueeze", [initial, builder.ints(0)])
    whole = builder.op("Concat", [first, expanded(joined, carried, rows, rank)], {"axis": 0})
    yes = builder.constant(np.array([True]))
    if is_whole:
        marks = builder.op("Concat", [yes, row_flags(joined, flags)], {"axis": 0})
    else:
        given = builder.op("Expand", [yes, builder.op("Shape", [first])])
        marks = builder.op("Concat", [given, expanded(joined, carried, flags, rank)], {"axis": 0})
    return Begun(whole, marks, rank, is_whole=is_whole)


def row_flags(joined: Joined, at: int) -> ir.Value:
    """Record a term of one element in each iteration as a vector."""
    flags = joined.values[at]
    if joined.types[at].dims == ():
        return flags
    return joined.builder.op("Reshape", [flags, joined.builder.ints(-1)])


def expanded(joined: Joined, carried: Carried, at: int, rank: int) -> ir.Value:
    """Record a term of all iterations in the shape of the carried value."""
    builder, rows, dims = joined.builder, joined.values[at], joined.types[at].dims
    assert dims is not None
    if same_dims(joined.typing, carried.initial, dims):
        return rows
    if len(dims) < rank:
        rows = builder.op("Unsqueeze", [rows, builder.ints(*range(1, 1 + rank - len(dims)))])
    return joined.each_like(rows, carried.initial)


class RunningPattern(Pattern):
    """A pattern whose values of all iterations are computed at once, behind the initial one."""

    @abc.abstractmethod
    def recorded(self, joined: Joined) -> ir.Value:
        """Record the initial value and the values of all iterations, as rows."""

    def write(self, joined: Joined) -> ir.Value:
        """Record the value behind the last iteration."""
        return joined.last_of(self.whole(joined))

    def can_collect(self, *, is_after: bool) -> bool:
        """The values of all iterations are computed at once."""
        return True

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the values behind each iteration, or those in front of it."""
        builder, whole = joined.builder, self.whole(joined)
        ends = (1, END) if is_after else (0, -1)
        return builder.op("Slice", [whole, *(builder.ints(n) for n in ends), builder.ints(0)])

    def whole(self, joined: Joined) -> ir.Value:
        """Return what `recorded` records, once."""
        return joined.once(self.carried.inner, lambda: self.recorded(joined))


def filled(builder: Builder, given: Begun) -> ir.Value:
    """Record for each row the last row up to it with a true flag.

    The rows that count are taken out; how many flags there were so far is the place among them.
    Elements with flags of their own are laid out one behind the other, the iterations of the
    first element, then those of the second: all begin with a flag that is true.
    """
    rows, flags = given.rows, given.flags
    if given.is_whole or given.rank == 0:
        return _taken(builder, rows, flags)
    last = [*range(1, given.rank + 1), 0]
    turned = builder.op("Transpose", [rows], {"perm": last})
    marks = builder.op("Transpose", [flags], {"perm": last})
    flat = [builder.op("Reshape", [value, builder.ints(-1)]) for value in (turned, marks)]
    found = builder.op("Reshape", [_taken(builder, *flat), builder.op("Shape", [turned])])
    return builder.op("Transpose", [found], {"perm": [given.rank, *range(given.rank)]})


def kept_rows(builder: Builder, given: Begun) -> ir.Value:
    """Record the rows whose flag is true, where there is one for each row."""
    return builder.op("Compress", [given.rows, given.flags], {"axis": 0})


def last_kept(builder: Builder, kept: ir.Value, flags: ir.Value, *, is_after: bool) -> ir.Value:
    """Record for each iteration the last row that is kept, up to it or in front of it.

    The initial value is kept: how many flags of iterations there were is the place.

    Args:
        builder: Writes the graph.
        kept: The rows that are kept.
        flags: The flags of the iterations.
        is_after: Whether the row of the iteration itself counts.
    """
    return builder.op("Gather", [kept, _counts(builder, flags, is_after=is_after)], {"axis": 0})


def _counts(builder: Builder, flags: ir.Value, *, is_after: bool = True) -> ir.Value:
    numbers = builder.op("Cast", [flags], {"to": int(ir.DataType.INT64)})
    options = {} if is_after else {"exclusive": 1}
    return builder.op("CumSum", [numbers, builder.scalar(0)], options)


def _taken(builder: Builder, rows: ir.Value, flags: ir.Value) -> ir.Value:
    kept = builder.op("Compress", [rows, flags], {"axis": 0})
    count = _counts(builder, flags)
    return builder.op("Gather", [kept, builder.op("Sub", [count, builder.scalar(1)])], {"axis": 0})


def totals(
    joined: Joined, carried: Carried, given: Begun, family: str, dtype: ir.DataType
) -> ir.Value:
    """Record for each row the total of all rows since the last one with a true flag.

    Integers are summed at once, and what was summed up to the flag is taken off, which is exact
    even where sums overflow. What else is joined in steps of twice as many rows each.

    Args:
        joined: Writes the graph.
        carried: The carried value.
        given: The rows and flags.
        family: The operator that joins two rows.
        dtype: Its element type.

    Raises:
        NotAMapError: The number of iterations is known, and too large.
    """
    builder = joined.builder
    if family == "Add" and dtype in INTEGERS:
        sums = builder.op("CumSum", [given.rows, builder.scalar(0)])
        ahead = builder.op("Sub", [given.rows, sums])
        own = Begun(ahead, given.flags, given.rank, is_whole=given.is_whole)
        return builder.op("Add", [filled(builder, own), sums])
    check_steps(joined, carried)
    flags = given.flags
    if given.is_whole and given.rank:
        flags = builder.op("Unsqueeze", [flags, builder.ints(*range(1, given.rank + 1))])

    def step(b: Builder, values: Sequence[ir.Value], read: ir.Value) -> list[ir.Value]:
        before, since = (b.op("Gather", [value, read], {"axis": 0}) for value in values)
        rows, marks = values
        total = b.op(family, [before, rows])
        total = pick(b, marks, rows, total, dtype)
        return [total, b.op("Or", [marks, since])]

    return doubled(joined, [given.rows, flags], step)[0]
