"""Running products and extremes of all iterations, in steps of twice as many rows each.

For the running maximum ``[1, 3, 2, 0]`` becomes ``[1, 3, 3, 2]`` in the step of one row, and
``[1, 3, 3, 3]`` in that of two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.common.widths import IN_STEPS, INTEGER_EXTREMES, WRITTEN, check_width
from passes.carried.joined import Joined, same_dims
from passes.carried.lists.appends import like_initial
from passes.carried.totals.doubling import Step, check_steps, doubled
from passes.graph.builder import END, Builder
from passes.maps.tensor_source import reversed_along
from passes.reading.iterations import Carried

__all__ = ["running", "running_along", "total_of", "without_one"]


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
    return without_one(joined.builder, whole, is_last=not is_after)


def running_along(
    joined: Joined, carried: Carried, family: str, axis: int, rank: int, *, is_reversed: bool
) -> ir.Value:
    """Record the running products or sums of what a carried value begins as, along an axis.

    Args:
        joined: Writes the graph; there is one iteration less than rows.
        carried: The carried value.
        family: The operator that joins two totals.
        axis: The axis.
        rank: How many axes it has.
        is_reversed: Whether they run from the end to the front.
    """
    builder, rows = joined.builder, carried.initial
    if family == "Add":
        return builder.op("CumSum", [rows, builder.scalar(axis)], {"reverse": int(is_reversed)})
    check_steps(joined, carried)
    order = [axis, *(i for i in range(rank) if i != axis)]
    back = [order.index(i) for i in range(rank)]
    rows = builder.op("Transpose", [rows], {"perm": order}) if axis else rows
    rows = reversed_along(builder, rows, 0) if is_reversed else rows
    first = _cut(builder, rows, 0, 1)
    value = joined.number(_NEUTRAL[family], joined.typing.dtype(carried.initial), first)
    neutral = builder.op("Expand", [value, builder.op("Shape", [first])])

    (rows,) = doubled(joined, [rows], _step(family, neutral), behind=1)
    rows = reversed_along(builder, rows, 0) if is_reversed else rows
    return builder.op("Transpose", [rows], {"perm": back}) if axis else rows


def without_one(builder: Builder, rows: ir.Value, *, is_last: bool) -> ir.Value:
    """Record all rows but the last one, or but the first one."""
    return _cut(builder, rows, 0, -1) if is_last else _cut(builder, rows, 1, END)


def total_of(joined: Joined, carried: Carried, rows: ir.Value, family: str) -> ir.Value:
    """Record the total behind the last iteration, for operators without a reduction.

    The arguments and the error are those of `running`.
    """
    if family == "Mul" and joined.opset >= _WRITES_PRODUCTS and not joined.is_collected:
        return _written_product(joined, carried, rows)
    whole = joined.once(carried.inner, lambda: _from_initial(joined, carried, rows, family))
    return joined.last_of(whole)


def _written_product(joined: Joined, carried: Carried, rows: ir.Value) -> ir.Value:
    """Record a product as rows that are all written onto the initial value."""
    check_width(joined, carried, WRITTEN)
    builder = joined.builder
    first, rows = _in_one_shape(joined, carried, rows)
    zero = {"value": ir.tensor(np.array([0], np.int64))}
    places = builder.op("ConstantOfShape", [builder.op("Shape", [rows])], zero)
    attributes = {"axis": 0, "reduction": "mul"}
    product = builder.op("ScatterElements", [first, places, rows], attributes)
    return builder.op("Squeeze", [product, builder.ints(0)])


def _in_one_shape(joined: Joined, carried: Carried, rows: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Record the initial value as one row, and the rows of all iterations in its shape."""
    builder, initial = joined.builder, carried.initial
    first = builder.op("Unsqueeze", [initial, builder.ints(0)])
    if all(same_dims(joined.typing, initial, known.dims) for known in joined.types):
        return first, rows
    if not joined.runs:
        rank = joined.rank(initial)
        rows = like_initial(builder, first, rows, rank + 1, 0)
    return first, joined.each_like(rows, initial)


def _from_initial(joined: Joined, carried: Carried, rows: ir.Value, family: str) -> ir.Value:
    """Record the initial value and the totals of all iterations, in one tensor."""
    is_choice = family in ("Max", "Min") and joined.typing.dtype(carried.initial) in _WIDE
    check_steps(joined, carried, INTEGER_EXTREMES if is_choice else IN_STEPS)
    builder = joined.builder
    whole = builder.op("Concat", _in_one_shape(joined, carried, rows), {"axis": 0})
    neutral = _neutral_row(joined, whole, _NEUTRAL[family]) if family in _NEUTRAL else None

    behind = 0 if neutral is None else 1
    return doubled(joined, [whole], _step(family, neutral), behind=behind)[0]


_WIDE = frozenset({ir.DataType.INT64, ir.DataType.UINT64})

_WRITES_PRODUCTS = 16
"""The opset from which on ScatterElements joins what is written to one place."""


def _cut(builder: Builder, rows: ir.Value, start: int, stop: int) -> ir.Value:
    bounds = [builder.ints(start), builder.ints(stop), builder.ints(0)]
    return builder.op("Slice", [rows, *bounds])


def _step(family: str, neutral: ir.Value | None) -> Step:
    """Return what joins each row to the one so many rows before it.

    Where there is none it is joined to one that changes nothing: the first row for an extreme,
    which holds it already, and 1 for a product. All shapes stay as they are, so that what is
    known of them does.
    """

    def step(b: Builder, values: Sequence[ir.Value], read: ir.Value) -> list[ir.Value]:
        (whole,) = values
        rows = whole if neutral is None else b.op("Concat", [neutral, whole], {"axis": 0})
        return [b.op(family, [b.op("Gather", [rows, read], {"axis": 0}), whole])]

    return step


_NEUTRAL = {"Add": 0, "Mul": 1, "BitwiseXor": 0}
"""What changes no total of operators that may not join a row twice."""


def _neutral_row(joined: Joined, rows: ir.Value, number: int) -> ir.Value:
    builder, type_ = joined.builder, joined.types[0].type
    first = _cut(builder, rows, 0, 1)
    value = joined.number(number, None if type_ is None else type_.dtype, first)
    return builder.op("Expand", [value, builder.op("Shape", [first])])
