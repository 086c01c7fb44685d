"""Rows of a linear recurrence, each put behind the one so many rows before it, or one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.doubling import doubled
from passes.carried.joined import Joined
from passes.graph.builder import BATCHED_KEY, Builder, tensor_value
from passes.reading.iterations import Carried

__all__ = ["in_loop", "in_steps", "in_steps_by_signs"]


def in_steps(joined: Joined, rows: ir.Value, factors: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Record the values of all rows, where all that is on the way is finite.

    Args:
        joined: Writes the graph.
        rows: The initial value, and the terms of all iterations.
        factors: The factors, with 1 in front; or one number, a constant.
        dtype: The element type.
    """
    neutral = _Neutral(joined.builder, rows, factors, dtype)

    def step(b: Builder, values: Sequence[ir.Value], read: ir.Value) -> list[ir.Value]:
        rows, factors = values
        scaled = b.op("Mul", [factors, neutral.before(b, rows, read)])
        return [b.op("Add", [scaled, rows]), neutral.twice(b, factors, read)]

    return doubled(joined, [rows, factors], step, behind=1)[0]


def in_steps_by_signs(
    joined: Joined,
    rows: ir.Value,
    factors: ir.Value,
    flags: ir.Value | None,
    dtype: ir.DataType,
    *,
    spoils: bool,
) -> ir.Value:
    """Record the same where nothing asks whether all is finite; no factor is larger than 1.

    A product of factors that is too small becomes 0, of which an infinite row would be NaN: the
    product of their signs does not. A factor of 0 makes NaN of it in the Loop, too, but where a
    value begins anew.

    Args:
        joined: Writes the graph.
        rows: The initial value, and the terms of all iterations.
        factors: The factors, with 1 in front; or one number, a constant.
        flags: Where a value begins anew, with a false flag in front; None for nowhere.
        dtype: The element type.
        spoils: Whether an infinite value becomes NaN.
    """
    neutral = _Neutral(joined.builder, rows, factors, dtype)
    zero = joined.builder.constant(np.array(0, dtype.numpy()))

    def step(b: Builder, values: Sequence[ir.Value], read: ir.Value) -> list[ir.Value]:
        rows, factors, signs, *flags = values
        before = neutral.before(b, rows, read)
        scaled = b.op("Mul", [factors, before])
        if spoils:
            scaled = b.op("Add", [scaled, b.op("Sub", [before, before])])
        else:
            endless = b.op("Mul", [signs, before])
            scaled = b.op("Where", [b.op("IsInf", [before]), endless, scaled])
        scaled = b.op("Where", [flags[0], zero, scaled]) if flags else scaled
        made = [b.op("Add", [scaled, rows]), *(neutral.twice(b, v, read) for v in values[1:3])]
        return [*made, *(neutral.since(b, v, read) for v in flags)]

    given = [rows, factors, joined.builder.op("Sign", [factors])]
    return doubled(joined, given if flags is None else [*given, flags], step, behind=1)[0]


def in_loop(
    joined: Joined,
    carried: Carried,
    dtype: ir.DataType,
    number: float | None,
    *,
    spoils: bool,
    begins: bool,
) -> ir.Value:
    """Record a Loop that multiplies and adds, with rows of a known shape where it runs not.

    Args:
        joined: Writes the graph; its values are the terms, the factors and the flags.
        carried: The carried value.
        dtype: The element type.
        number: The factor, where it is one number, which is not among the values.
        spoils: Whether an infinite value becomes NaN.
        begins: Whether there are flags where the value begins anew.
    """
    builder, initial = joined.builder, carried.initial
    state = tensor_value("state", dtype, [None] * (joined.typing.rank(initial) or 0))
    place = tensor_value("number", ir.DataType.INT64, [])
    go = tensor_value("go", ir.DataType.BOOL, [])

    def write(inner: Builder) -> Sequence[ir.Value]:
        row, *rest = (inner.op("Gather", [value, place], {"axis": 0}) for value in joined.values)
        if number is not None:
            rest.insert(0, inner.constant(np.array(number, dtype.numpy())))
        after = inner.op("Add", [inner.op("Mul", [rest[0], state]), row])
        if spoils:
            after = inner.op("Add", [after, inner.op("Sub", [state, state])])
        if begins:
            after = inner.op("Where", [rest[1], row, after])
        return [inner.op("Identity", [go]), after, after]

    body = builder.subgraph("linear", [place, go, state], write)
    count = joined.trips.write(builder)
    inputs = [builder.op("Squeeze", [count]), None, initial]
    loop = builder.node("Loop", inputs, {"body": body}, outputs=2)
    loop.metadata_props[BATCHED_KEY] = builder.origin
    shape = builder.op("Concat", [count, builder.op("Shape", [initial])], {"axis": 0})
    return builder.op("Reshape", [loop.outputs[1], shape], {"allowzero": 1})


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

    def since(self, builder: Builder, flags: ir.Value, read: ir.Value) -> ir.Value:
        """Record whether a flag holds among twice as many rows; none holds in the first one."""
        first = builder.op("Slice", [flags, *(builder.ints(n) for n in (0, 1, 0))])
        whole = builder.op("Concat", [first, flags], {"axis": 0})
        return builder.op("Or", [flags, builder.op("Gather", [whole, read], {"axis": 0})])


def _like_first(builder: Builder, rows: ir.Value, number: int, dtype: ir.DataType) -> ir.Value:
    """Record a number in the shape of the first row."""
    first = builder.op("Slice", [rows, *(builder.ints(n) for n in (0, 1, 0))])
    value = builder.constant(np.array(number, dtype.numpy()))
    return builder.op("Expand", [value, builder.op("Shape", [first])])
