"""Rows of a linear recurrence, each put behind the one so many rows before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.doubling import doubled
from passes.carried.joined import Joined
from passes.graph.builder import Builder

__all__ = ["in_steps", "in_steps_by_signs"]


def in_steps(
    joined: Joined, rows: ir.Value, factors: ir.Value, dtype: ir.DataType, *, spoils: bool
) -> ir.Value:
    """Record the values of all rows, where all that is on the way is finite.

    Args:
        joined: Writes the graph.
        rows: The initial value, and the terms of all iterations.
        factors: The factors, with 1 in front; or one number, a constant.
        dtype: The element type.
        spoils: Whether an infinite value becomes NaN.
    """
    neutral = _Neutral(joined.builder, rows, factors, dtype)

    def step(b: Builder, values: Sequence[ir.Value], read: ir.Value) -> list[ir.Value]:
        rows, factors = values
        scaled = b.op("Mul", [factors, neutral.before(b, rows, read)])
        return [b.op("Add", [scaled, rows]), neutral.twice(b, factors, read)]

    return doubled(joined, [rows, factors], step, behind=1)[0]


def in_steps_by_signs(
    joined: Joined, rows: ir.Value, factors: ir.Value, dtype: ir.DataType, *, spoils: bool
) -> ir.Value:
    """Record the same where nothing asks whether all is finite; no factor is larger than 1.

    A product of factors that is too small becomes 0, of which an infinite row would be NaN: the
    product of their signs does not. A factor of 0 makes NaN of it in the Loop, too.
    """
    neutral = _Neutral(joined.builder, rows, factors, dtype)

    def step(b: Builder, values: Sequence[ir.Value], read: ir.Value) -> list[ir.Value]:
        rows, factors, signs = values
        before = neutral.before(b, rows, read)
        scaled = b.op("Mul", [factors, before])
        if spoils:
            scaled = b.op("Add", [scaled, b.op("Sub", [before, before])])
        else:
            endless = b.op("Mul", [signs, before])
            scaled = b.op("Where", [b.op("IsInf", [before]), endless, scaled])
        return [b.op("Add", [scaled, rows]), *(neutral.twice(b, v, read) for v in values[1:])]

    signs = joined.builder.op("Sign", [factors])
    return doubled(joined, [rows, factors, signs], step, behind=1)[0]


class _Neutral:
    """What stands in front of all rows: a row of zeros, and one of ones for the factors."""

    def __init__(
        self, builder: Builder, rows: ir.Value, factors: ir.Value, dtype: ir.DataType
    ) -> None:
        is_number = factors.shape is not None and factors.shape.rank() == 0
        self._zeros = _like_first(builder, rows, 0, dtype)
        self._ones = None if is_number else _like_first(builder, factors, 1, dtype)

    def before(self, builder: Builder, rows: ir.Value, read: ir.Value) -> ir.Value:
        """Record the rows at some places, of which the first one is that of zeros."""
        whole = builder.op("Concat", [self._zeros, rows], {"axis": 0})
        return builder.op("Gather", [whole, read], {"axis": 0})

    def twice(self, builder: Builder, factors: ir.Value, read: ir.Value) -> ir.Value:
        """Record the factors of twice as many rows."""
        if self._ones is None:
            return builder.op("Mul", [factors, factors])
        whole = builder.op("Concat", [self._ones, factors], {"axis": 0})
        return builder.op("Mul", [factors, builder.op("Gather", [whole, read], {"axis": 0})])


def _like_first(builder: Builder, rows: ir.Value, number: int, dtype: ir.DataType) -> ir.Value:
    """Record a number in the shape of the first row."""
    first = builder.op("Slice", [rows, *(builder.ints(n) for n in (0, 1, 0))])
    value = builder.constant(np.array(number, dtype.numpy()))
    return builder.op("Expand", [value, builder.op("Shape", [first])])
