"""Running products and extremes of all iterations.

Row ``i`` holds the total of so many rows up to ``i``, and of twice as many in each step. For the
running maximum ``[1, 3, 2, 0]`` becomes ``[1, 3, 3, 2]`` in the step of one row, and
``[1, 3, 3, 3]`` in that of two. A step of more rows than there are changes nothing.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.carried.appends import like_initial
from passes.carried.pattern import Joined
from passes.decisions import Code
from passes.graph.builder import Builder
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError

__all__ = ["running", "total_of"]

_MOST_STEPS = 12
"""The steps of a known number of iterations; each reads and writes all rows."""

_SOME_STEPS, _ALL_STEPS = 14, 40
"""Of an unknown number: the steps of up to 16,384 rows, and of as many as no memory holds."""


def running(
    joined: Joined, carried: Carried, rows: ir.Value, family: str, *, is_after: bool
) -> ir.Value:
    """Record the totals of all iterations, joined to the initial value.

    Args:
        joined: Writes the graph.
        carried: The carried value.
        rows: What each iteration joins to it.
        family: The operator that joins two totals.
        is_after: The totals at the end of each iteration, and not at its start.

    Raises:
        NotAMapError: The number of iterations is known, and too large.
    """
    whole = _from_initial(joined, carried, rows, family)
    if is_after:
        return _cut(joined.builder, whole, 1, _END)
    return _cut(joined.builder, whole, 0, -1)


def total_of(joined: Joined, carried: Carried, rows: ir.Value, family: str) -> ir.Value:
    """Record the total behind the last iteration, for operators without a reduction.

    The arguments and the error are those of `running`.
    """
    whole = _from_initial(joined, carried, rows, family)
    return joined.builder.op("Gather", [whole, joined.builder.scalar(-1)], {"axis": 0})


def _from_initial(joined: Joined, carried: Carried, rows: ir.Value, family: str) -> ir.Value:
    """Record the initial value and the totals of all iterations, in one tensor."""
    builder, count = joined.builder, joined.trips.exact
    first = builder.op("Unsqueeze", [carried.initial, builder.ints(0)])
    if not joined.runs:
        rank = joined.typing.rank(carried.initial)
        assert rank is not None
        rows = like_initial(builder, first, rows, rank + 1, 0)
    if count is not None and count.bit_length() > _MOST_STEPS:
        detail = f"'{carried.inner.name}' needs running totals of more than 4,095 iterations"
        raise NotAMapError(Code.RECURRENCE, detail, carried.next.producer())
    number = builder.op("Slice", [builder.op("Shape", [rows]), builder.ints(0), builder.ints(1)])
    shape = builder.op("Concat", [number, builder.op("Shape", [carried.initial])], {"axis": 0})
    whole = builder.op("Concat", [first, builder.op("Expand", [rows, shape])], {"axis": 0})
    if count is not None:
        return _doubled(builder, whole, family, 0, count.bit_length())
    if not joined.branches:
        return _doubled(builder, whole, family, 0, _ALL_STEPS)
    whole = _doubled(builder, whole, family, 0, _SOME_STEPS)
    return _doubled_if_longer(builder, whole, family, number)


_END = int(np.iinfo(np.int64).max)


def _cut(builder: Builder, rows: ir.Value, start: int, stop: int) -> ir.Value:
    bounds = [builder.ints(start), builder.ints(stop), builder.ints(0)]
    return builder.op("Slice", [rows, *bounds])


def _doubled(builder: Builder, whole: ir.Value, family: str, first: int, last: int) -> ir.Value:
    """Record the steps of ``2 ** first`` rows to half of ``2 ** last``.

    Each row is joined to the one so many rows before it, and where there is none to one that
    changes nothing: the first row for an extreme, which holds it already, and 1 for a product.
    All shapes stay as they are, so that what is known of them does.
    """
    number = builder.op("Slice", [builder.op("Shape", [whole]), builder.ints(0), builder.ints(1)])
    count = builder.op("Squeeze", [number, builder.ints(0)])
    places = builder.op("Range", [builder.scalar(0), count, builder.scalar(1)])
    neutral = _neutral_row(builder, whole, _NEUTRAL[family]) if family in _NEUTRAL else None
    for step in (1 << exponent for exponent in range(first, last)):
        back = step if neutral is None else step - 1
        before = builder.op("Sub", [places, builder.scalar(back)])
        rows = whole if neutral is None else builder.op("Concat", [neutral, whole], {"axis": 0})
        read = builder.op("Max", [before, builder.scalar(0)])
        whole = builder.op(family, [builder.op("Gather", [rows, read], {"axis": 0}), whole])
    return whole


_NEUTRAL = {"Mul": 1, "BitwiseXor": 0}
"""What changes no total of operators that may not join a row twice."""


def _neutral_row(builder: Builder, rows: ir.Value, number: int) -> ir.Value:
    first = _cut(builder, rows, 0, 1)
    value = builder.op("CastLike", [builder.scalar(number), first])
    return builder.op("Expand", [value, builder.op("Shape", [first])])


def _doubled_if_longer(
    builder: Builder, whole: ir.Value, family: str, count: ir.Value
) -> ir.Value:
    """Record the other steps, which run where there are more rows than those before reach."""
    is_longer = builder.op("GreaterOrEqual", [count, builder.ints(1 << _SOME_STEPS)])
    condition = builder.op("Squeeze", [is_longer, builder.ints(0)])
    graphs = {
        "then_branch": builder.subgraph(
            "then", [], lambda b: [_doubled(b, whole, family, _SOME_STEPS, _ALL_STEPS)]
        ),
        "else_branch": builder.subgraph("else", [], lambda b: [b.op("Identity", [whole])]),
    }
    (found,) = builder.node("If", [condition], graphs).outputs
    return found
