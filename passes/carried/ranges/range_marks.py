"""Which places the ranges of all iterations reach, and which iteration is the last to reach each.

All is computed from the starts and ends of all iterations, ``[1 + n, 1]``, and the positions along
an axis, ``[size]``. A mark of an iteration is its number from 1, and 0 stands for none, so that
there is always something to reduce.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.joined import Joined

__all__ = [
    "Marked",
    "counted_bound",
    "covered_places",
    "last_writers",
    "places_along",
    "rows_of_writers",
    "within_axis",
]

_FLOAT = int(ir.DataType.FLOAT)
_INT32 = int(ir.DataType.INT32)
_INT64 = int(ir.DataType.INT64)


@dataclasses.dataclass(frozen=True)
class Marked:
    """Which terms bound the range along one axis.

    Attributes:
        start: The term of the first position; None where it is all of the axis.
        end: The term of the first one behind; None for one position, or all.
    """

    start: int | None = None
    end: int | None = None


def covered_places(joined: Joined, tensor: ir.Value, ranges: Sequence[Marked]) -> ir.Value:
    """Record which places some iteration reaches, a boolean of the rank of the named axes.

    Args:
        joined: Has the bounds of all iterations.
        tensor: What is written to.
        ranges: The range along each axis that is named.
    """
    builder = joined.builder
    bounded = [axis for axis, one in enumerate(ranges) if one.start is not None]
    dims = joined.typing.dims(tensor)
    if len(bounded) == 2 and dims is not None and ranges[bounded[0]] == ranges[bounded[1]]:
        is_one = dims[bounded[0]] == dims[bounded[1]]
        if is_one and joined.typing.is_same_number(dims[bounded[0]]) and ranges[bounded[0]].end:
            flags = _in_one_range(joined, tensor, ranges, bounded[0])
            return _spread(joined, flags, bounded, len(ranges))
    hits = [
        builder.op("Cast", [_reached(joined, tensor, ranges[axis], axis)], {"to": _FLOAT})
        for axis in bounded
    ]
    if len(hits) == 2:
        turned = builder.op("Transpose", [hits[0]], {"perm": [1, 0]})
        count = builder.op("MatMul", [turned, hits[1]])
    else:
        count = joined.reduce("ReduceSum", _product(joined, hits))
    none = builder.constant(np.zeros((), np.float32))
    return _spread(joined, builder.op("Greater", [count, none]), bounded, len(ranges))


def last_writers(joined: Joined, tensor: ir.Value, ranges: Sequence[Marked]) -> ir.Value:
    """Record the number of the last iteration that reaches each place, from 1; 0 for none.

    The arguments are those of `covered_places`.
    """
    builder = joined.builder
    bounded = [axis for axis, one in enumerate(ranges) if one.start is not None]
    hits = [_reached(joined, tensor, ranges[axis], axis) for axis in bounded]
    number = builder.shape(hits[0], 0, 1)
    count = builder.op("Squeeze", [number, builder.ints(0)])
    numbers = builder.arange(count)
    column = builder.op(
        "Cast", [builder.op("Unsqueeze", [numbers, builder.ints(1)])], {"to": _INT32}
    )
    none = builder.constant(np.zeros((), np.int32))
    marks = [builder.op("Where", [hits[0], column, none])]
    marks += [builder.op("Cast", [one], {"to": _INT32}) for one in hits[1:]]
    last = joined.reduce("ReduceMax", _product(joined, marks))
    return _spread(joined, builder.op("Cast", [last], {"to": _INT64}), bounded, len(ranges))


def rows_of_writers(
    joined: Joined, tensor: ir.Value, ranges: Sequence[Marked], axis: int, owner: ir.Value
) -> ir.Value:
    """Record which row of all that is written belongs to each place, from 1; 0 for none.

    The rows of all iterations stand one behind the other.

    Args:
        joined: Has the bounds of all iterations.
        tensor: What is written to.
        ranges: The range along each axis that is named.
        axis: The axis along which one iteration writes a row to each position.
        owner: What `last_writers` records.
    """
    builder, one = joined.builder, ranges[axis]
    assert one.start is not None
    assert one.end is not None
    size, positions = places_along(joined, tensor, axis)
    start, end = _bound(joined, one.start, size, 0), _bound(joined, one.end, size, 0)
    first, behind = (within_axis(joined, bound, size) for bound in (start, end))
    written = builder.op("Sub", [behind, first])
    many = builder.op("Where", [builder.op("Less", [first, behind]), written, builder.scalar(0)])
    before = builder.op("Sub", [builder.op("CumSum", [many, builder.scalar(0)]), many])
    shift = builder.op("Squeeze", [builder.op("Sub", [before, first]), builder.ints(1)])
    beside = range(1, len(ranges) - axis)
    if beside:
        positions = builder.op("Unsqueeze", [positions, builder.ints(*beside)])
    row = builder.op("Add", [builder.op("Gather", [shift, owner], {"axis": 0}), positions])
    is_written = builder.op("Greater", [owner, builder.scalar(0)])
    behind_spare = builder.op("Add", [row, builder.scalar(1)])
    return builder.op("Where", [is_written, behind_spare, builder.scalar(0)])


def places_along(joined: Joined, tensor: ir.Value, axis: int) -> tuple[ir.Value, ir.Value]:
    """Record the size of an axis, ``[1]``, and the positions along it."""
    builder = joined.builder
    shape = builder.op("Shape", [tensor])
    size = builder.op("Gather", [shape, builder.ints(axis)], {"axis": 0})
    stop = builder.op("Squeeze", [size, builder.ints(0)])
    return size, builder.arange(stop)


def within_axis(joined: Joined, bound: ir.Value, size: ir.Value) -> ir.Value:
    """Record a bound that is cut to the axis, as a Slice cuts it."""
    builder = joined.builder
    low = builder.op(
        "Where", [builder.op("Less", [bound, builder.scalar(0)]), builder.scalar(0), bound]
    )
    return builder.op("Where", [builder.op("Less", [low, size]), low, size])


def _reached(joined: Joined, tensor: ir.Value, one: Marked, axis: int) -> ir.Value:
    """Record which positions along an axis each iteration reaches, ``[1 + n, size]``.

    The first row stands for no iteration, and reaches none.
    """
    builder = joined.builder
    size, positions = places_along(joined, tensor, axis)
    assert one.start is not None
    if one.end is None:
        start = _bound(joined, one.start, size, -1)
        return builder.op("Equal", [positions, start])
    start, end = _bound(joined, one.start, size, 0), _bound(joined, one.end, size, 0)
    is_behind = builder.op("GreaterOrEqual", [positions, start])
    return builder.op("And", [is_behind, builder.op("Less", [positions, end])])


def _in_one_range(
    joined: Joined, tensor: ir.Value, ranges: Sequence[Marked], axis: int
) -> ir.Value:
    """Record which two positions are in one range of some iteration, ``[size, size]``.

    From each position on, the farthest end of all ranges that begin up to it tells how far one
    of them goes: two positions are in one if each lies in front of where the other one's ends.
    """
    builder, one = joined.builder, ranges[axis]
    assert one.start is not None
    assert one.end is not None
    size, positions = places_along(joined, tensor, axis)
    start, end = _bound(joined, one.start, size, 0), _bound(joined, one.end, size, 0)
    begins = builder.op("GreaterOrEqual", [positions, start])
    ends = builder.op("Where", [begins, end, builder.scalar(0)])
    within = builder.op("Where", [builder.op("Less", [ends, size]), ends, size])
    numbers = builder.op("Cast", [within], {"to": _INT32})
    farthest = builder.op("Cast", [joined.reduce("ReduceMax", numbers)], {"to": _INT64})
    row, column = (builder.op("Unsqueeze", [farthest, builder.ints(at)]) for at in (1, 0))
    here = builder.op("Unsqueeze", [positions, builder.ints(1)])
    return builder.op(
        "And", [builder.op("Less", [positions, row]), builder.op("Less", [here, column])]
    )


def _bound(joined: Joined, at: int, size: ir.Value, none: int) -> ir.Value:
    """Record a bound of all iterations behind one of no iteration, counted from the start."""
    builder = joined.builder
    counted = counted_bound(joined, at, size)
    spare = builder.op("Reshape", [builder.scalar(none), builder.ints(1, 1)])
    return builder.op("Concat", [spare, counted], {"axis": 0})


def counted_bound(joined: Joined, at: int, size: ir.Value) -> ir.Value:
    """Record a bound of all iterations, ``[n, 1]``, counted from the start of the axis."""
    builder = joined.builder
    rows = joined.values[at]
    if joined.types[at].type != ir.TensorType(ir.DataType.INT64):
        rows = builder.op("Cast", [rows], {"to": _INT64})
    rows = builder.op("Reshape", [rows, builder.ints(-1, 1)])
    below = builder.op("Less", [rows, builder.scalar(0)])
    return builder.op("Where", [below, builder.op("Add", [rows, size]), rows])


def _product(joined: Joined, rows: Sequence[ir.Value]) -> ir.Value:
    """Record the products of ``[n, a]``, ``[n, b]``, ..., which are ``[n, a, b, ..]``."""
    builder, count = joined.builder, len(rows)
    total: ir.Value | None = None
    for at, one in enumerate(rows):
        beside = [1 + other for other in range(count) if other != at]
        wide = builder.op("Unsqueeze", [one, builder.ints(*beside)]) if beside else one
        total = wide if total is None else builder.op("Mul", [total, wide])
    assert total is not None
    return total


def _spread(joined: Joined, value: ir.Value, bounded: Sequence[int], named: int) -> ir.Value:
    """Record an axis of 1 for each axis along which all positions are written."""
    whole = [axis for axis in range(named) if axis not in bounded]
    if not whole:
        return value
    return joined.builder.op("Unsqueeze", [value, joined.builder.ints(*whole)])
