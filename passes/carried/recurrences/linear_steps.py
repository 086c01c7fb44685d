"""Rows of a linear recurrence, each put behind the one so many rows before it, or one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.totals.doubling import doubled
from passes.carried.totals.filled import expanded
from passes.graph.builder import BATCHED_KEY, Builder, tensor_value
from passes.reading.iterations import Carried

__all__ = ["Role", "in_front", "in_loop", "in_steps", "in_steps_by_signs"]


Role = Literal["offset", "factor", "anew", "spoilt"]
"""What is needed of an iteration: what is added; the factor; whether the value begins anew there,
as what is added alone; whether an infinite one becomes NaN."""


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
    signs: ir.Value,
    anew: ir.Value | None,
    dtype: ir.DataType,
) -> ir.Value:
    """Record the same where nothing asks whether all is finite; no factor is larger than 1.

    A product of small factors is rounded to 0, and 0 makes NaN of an infinite row. The product of
    their signs is never rounded, so infinite rows are multiplied by that. A factor of 0 makes NaN
    of an infinite row in the Loop, too, except where a value begins anew.

    Args:
        joined: Writes the graph.
        rows: The initial value, and the terms of all iterations.
        factors: The factors, with 1 in front; or one number, a constant.
        signs: Those of the factors, or 0 where an infinite value becomes NaN.
        anew: Where a value begins anew, with a false flag in front; None for nowhere.
        dtype: The element type.
    """
    neutral = _Neutral(joined.builder, rows, factors, dtype)
    zero = joined.builder.constant(np.array(0, dtype.numpy()))

    def step(b: Builder, values: Sequence[ir.Value], read: ir.Value) -> list[ir.Value]:
        rows, factors, signs, *flags = values
        before = neutral.before(b, rows, read)
        scaled = b.op("Mul", [factors, before])
        endless = b.op("Mul", [signs, before])
        scaled = b.op("Where", [b.op("IsInf", [before]), endless, scaled])
        scaled = b.op("Where", [flags[0], zero, scaled]) if flags else scaled
        made = [b.op("Add", [scaled, rows]), *(neutral.twice(b, v, read) for v in values[1:3])]
        return [*made, *(neutral.since(b, v, read) for v in flags)]

    given = [rows, factors, signs, *([] if anew is None else [anew])]
    return doubled(joined, given, step, behind=1)[0]


def in_loop(
    joined: Joined,
    carried: Carried,
    given: Mapping[Role, ir.Value],
    dtype: ir.DataType,
    number: float | None,
    *,
    spoils: bool,
) -> ir.Value:
    """Record a Loop that multiplies and adds; its rows have a known shape without iterations, too.

    Args:
        joined: Writes the graph.
        carried: The carried value.
        given: What there is of all iterations.
        dtype: The element type.
        number: The factor, where it is one number.
        spoils: Whether an infinite value becomes NaN in all iterations.
    """
    builder, initial = joined.builder, carried.initial
    state = tensor_value("state", dtype, [None] * (joined.typing.rank(initial) or 0))
    place = tensor_value("number", ir.DataType.INT64, [])
    go = tensor_value("go", ir.DataType.BOOL, [])

    def write(inner: Builder) -> Sequence[ir.Value]:
        rows = {
            part: inner.op("Gather", [value, place], {"axis": 0}) for part, value in given.items()
        }
        if number is not None:
            rows["factor"] = inner.constant(np.array(number, dtype.numpy()))
        scaled = inner.op("Mul", [rows["factor"], state])
        if spoils or "spoilt" in rows:
            lost = inner.op("Sub", [state, state])
            if not spoils:
                zero = inner.constant(np.array(0, dtype.numpy()))
                lost = inner.op("Where", [rows["spoilt"], lost, zero])
            scaled = inner.op("Add", [scaled, lost])
        after = inner.op("Add", [scaled, rows["offset"]])
        if "anew" in rows:
            after = inner.op("Where", [rows["anew"], rows["offset"], after])
        return [inner.op("Identity", [go]), after, after]

    body = builder.subgraph("linear", [place, go, state], write)
    count = joined.trips.write(builder)
    inputs = [builder.op("Squeeze", [count]), None, initial]
    loop = builder.node("Loop", inputs, {"body": body}, outputs=2)
    loop.metadata_props[BATCHED_KEY] = builder.origin
    shape = builder.op("Concat", [count, builder.op("Shape", [initial])], {"axis": 0})
    return builder.op("Reshape", [loop.outputs[1], shape], {"allowzero": 1})


def in_front(
    joined: Joined, carried: Carried, at: int, number: int, dtype: ir.DataType
) -> ir.Value:
    """Record a term of all iterations with a number in front of it.

    Args:
        joined: Writes the graph.
        carried: The carried value.
        at: Which term.
        number: The number.
        dtype: Its element type.
    """
    builder, rank = joined.builder, joined.typing.rank(carried.initial) or 0
    first = builder.constant(np.full([1] * (rank + 1), number, dtype.numpy()))
    rows = joined.values[at]
    if joined.types[at].dims == ():
        if rank:
            rows = builder.op("Unsqueeze", [rows, builder.ints(*range(1, rank + 1))])
    else:
        rows = expanded(joined, carried, at, rank)
        sizes = [builder.ints(1), builder.op("Shape", [carried.initial])]
        first = builder.op("Expand", [first, builder.op("Concat", sizes, {"axis": 0})])
    return builder.op("Concat", [first, rows], {"axis": 0})


class _Neutral:
    """What stands in front of all rows: a row of zeros, and one of ones for the factors."""

    def __init__(
        self, builder: Builder, rows: ir.Value, factors: ir.Value, dtype: ir.DataType
    ) -> None:
        is_number = factors.shape is not None and factors.shape.rank() == 0
        self._zeros = _like_first(builder, rows, 0, dtype)
        self._ones = None if is_number else _like_first(builder, factors, 1, dtype)

    def before(self, builder: Builder, rows: ir.Value, read: ir.Value) -> ir.Value:
        """Record the rows at some places, counted from a row of zeros in front of all."""
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
