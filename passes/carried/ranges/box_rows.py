"""Which places of its own row an iteration reaches, and what of a box belongs to each.

The boxes of all iterations stand one behind the other in one table. Of the boxes ``[2, 2]`` and
``[1, 3]`` the second begins at row 4 of it, and its position ``[0, 2]`` is row 6.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.ranges.range_marks import Marked, counted_bound, places_along, within_axis
from passes.graph.builder import END

__all__ = ["at_places", "reached_places"]


def reached_places(joined: Joined, tensor: ir.Value, ranges: Sequence[Marked]) -> ir.Value | None:
    """Record which places of its own row each iteration reaches, ``[n, b, c, ..]``.

    None where it is all of it. The first axis has no range: each iteration has one position of
    its own there.

    Args:
        joined: Has the bounds of all iterations.
        tensor: What is written to.
        ranges: The range along each axis that is named; one without a start begins with the axis.
    """
    builder, total = joined.builder, None
    for axis, one in enumerate(ranges):
        if one.start is None and one.end is None:
            continue
        own = _reached(joined, tensor, one, axis)
        beside = [other for other in range(1, len(ranges)) if other != axis]
        wide = builder.op("Unsqueeze", [own, builder.ints(*beside)]) if beside else own
        total = wide if total is None else builder.op("And", [total, wide])
    return total


def _reached(joined: Joined, tensor: ir.Value, one: Marked, axis: int) -> ir.Value:
    """Record which positions along an axis each iteration reaches, ``[n, size]``."""
    builder = joined.builder
    size, positions = places_along(joined, tensor, axis)
    if one.end is None:
        assert one.start is not None
        return builder.op("Equal", [positions, counted_bound(joined, one.start, size)])
    is_before = builder.op("Less", [positions, counted_bound(joined, one.end, size)])
    if one.start is None:
        return is_before
    start = counted_bound(joined, one.start, size)
    return builder.op("And", [builder.op("GreaterOrEqual", [positions, start]), is_before])


def _places_in_range(joined: Joined, tensor: ir.Value, one: Marked, axis: int) -> ir.Value:
    """Record positions along an axis, counted from where the range of each iteration begins.

    They are ``[n, size]``, or ``[1, size]`` where all ranges begin with the axis.
    """
    builder = joined.builder
    size, positions = places_along(joined, tensor, axis)
    if one.start is None:
        return builder.op("Unsqueeze", [positions, builder.ints(0)])
    start = within_axis(joined, counted_bound(joined, one.start, size), size)
    return builder.op("Sub", [positions, start])


def at_places(
    joined: Joined,
    tensor: ir.Value,
    ranges: Sequence[Marked],
    axes: Sequence[int],
    table: ir.Value,
    sizes: ir.Value,
    flags: ir.Value | None,
    kept: Sequence[ir.Value],
    dtype: ir.DataType,
) -> ir.Value:
    """Record what is written to each place, zeros where nothing is: ``[n, b, c, .., *rest]``.

    Args:
        joined: Has the bounds of all iterations.
        tensor: What is written to.
        ranges: The range along each axis that is named.
        axes: The axes along which each position has a value of its own.
        table: The values of all iterations, ``[m, *rest]``.
        sizes: How many there are of each iteration along each of the axes, ``[n, axes]``.
        flags: Which places each iteration reaches, ``[n, b, c, ..]``; None for all.
        kept: Which iterations have values in the table at all, each ``[n]``; all have to hold.
        dtype: The element type.
    """
    builder, one = joined.builder, joined.builder.scalar(1)
    columns = [
        builder.op("Gather", [sizes, builder.scalar(at)], {"axis": 1}) for at in range(len(axes))
    ]
    many = functools.reduce(lambda a, b: builder.op("Mul", [a, b]), columns)
    beside = list(range(1, len(ranges)))

    def wide(value: ir.Value, axis: int | None = None) -> ir.Value:
        others = [other for other in beside if other != axis]
        return builder.op("Unsqueeze", [value, builder.ints(*others)]) if others else value

    for flag in kept:
        many = builder.op("Where", [flag, many, builder.scalar(0)])
    # An iteration without values would read those of the one before it.
    has_values = wide(builder.op("Greater", [many, builder.scalar(0)]))
    flags = has_values if flags is None else builder.op("And", [flags, has_values])
    starts = builder.op("CumSum", [many, builder.scalar(0)], {"exclusive": 1})
    place: ir.Value | None = None
    for axis, size in zip(axes, columns, strict=True):
        own = wide(_places_in_range(joined, tensor, ranges[axis], axis), axis)
        # one position is written to all places
        last = wide(builder.op("Sub", [size, one]))
        own = builder.op("Where", [builder.op("Less", [own, last]), own, last])
        if place is not None:
            own = builder.op("Add", [builder.op("Mul", [place, wide(size)]), own])
        place = own
    assert place is not None
    place = builder.op("Add", [builder.op("Add", [place, wide(starts)]), one])
    place = builder.op("Where", [flags, place, builder.scalar(0)])
    return builder.op("Gather", [_with_spare(joined, table, dtype), place], {"axis": 0})


def _with_spare(joined: Joined, table: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Record a row of zeros in front of a table."""
    builder = joined.builder
    rest = builder.op("Slice", [builder.op("Shape", [table]), builder.ints(1), builder.ints(END)])
    shape = builder.op("Concat", [builder.ints(1), rest], {"axis": 0})
    spare = builder.op("Expand", [builder.constant(np.zeros((), dtype.numpy())), shape])
    return builder.op("Concat", [spare, table], {"axis": 0})
