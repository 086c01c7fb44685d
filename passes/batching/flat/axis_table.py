"""For each place of a result the place of the sample that it reads, along one axis.

Slices, crops, pads and resizes treat axes apart, so that a chain of them is composed in small
tables ``[B, O]`` before any row is moved. A place that is padded reads none; a place of a resized
axis may read several, each with a weight.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.batching.flat.samples import AxisTable, FlatSamples
from passes.batching.operators import Operators

__all__ = ["clamped", "identity", "largest", "picked", "places", "without_spare"]


def largest(ops: Operators, count: ir.Value, least: int = 1) -> ir.Value:
    """Return the largest of counts ``[B]``, as int64 ``[1]``.

    It goes through 32 bits, which every kernel of onnxruntime compares right.

    Args:
        ops: Records the nodes.
        count: The counts.
        least: It is no less. A table has a place that may be picked of it, so at least 1; what is
            read in the end has none where all samples are empty.
    """
    padded = ops.op("Concat", [count, ops.ints(least)], {"axis": 0})
    narrow = ops.op("Cast", [padded], {"to": int(ir.DataType.INT32)})
    most = ops.op("ReduceMax", [narrow], {"keepdims": 1})
    return ops.op("Cast", [most], {"to": int(ir.DataType.INT64)})


def places(ops: Operators, width: ir.Value) -> ir.Value:
    """Return the places ``0 .. width - 1``, int64 ``[1, width]``.

    Args:
        ops: Records the nodes.
        width: int64 ``[1]``.
    """
    row = ops.arange(ops.squeeze(width, [0]))
    return ops.unsqueeze(row, [0])


def clamped(ops: Operators, places_: ir.Value, size: ir.Value) -> ir.Value:
    """Return places ``[B, O]`` within samples of sizes ``[B]``."""
    last = ops.op("Sub", [ops.unsqueeze(size, [1]), ops.ints(1)])
    return ops.op("Max", [ops.op("Min", [places_, last]), ops.ints(0)])


def _within(ops: Operators, places_: ir.Value, size: ir.Value) -> ir.Value:
    """Return which places lie within samples of sizes ``[B]``: none does where there are none."""
    behind = ops.op("Less", [places_, ops.unsqueeze(size, [1])])
    return ops.op("And", [behind, ops.op("GreaterOrEqual", [places_, ops.ints(0)])])


def identity(ops: Operators, size: ir.Value) -> AxisTable:
    """Return the table of an axis of sizes ``[B]`` that stays as it is."""
    index = clamped(ops, places(ops, largest(ops, size)), size)
    return AxisTable(size, False, index)


def without_spare(ops: Operators, table: AxisTable) -> AxisTable:
    """Return a table that has no place at all if no sample has one."""
    if table.is_fixed:
        return table
    width = largest(ops, table.count, 0)

    def cut(value: ir.Value | None) -> ir.Value | None:
        bounds = [ops.ints(0), width, ops.ints(1)]
        return None if value is None else ops.op("Slice", [value, *bounds])

    index = cut(table.index)
    assert index is not None
    return dataclasses.replace(
        table, index=index, weight=cut(table.weight), valid=cut(table.valid)
    )


def picked(
    ops: Operators,
    flat: FlatSamples,
    axis: int,
    at: ir.Value,
    count: ir.Value,
    *,
    is_fixed: bool,
    may_miss: bool,
) -> AxisTable:
    """Return the table of a result that reads some places of samples along one axis.

    Args:
        ops: Records the nodes.
        flat: The samples.
        axis: The axis of their grid.
        at: The places, int64 ``[B, O]`` or ``[1, O]``.
        count: See `AxisTable`.
        is_fixed: See `AxisTable`.
        may_miss: Whether a place may lie outside of a sample; it reads nothing then.
    """
    table = flat.tables[axis]
    inside = clamped(ops, at, flat.size(axis))
    valid = _within(ops, at, flat.size(axis)) if may_miss else None
    if table is None:
        return AxisTable(count, is_fixed, inside, None, valid)
    if table.is_fixed and not table.least and (may_miss or not is_fixed):
        table = _with_spare(ops, table)
    inside = _for_each(ops, inside, flat)
    index = _taken(ops, _for_each(ops, table.index, flat), inside, table.weight is not None)
    weight = table.weight
    if weight is not None:
        weight = _taken(ops, _for_each(ops, weight, flat), inside, True)
    if table.valid is not None:
        known = _for_each(ops, table.valid, flat)
        kept = ops.op("GatherElements", [known, inside], {"axis": 1})
        valid = kept if valid is None else ops.op("And", [kept, valid])
    return AxisTable(count, is_fixed, index, weight, valid)


def _with_spare(ops: Operators, table: AxisTable) -> AxisTable:
    """Return a table with a place behind all others, which may be picked where it has none.

    What is picked of no place lies behind a sample, or reads nothing: it means nothing.
    """

    def longer(value: ir.Value | None, zero: np.ndarray) -> ir.Value | None:
        if value is None:
            return None
        sides = [ops.shape(value, 0, 1), ops.ints(1)]
        if table.weight is not None and value is not table.valid:
            sides.append(ops.shape(value, 2, 3))
        shape = ops.op("Concat", sides, {"axis": 0})
        spare = ops.op("Expand", [ops.builder.constant(zero), shape])
        return ops.op("Concat", [value, spare], {"axis": 1})

    index = longer(table.index, np.zeros((), np.int64))
    assert index is not None
    weight = longer(table.weight, np.zeros((), np.float32))
    valid = longer(table.valid, np.zeros((), np.bool_))
    return dataclasses.replace(table, index=index, weight=weight, valid=valid)


def _for_each(ops: Operators, table: ir.Value, flat: FlatSamples) -> ir.Value:
    """Return a table ``[B, ...]``, or ``[1, ...]`` for all samples, with a row for each."""
    shape = ops.op("Concat", [flat.grid.count, ops.shape(table, 1)], {"axis": 0})
    return ops.op("Expand", [table, shape])


def _taken(ops: Operators, table: ir.Value, at: ir.Value, has_taps: bool) -> ir.Value:
    """Return the entries of a table ``[B, O]``, or ``[B, O, K]``, at places ``[B, N]``."""
    if has_taps:
        last = ops.shape(table, 2, 3)
        shape = ops.op("Concat", [ops.op("Shape", [at]), last], {"axis": 0})
        at = ops.op("Expand", [ops.unsqueeze(at, [2]), shape])
    return ops.op("GatherElements", [table, at], {"axis": 1})
