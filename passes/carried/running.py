"""Running products and extremes of all iterations, in steps of twice as many rows each.

For the running maximum ``[1, 3, 2, 0]`` becomes ``[1, 3, 3, 2]`` in the step of one row, and
``[1, 3, 3, 3]`` in that of two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.appends import like_initial
from passes.carried.doubling import check_steps, doubled
from passes.carried.pattern import Joined
from passes.graph.builder import Builder
from passes.reading.iterations import Carried

__all__ = ["running", "total_of"]


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
    whole = joined.once(carried.inner, lambda: _from_initial(joined, carried, rows, family))
    if is_after:
        return _cut(joined.builder, whole, 1, _END)
    return _cut(joined.builder, whole, 0, -1)


def total_of(joined: Joined, carried: Carried, rows: ir.Value, family: str) -> ir.Value:
    """Record the total behind the last iteration, for operators without a reduction.

    The arguments and the error are those of `running`.
    """
    whole = joined.once(carried.inner, lambda: _from_initial(joined, carried, rows, family))
    return joined.last_of(whole)


def _from_initial(joined: Joined, carried: Carried, rows: ir.Value, family: str) -> ir.Value:
    """Record the initial value and the totals of all iterations, in one tensor."""
    check_steps(joined, carried)
    builder = joined.builder
    first = builder.op("Unsqueeze", [carried.initial, builder.ints(0)])
    if not joined.runs:
        rank = joined.typing.rank(carried.initial)
        assert rank is not None
        rows = like_initial(builder, first, rows, rank + 1, 0)
    number = builder.op("Slice", [builder.op("Shape", [rows]), builder.ints(0), builder.ints(1)])
    shape = builder.op("Concat", [number, builder.op("Shape", [carried.initial])], {"axis": 0})
    whole = builder.op("Concat", [first, builder.op("Expand", [rows, shape])], {"axis": 0})
    neutral = _neutral_row(joined, whole, _NEUTRAL[family]) if family in _NEUTRAL else None

    def step(b: Builder, values: Sequence[ir.Value], places: ir.Value, by: int) -> list[ir.Value]:
        return [_joined(b, values[0], places, by, family, neutral)]

    return doubled(joined, [whole], step)[0]


_END = int(np.iinfo(np.int64).max)


def _cut(builder: Builder, rows: ir.Value, start: int, stop: int) -> ir.Value:
    bounds = [builder.ints(start), builder.ints(stop), builder.ints(0)]
    return builder.op("Slice", [rows, *bounds])


def _joined(
    builder: Builder,
    whole: ir.Value,
    places: ir.Value,
    by: int,
    family: str,
    neutral: ir.Value | None,
) -> ir.Value:
    """Join each row to the one so many rows before it.

    Where there is none it is joined to one that changes nothing: the first row for an extreme,
    which holds it already, and 1 for a product. All shapes stay as they are, so that what is
    known of them does.
    """
    before = builder.op("Sub", [places, builder.scalar(by if neutral is None else by - 1)])
    rows = whole if neutral is None else builder.op("Concat", [neutral, whole], {"axis": 0})
    read = builder.op("Max", [before, builder.scalar(0)])
    return builder.op(family, [builder.op("Gather", [rows, read], {"axis": 0}), whole])


_NEUTRAL = {"Add": 0, "Mul": 1, "BitwiseXor": 0}
"""What changes no total of operators that may not join a row twice."""


def _neutral_row(joined: Joined, rows: ir.Value, number: int) -> ir.Value:
    builder, type_ = joined.builder, joined.types[0].type
    first = _cut(builder, rows, 0, 1)
    value = joined.number(number, None if type_ is None else type_.dtype, first)
    return builder.op("Expand", [value, builder.op("Shape", [first])])
