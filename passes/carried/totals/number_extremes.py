"""Extremes of what is a number: a NaN leaves the others as they are, as in ``jnp.fmin``.

Whatever nodes an iteration writes it with, there are five cases of the old and the new value: one
of them is NaN, or the new one is smaller, equal or larger. In each one of both is taken.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from passes.carried.common.widths import EXTREMES, check_width
from passes.carried.joined import Joined
from passes.carried.pattern import FLOATS, Pattern, Term, dependent_values
from passes.carried.totals.totals import behind_initial, reduce_rows
from passes.graph.graphs import is_operator
from passes.graph.made import made_by, operands, skip_identities
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["NumberExtreme", "find_number_extreme"]

_OLD, _NEW = "old", "new"
_CASES = (
    {_OLD: 0.0, _NEW: np.nan},
    {_OLD: np.nan, _NEW: 0.0},
    {_OLD: 0.0, _NEW: 1.0},
    {_OLD: 1.0, _NEW: 0.0},
    {_OLD: 1.0, _NEW: 1.0},
)
"""What the values may be like, as an example of each."""

_RESULTS = {"Min": (0.0, 0.0, 0.0, 0.0, 1.0), "Max": (0.0, 0.0, 1.0, 1.0, 1.0)}
"""What an iteration makes of each of them."""


@dataclasses.dataclass(frozen=True)
class NumberExtreme(Pattern):
    """The largest or least of all values that are numbers, NaN where there is none.

    Attributes:
        terms: The new value.
        family: Which of both: ``Max`` or ``Min``.
        dtype: The element type.
    """

    family: str
    dtype: ir.DataType
    name = "carried extreme of numbers"

    def write(self, joined: Joined) -> ir.Value:
        """Record the extreme of the initial value and of all others, without what is NaN."""
        check_width(joined, self.carried, EXTREMES)
        joined.needs_same_shape(self.carried)
        builder, initial = joined.builder, self.carried.initial
        rows = behind_initial(joined, initial, joined.values[0])
        worst = np.array(np.inf if self.family == "Min" else -np.inf, self.dtype.numpy())
        is_none = builder.op("IsNaN", [rows])
        numbers = builder.op("Where", [is_none, builder.constant(worst), rows])
        found = reduce_rows(joined, numbers, self.family, self.dtype, has_rows=True)
        flags = builder.op("Cast", [is_none], {"to": int(ir.DataType.FLOAT)})
        none = reduce_rows(joined, flags, "Min", ir.DataType.FLOAT, has_rows=True)
        is_lost = builder.op("Cast", [none], {"to": int(ir.DataType.BOOL)})
        nan = builder.constant(np.array(np.nan, self.dtype.numpy()))
        return builder.op("Where", [is_lost, nan, found])


def find_number_extreme(
    carried: Carried, iteration: Iteration, typing: Typing
) -> NumberExtreme | None:
    """Return which extreme of all that is a number a carried value is, None if it is none."""
    dtype, body = typing.dtype(carried.initial), iteration.body
    if dtype not in FLOATS or made_by(carried.next, "Where", body=body) is None:
        return None
    dependent = dependent_values(body, carried.inner)
    others = _others(skip_identities(carried.next), dependent)
    if others is None or len(others) != 1:
        return None
    (new,) = others
    results = tuple(
        _value(carried.next, {carried.inner: case[_OLD], new: case[_NEW]}) for case in _CASES
    )
    for family, expected in _RESULTS.items():
        if results == expected:
            return NumberExtreme(carried, (Term(new),), family, dtype)
    return None


def _others(value: ir.Value, dependent: set[ir.Value]) -> set[ir.Value] | None:
    """Return what a value is made of beside a carried one; None if not by a choice of both."""
    found: set[ir.Value] = set()
    pending = [value]
    seen: set[ir.Value] = set()
    while pending:
        one = skip_identities(pending.pop())
        if one in seen:
            continue
        seen.add(one)
        node = one.producer()
        if is_operator(node, _KNOWN) and (one in dependent or is_operator(node, _ASKED)):
            assert node is not None
            pending += operands(node)
        elif one not in dependent or node is None:
            found.add(one)
        else:
            return None
    return {v for v in found if v not in dependent}


_ASKED = ("IsNaN", "Not", "And", "Or", "Equal")
"""What may be asked of the new value alone."""
_BINARY = {
    "And": np.logical_and,
    "Or": np.logical_or,
    "Equal": np.equal,
    "Min": np.minimum,
    "Max": np.maximum,
    "Less": np.less,
    "Greater": np.greater,
    "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
}
_KNOWN = ("IsNaN", "Not", "Where", *_BINARY)


def _value(value: ir.Value, known: Mapping[ir.Value, float]) -> float | None:
    """Return what a value is in a case; None if that is not known, or NaN."""
    value = skip_identities(value)
    if value in known:
        return known[value]
    node = value.producer()
    if node is None or not is_operator(node, _KNOWN):
        return None
    given = [_value(v, known) for v in operands(node)]
    if None in given:
        return None
    return _computed(node.op_type, [np.float64(v) for v in given if v is not None])


def _computed(op_type: str, given: list[np.float64]) -> float:
    """Return what an operator makes of numbers; true is 1."""
    with np.errstate(invalid="ignore"):
        match op_type, given:
            case "Where", (flag, one, other):
                return float(one if flag else other)
            case "IsNaN", (one,):
                return float(np.isnan(one))
            case "Not", (one,):
                return float(not one)
        joined = functools.reduce(_BINARY[op_type], given)
        return float(joined)
