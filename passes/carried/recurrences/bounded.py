"""Between which numbers the elements of a float tensor lie, whatever the model is fed.

``0.99 * (1 - Sigmoid(x))`` lies between 0 and 0.99. An element may be NaN all the same, and may
lie beyond a bound by what one operator rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_default_domain
from passes.graph.made import operands
from passes.typing.value_types import Typing

__all__ = ["Limits", "NumberSpans"]

Limits = tuple[float, float]
"""The least and the greatest number; of what is not known these are infinite."""

_ANY: Limits = (-math.inf, math.inf)
_LARGEST = 65504.0
"""The largest number of the narrowest float type; beyond it a result may overflow."""

_DEEPEST = 64
"""So many operators are followed, one behind the other."""

_FIXED: Mapping[str, Limits] = {
    **dict.fromkeys(("Sigmoid", "Softmax", "HardSigmoid"), (0.0, 1.0)),
    **dict.fromkeys(("Tanh", "Erf", "Sin", "Cos", "Softsign"), (-1.0, 1.0)),
    "Softplus": (0.0, math.inf),
}
"""Operators whose results lie between two numbers, whatever they read."""

_MOVES = frozenset(
    {
        *("Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape"),
        *("Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    }
)
"""Operators that yield some elements of their first operand, and no others."""


class NumberSpans:
    """Finds between which numbers values lie.

    Attributes:
        typing: The proven typing.
        outer: For values of a body those around it that they are, or are parts of.
    """

    def __init__(self, typing: Typing, outer: Mapping[ir.Value, ir.Value]) -> None:
        self.typing, self.outer = typing, outer
        self._known: dict[ir.Value, Limits] = {}

    def of(self, value: ir.Value, depth: int = 0) -> Limits:
        """Return between which numbers the elements of a value lie."""
        value = self.outer.get(value, value)
        if value not in self._known:
            self._known[value] = _ANY if depth > _DEEPEST else self._found(value, depth)
        return self._known[value]

    def _found(self, value: ir.Value, depth: int) -> Limits:
        array, node = constant_value(value), value.producer()
        if array is not None:
            is_known = array.size and array.dtype.kind in "fiu" and not np.isnan(array).any()
            return (float(array.min()), float(array.max())) if is_known else _ANY
        if node is None or not is_default_domain(node):
            return _ANY
        if node.op_type in ("Cast", "CastLike"):
            return self._cast(node, depth)
        if node.op_type in _FIXED:
            return _FIXED[node.op_type]
        given = operands(node)
        if node.op_type in _MOVES:
            return self.of(given[0], depth + 1)
        if node.op_type == "Mul" and given[0] is given[1]:
            low, high = _absolute(self.of(given[0], depth + 1))
            return _times((low, high), (low, high))
        rule = _RULES.get(node.op_type)
        if rule is None:
            return _ANY
        spans = [_ANY if one is None else self.of(one, depth + 1) for one in node.inputs]
        low, high = rule(spans)
        if math.isnan(low) or math.isnan(high):
            return _ANY
        return (low if low >= -_LARGEST else -math.inf, high if high <= _LARGEST else math.inf)

    def _cast(self, node: ir.Node, depth: int) -> Limits:
        """Return the bounds of a number that is cast to a float: of a truth value 0 and 1.

        What is computed of integers may wrap around: only constants among them are known.
        """
        given, *like = operands(node)
        dtype = self.typing.dtype(given)
        to = self.typing.dtype(like[0]) if like else ir.DataType(node.attributes.get_int("to", 0))
        if dtype is None or to is None or not to.is_floating_point():
            return _ANY
        if dtype == ir.DataType.BOOL:
            return (0.0, 1.0)
        is_known = dtype.is_floating_point() or constant_value(given) is not None
        return self.of(given, depth + 1) if is_known else _ANY


def _absolute(span: Limits) -> Limits:
    low, high = span
    return (max(low, -high, 0.0), max(-low, high))


def _times(one: Limits, other: Limits) -> Limits:
    """Return the bounds of a product; 0 times what has no bound is 0, as it is of numbers."""
    products = [a * b if a and b else 0.0 for a in one for b in other]
    return (min(products), max(products))


def _exponential(number: float) -> float:
    return math.exp(number) if number < 700 else math.inf


def _clip(spans: Sequence[Limits]) -> Limits:
    """Return the bounds behind a Clip; a bound that is left out is as one that is not known."""
    (low, high), *limits = spans
    for (least, most), extreme in zip(limits, (max, min), strict=False):
        low, high = extreme(low, least), extreme(high, most)
    return (low, high)


def _each(join: Callable[[Sequence[float]], float], spans: Sequence[Limits]) -> Limits:
    return (join([low for low, _ in spans]), join([high for _, high in spans]))


def _over(spans: Sequence[Limits]) -> Limits:
    """Return the bounds of a quotient whose divisor has one sign."""
    whole, (low, high) = spans
    return _times(whole, (1 / high, 1 / low)) if low > 0 or high < 0 else _ANY


def _hull(spans: Sequence[Limits]) -> Limits:
    return (min(low for low, _ in spans), max(high for _, high in spans))


def _turned(span: Limits) -> Limits:
    return (-span[1], -span[0])


_RULES: Mapping[str, Callable[[Sequence[Limits]], Limits]] = {
    "Abs": lambda spans: _absolute(spans[0]),
    "Add": lambda spans: _each(sum, spans),
    "Clip": _clip,
    "Concat": _hull,
    "Div": _over,
    "Exp": lambda spans: (_exponential(spans[0][0]), _exponential(spans[0][1])),
    "Max": lambda spans: _each(max, spans),
    "Min": lambda spans: _each(min, spans),
    "Mul": lambda spans: _times(*spans),
    "Neg": lambda spans: _turned(spans[0]),
    "Relu": lambda spans: (max(spans[0][0], 0.0), max(spans[0][1], 0.0)),
    "Sub": lambda spans: _each(sum, [spans[0], _turned(spans[1])]),
    "Sum": lambda spans: _each(sum, spans),
    "Where": lambda spans: _hull(spans[1:]),
}
"""How bounds follow from those of the operands."""
