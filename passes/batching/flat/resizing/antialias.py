"""Antialiased Resize: two passes over rows, columns first, as onnxruntime goes.

Its taps reach further the more a sample shrinks. uint8 is rounded between the passes, with weights
in whole numbers of 2^-22: a float32 sum cannot hold that, two can.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.batching.flat.axis_table import identity, places
from passes.batching.flat.formula import Formula, integers, reals
from passes.batching.flat.places import filled, rows_at, tables_of
from passes.batching.flat.resizing.coordinates import ResizedAxis
from passes.batching.flat.samples import AxisTable
from passes.batching.layouts import Batched
from passes.batching.operators import Operators

__all__ = ["AntialiasMode", "antialias_table", "resampled"]

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64


@dataclasses.dataclass(frozen=True)
class AntialiasMode:
    """How weights fall off with distance.

    Attributes:
        reach: How far a tap reaches where nothing shrinks: 1 for linear, 2 for cubic.
        coefficient: Of Keys' polynomial.
        excludes_outside: Whether what lies outside has no weight; otherwise the first and the
            last place have its weight.
    """

    reach: int
    coefficient: float
    excludes_outside: bool


def antialias_table(
    ops: Operators, mode: AntialiasMode, axis: ResizedAxis, x: Formula
) -> AxisTable:
    """Return all places that each place of a result reads, and their weights.

    Args:
        ops: Records the nodes.
        mode: The weights.
        axis: The axis as it is resized.
        x: The coordinates, ``[B, O]``.
    """
    inverse = 1.0 / axis.scale
    shrinks = inverse.compare("GreaterOrEqual", 1.0)
    support = shrinks.where(inverse * float(mode.reach), float(mode.reach))
    window = support.ceil() * 2.0 + 1.0
    # The places that a tap reads at most, over the whole batch; one where there is no sample.
    flat = window.on(lambda v: ops.squeeze(v, [1]))
    one = ops.builder.constant(np.ones(1, np.float32))
    padded = ops.op("Concat", [flat.value, one], {"axis": 0})
    most = reals(ops, ops.op("ReduceMax", [padded], {"keepdims": 1})).cast(_INT64).value
    k = integers(ops, places(ops, most)).cast(_FLOAT).unsqueeze(0)
    steepness = shrinks.where(1.0 / inverse, 1.0)
    x = inverse.compare("Equal", 1.0).where(axis.places, x)
    center = x + 0.5
    low = (center - support + 0.5).floor()
    high = (center + support + 0.5).floor()
    number = (high - low).min(window).max(0.0)
    at = low.unsqueeze(2) + k
    distance = ((at - center.unsqueeze(2) + 0.5) * steepness.unsqueeze(2)).abs()
    inside = k.compare("Less", number.unsqueeze(2))
    last = axis.before.unsqueeze(2) - 1.0
    if mode.excludes_outside:
        inside = inside.both(at.compare("GreaterOrEqual", 0.0)).both(
            at.compare("LessOrEqual", last)
        )
    weight = inside.where(_falloff(mode, distance), 0.0)
    sums = _running(ops, weight)
    none = sums.compare("Equal", 0.0)
    total = none.where(1.0, sums)
    if not mode.excludes_outside:
        weight = _merged(ops, weight, at.compare("Equal", 0.0), at.compare("Less", 0.0))
        weight = _merged(ops, weight, at.compare("Equal", last), at.compare("Greater", last))
    # A quotient by a constant 1 would be fused to a division, which rounds once instead of twice.
    ones = total.compare("Equal", total).cast(_FLOAT)
    weight = weight * (ones / total)
    kept = axis.before.compare("Equal", axis.after).unsqueeze(2)
    index = kept.where(axis.places.unsqueeze(2), at.min(last).max(0.0)).min(last).max(0.0)
    weight = kept.where(k.compare("Equal", 0.0).cast(_FLOAT), weight)
    return AxisTable(axis.count, axis.is_fixed, index.cast(_INT64).value, weight.value)


def _falloff(mode: AntialiasMode, distance: Formula) -> Formula:
    if mode.reach == 1:
        return (1.0 - distance).max(0.0)
    a, t = mode.coefficient, distance
    near = (t * (a + 2.0) - (a + 3.0)) * t * t + 1.0
    far = (((t - 5.0) * t + 8.0) * t - 4.0) * a
    beyond = t.compare("Less", 2.0).where(far, 0.0)
    return t.compare("Less", 1.0).where(near, beyond)


def _running(ops: Operators, weight: Formula) -> Formula:
    """Return sums over the last axis, added in order, as ``[B, O, 1]``."""
    sums = ops.op("CumSum", [weight.value, ops.builder.scalar(2)])
    return reals(ops, ops.op("Gather", [sums, ops.ints(-1)], {"axis": 2}))


def _merged(ops: Operators, weight: Formula, is_edge: Formula, is_outside: Formula) -> Formula:
    """Return weights where the place at the edge has those of what lies outside, too."""
    own = is_edge.where(weight, 0.0)
    edge = reals(ops, ops.reduce("ReduceSum", own.value, [2]))
    outside = is_outside.where(weight, 0.0)
    both = ops.op("Concat", [edge.value, outside.value], {"axis": 2})
    total = _running(ops, reals(ops, both))
    return is_edge.where(total, is_outside.where(0.0, weight))


def resampled(ops: Operators, x: Batched, *, may_lack_rows: bool) -> ir.Value:
    """Return samples as ``[B, *s]``, their axes in the order in which they lie in memory.

    Args:
        ops: Records the nodes.
        x: The samples.
        may_lack_rows: Whether none of them may have a row, so that a spare one is read.
    """
    flat = x.own_flat
    assert flat.sampler is not None and x.dtype is not None
    grid, (y, z) = flat.grid, flat.sampler.axes
    tables = tables_of(ops, flat)
    rank = len(flat.order)
    # Columns lie first, then rows, then all else: each pass copies whole rows.
    source = [
        identity(ops, grid.column(at)) if at in (y, z) else tables[at] for at in range(grid.rank)
    ]
    rows, at_rows = rows_at(ops, x.value, flat, source)
    others = [at for at in range(grid.rank) if at not in (y, z)]
    order = [0, *(at + 1 for at in (z, y, *others))]
    at_rows = ops.op("Transpose", [at_rows], {"perm": order})
    if may_lack_rows:
        last = ops.op("Sub", [ops.shape(rows, 0, 1), ops.ints(1)])
        at_rows = ops.op("Min", [at_rows, last])
    pixels = ops.op("Gather", [rows, at_rows], {"axis": 0})  # [B, Z, Y, *others, *rest]
    is_rounded = x.dtype == ir.DataType.UINT8
    pixels = _as_floats(ops, pixels, x.dtype)
    passed = _pass(ops, pixels, tables[z], is_rounded=is_rounded)  # [B, z, Y, ...]
    turned = ops.op("Transpose", [passed], {"perm": [0, 2, 1, *range(3, rank + 1)]})
    passed = _pass(ops, turned, tables[y], is_rounded=is_rounded)  # [B, y, z, ...]
    passed = reals(ops, passed).cast(x.dtype).value
    behind = [y, z, *others, *range(grid.rank, rank)]
    perm = [0, *(behind.index(at) + 1 for at in range(rank))]
    if perm != sorted(perm):
        passed = ops.op("Transpose", [passed], {"perm": perm})
    return filled(ops, flat, tables, passed, rank)


def _as_floats(ops: Operators, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    return Formula(ops, value, dtype).cast(_FLOAT).value


def _pass(ops: Operators, value: ir.Value, table: AxisTable, *, is_rounded: bool) -> ir.Value:
    """Return the weighted sums over the second axis of ``[B, N, *s]``, ``[B, O, *s]``.

    Args:
        ops: Records the nodes.
        value: Floats.
        table: The places along the axis.
        is_rounded: Whether they are 8-bit numbers, and the sums rounded to such.
    """
    assert table.weight is not None
    batch, length = ops.shape(value, 0, 1), ops.shape(value, 1, 2)
    # IREE takes 1 for a size of the result where it can follow each of them to a Shape.
    rest = ops.op("Abs", [ops.shape(value, 2)])
    width = ops.op("ReduceProd", [rest], {"keepdims": 1})
    total = ops.op("Mul", [batch, length])
    rows = ops.reshape(value, ops.op("Concat", [total, width], {"axis": 0}))
    samples = ops.arange(ops.squeeze(batch, [0]))
    first = ops.unsqueeze(ops.op("Mul", [samples, length]), [1, 2])
    at = ops.op("Add", [table.index, first])
    taken = reals(ops, ops.op("Gather", [rows, at], {"axis": 0}))
    weight = reals(ops, table.weight)
    if is_rounded:
        sums = _rounded_sums(ops, weight, taken)
    else:
        product = ops.op("MatMul", [weight.unsqueeze(2).value, taken.value])
        sums = reals(ops, ops.squeeze(product, [2]))
    head = ops.shape(table.index, 1, 2)
    return ops.reshape(sums.value, ops.op("Concat", [batch, head, rest], {"axis": 0}))


def _rounded_sums(ops: Operators, weight: Formula, rows: Formula) -> Formula:
    """Return sums of 8-bit numbers, rounded to such, with weights in 2^-22.

    A weight is ``high * 2^11 + low``, so that both sums are whole numbers below 2^24, and
    ``floor((high * 2^11 + low + 2^21) / 2^22) = floor((high + floor(low / 2^11) + 2^10) / 2^11)``.
    """
    scaled = weight * float(2**22)
    whole = scaled.sign() * (scaled.abs() + 0.5).floor()
    high = (whole * 2.0**-11 + 0.5).floor()
    low = whole - high * 2.0**11
    both = ops.op("Concat", [high.unsqueeze(2).value, low.unsqueeze(2).value], {"axis": 2})
    sums = ops.op("MatMul", [both, rows.value])
    of_high, of_low = (
        reals(ops, ops.op("Gather", [sums, ops.builder.scalar(i)], {"axis": 2})) for i in (0, 1)
    )
    levels = ((of_high + (of_low * 2.0**-11).floor() + float(2**10)) * 2.0**-11).floor()
    return levels.max(0.0).min(255.0)
