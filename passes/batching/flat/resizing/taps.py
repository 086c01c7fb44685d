"""Interpolation: each place of a result is a weighted sum of a few places, in onnxruntime's order.

The sums are those of onnxruntime's CPU kernels, term by term, so that float32 rounds alike.

A place at 2.25 has .75 of place 2 and .25 of place 3.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.flat.axis_table import picked
from passes.batching.flat.formula import Formula, added, integers, reals
from passes.batching.flat.places import filled, rows_at, tables_of
from passes.batching.flat.resizing.coordinates import ResizedAxis
from passes.batching.flat.samples import AxisTable, FlatSamples
from passes.batching.layouts import Batched
from passes.batching.operators import Operators

__all__ = [
    "Tap",
    "cubic_table",
    "halves_of",
    "interpolated",
    "linear_table",
    "picked_axis",
    "read_place",
    "taps_of",
]

_INT64 = ir.DataType.INT64


@dataclasses.dataclass(frozen=True)
class Tap:
    """One of the places that are summed along one axis.

    Attributes:
        index: The place, int64 ``[B, O]``; None for the place of the result itself.
        weight: Its weight, float, aligned with the result.
    """

    index: ir.Value | None
    weight: Formula


def linear_table(ops: Operators, flat: FlatSamples, axis: ResizedAxis, x: Formula) -> AxisTable:
    """Return two places for each place of a result, and their weights.

    Args:
        ops: Records the nodes.
        flat: The samples.
        axis: The axis as it is resized.
        x: The coordinates, ``[B, O]``.
    """
    last = axis.before - 1.0
    x = x.min(last).max(0.0)
    low = x.floor()
    high = (low + 1.0).min(last)
    is_one = low.compare("Equal", high)
    to_low, to_high = (x - low).abs(), (x - high).abs()
    weights = [is_one.where(0.5, to_high), is_one.where(0.5, to_low)]
    return _table(ops, flat, axis, [low, high], weights)


def cubic_table(
    ops: Operators,
    flat: FlatSamples,
    axis: ResizedAxis,
    x: Formula,
    coefficient: float,
    *,
    excludes_outside: bool,
) -> AxisTable:
    """Return four places for each place of a result, their weights, and the sum of these.

    Args:
        ops: Records the nodes.
        flat: The samples.
        axis: The axis as it is resized.
        x: The coordinates, ``[B, O]``.
        coefficient: Of Keys' polynomial.
        excludes_outside: Whether what lies outside has no weight.
    """
    a, low = coefficient, x.floor()
    s, last = x - low, axis.before - 1.0
    far, near = s + 1.0, 1.0 - s
    behind = 2.0 - s
    weights = [
        ((far * a - 5.0 * a) * far + 8.0 * a) * far - 4.0 * a,
        (s * (a + 2.0) - (a + 3.0)) * s * s + 1.0,
        (near * (a + 2.0) - (a + 3.0)) * near * near + 1.0,
        ((behind * a - 5.0 * a) * behind + 8.0 * a) * behind - 4.0 * a,
    ]
    indices = [low + float(k) for k in (-1, 0, 1, 2)]
    total = weights[0] * 0.0 + 1.0
    if excludes_outside:
        for k, index in enumerate(indices):
            inside = index.compare("Equal", index.min(last).max(0.0))
            weights[k] = inside.where(weights[k], 0.0)
        total = weights[0] + weights[1] + weights[2] + weights[3]
    return _table(ops, flat, axis, indices, [*weights, total])


def picked_axis(ops: Operators, flat: FlatSamples, axis: ResizedAxis, index: Formula) -> AxisTable:
    """Return the table of one place of the samples for each place of a result."""
    at = index.cast(_INT64).value
    return picked(ops, flat, axis.at, at, axis.count, is_fixed=axis.is_fixed, may_miss=False)


def _table(
    ops: Operators,
    flat: FlatSamples,
    axis: ResizedAxis,
    indices: Sequence[Formula],
    weights: Sequence[Formula],
) -> AxisTable:
    read = [picked_axis(ops, flat, axis, index).index for index in indices]
    index = ops.op("Concat", [ops.unsqueeze(i, [2]) for i in read], {"axis": 2})
    weight = ops.op("Concat", [w.unsqueeze(2).value for w in weights], {"axis": 2})
    return AxisTable(axis.count, axis.is_fixed, index, weight)


def interpolated(ops: Operators, x: Batched) -> ir.Value:
    """Return samples as ``[B, *s]``, their axes in the order in which they lie in memory."""
    flat = x.own_flat
    assert flat.sampler is not None and x.dtype is not None
    tables = tables_of(ops, flat)
    rank = len(flat.order)
    if flat.sampler.mode == "cubic":
        return filled(ops, flat, tables, _cubic(ops, x, flat, tables), rank)
    summed, halves = flat.sampler.axes, flat.sampler.halves
    taps = {at: taps_of(ops, tables[at], at, rank) for at in summed if at != halves}
    if halves is not None:
        taps[halves] = halves_of(ops, x, flat, tables, halves, rank)
    terms: list[Formula] = []
    read: dict[tuple[ir.Value | None, ...], Formula] = {}
    for term in itertools.product(*(taps[at] for at in summed)):
        chosen = dict(zip(summed, term, strict=True))
        key = tuple(tap.index for tap in term)
        if key not in read:
            read[key] = read_place(ops, x, flat, tables, chosen)
        weight = term[-1].weight
        for tap in term[-2::-1]:
            weight = weight * tap.weight
        terms.append(weight * read[key])
    total = added(terms)
    if halves is None and flat.sampler.copied is not None:
        copied = ops.unsqueeze(flat.sampler.copied, range(2, rank + 1))
        first = read[tuple(taps[at][0].index for at in summed)]
        total = Formula(ops, copied, ir.DataType.BOOL).where(first, total)
    return filled(ops, flat, tables, total.cast(x.dtype).value, rank)


def _cubic(ops: Operators, x: Batched, flat: FlatSamples, tables: Sequence[AxisTable]) -> ir.Value:
    """Return sums along columns first, of weights that add up to 1, then along rows."""
    assert flat.sampler is not None
    rank, (rows, columns) = len(flat.order), flat.sampler.axes
    *across, width = taps_of(ops, tables[columns], columns, rank, 5)
    *down, height = taps_of(ops, tables[rows], rows, rank, 5)
    lines = []
    for tap in down:
        line = added(
            [
                (other.weight / width.weight)
                * read_place(ops, x, flat, tables, {rows: tap, columns: other})
                for other in across
            ]
        )
        lines.append(line * tap.weight / height.weight)
    return added(lines).value


def read_place(
    ops: Operators,
    x: Batched,
    flat: FlatSamples,
    tables: Sequence[AxisTable],
    chosen: dict[int, Tap],
) -> Formula:
    """Return one of the places that each place of the result sums, in float.

    Args:
        ops: Records the nodes.
        x: The rows of all samples.
        flat: How they lie.
        tables: The places that each axis reads, one table an axis.
        chosen: Which place is read along some axes; along the others there is one.
    """
    ones = []
    for at, table in enumerate(tables):
        index = chosen[at].index if at in chosen else None
        ones.append(AxisTable(table.count, table.is_fixed, index or table.index))
    rows, at_rows = rows_at(ops, x.value, flat, ones)
    pixels = ops.op("Gather", [rows, at_rows], {"axis": 0})
    assert x.dtype is not None
    return Formula(ops, pixels, x.dtype).cast(ir.DataType.FLOAT)


def _aligned(ops: Operators, table: ir.Value, at: int, rank: int) -> Formula:
    """Return ``[B, O]`` aligned with ``[B, *s]``, ``O`` at an axis in memory."""
    return reals(ops, ops.unsqueeze(table, [i + 1 for i in range(rank) if i != at]))


def taps_of(ops: Operators, table: AxisTable, at: int, rank: int, count: int = 2) -> list[Tap]:
    """Return the places of a table with their weights; a fifth weight is of no place.

    Args:
        ops: Records the nodes.
        table: The places of one axis, and their weights.
        at: Which of the axes it is.
        rank: The rank of what is weighed.
        count: How many weights each place of the result has.
    """
    assert table.weight is not None
    found = []
    for k in range(count):
        place = ops.builder.scalar(k)
        weight = ops.op("Gather", [table.weight, place], {"axis": 2})
        index = ops.op("Gather", [table.index, place], {"axis": 2}) if k < 4 else None
        found.append(Tap(index, _aligned(ops, weight, at, rank)))
    return found


def halves_of(
    ops: Operators,
    x: Batched,
    flat: FlatSamples,
    tables: Sequence[AxisTable],
    at: int,
    rank: int,
) -> list[Tap]:
    """Return the place of the result itself twice: at the last one with a half each.

    That is what onnxruntime makes of an axis that stays beside two that are resized.

    Args:
        ops: Records the nodes.
        x: The rows of all samples.
        flat: How they lie.
        tables: The places that each axis reads, one table an axis.
        at: Which of the axes stays.
        rank: The rank of what is weighed.
    """
    if at < flat.grid.rank:
        index = integers(ops, tables[at].index)
        last = integers(ops, ops.unsqueeze(flat.grid.column(at), [1])) - 1
    else:
        axis = at - flat.grid.rank + 1
        width = ops.shape(x.value, axis, axis + 1)
        row = ops.arange(ops.squeeze(width, [0]))
        index = integers(ops, ops.unsqueeze(row, [0]))
        last = integers(ops, ops.unsqueeze(width, [0])) - 1
    is_last = index.compare("Equal", last)
    half, one_, none = (
        reals(ops, ops.builder.constant(np.array(n, np.float32))) for n in (0.5, 1, 0)
    )
    first = is_last.where(half, one_)
    second = is_last.where(half, none)
    assert flat.sampler is not None
    if flat.sampler.copied is not None:
        copied = Formula(ops, flat.sampler.copied, ir.DataType.BOOL)
        first, second = copied.where(one_, first), copied.where(none, second)
    return [Tap(None, _aligned(ops, w.value, at, rank)) for w in (first, second)]
