"""Values that nodes keep between two numbers: Clip, or Min and Max, or Relu behind each other."""

from __future__ import annotations

import dataclasses
import math

import onnx_ir as ir

from passes.graph.graphs import constant_value
from passes.graph.made import made_by, operand, operands

__all__ = ["Bounded", "bounds_of_value"]


@dataclasses.dataclass(frozen=True)
class Bounded:
    """What a value is kept between.

    Attributes:
        value: The value, which has at least one axis.
        low: The least that is left of it.
        high: The greatest.
    """

    value: ir.Value
    low: float
    high: float


def bounds_of_value(node: ir.Node) -> Bounded | None:
    """Return what a node keeps between two numbers, None where it does something else.

    Of ``Min(Max(x, 0), 6)`` that is ``x``, between 0 and 6.
    """
    found = _own_bounds(node)
    if found is None or found.low > found.high:
        return None
    inner = made_by(found.value, "Clip", "Max", "Min", "Relu")
    before = None if inner is None else bounds_of_value(inner)
    if before is None:
        return found
    low, high = (min(max(n, found.low), found.high) for n in (before.low, before.high))
    return Bounded(before.value, low, high)


def _own_bounds(node: ir.Node) -> Bounded | None:
    """Return what a node itself bounds."""
    if node.op_type == "Relu":
        return Bounded(operand(node, 0), 0.0, math.inf)
    if node.op_type == "Clip":
        given = [
            limit
            if len(node.inputs) <= at or node.inputs[at] is None
            else _number(node.inputs[at])
            for at, limit in ((1, -math.inf), (2, math.inf))
        ]
        low, high = given
        if low is None or high is None:
            return None
        low = max(low, node.attributes.get_float("min", -math.inf))  # below opset 11
        return Bounded(
            operand(node, 0), low, min(high, node.attributes.get_float("max", math.inf))
        )
    values = operands(node)
    numbers = [_number(value) for value in values]
    if len(values) != 2 or (numbers[0] is None) == (numbers[1] is None):
        return None
    at = 0 if numbers[0] is None else 1
    limit = numbers[1 - at]
    assert limit is not None
    bounds = (limit, math.inf) if node.op_type == "Max" else (-math.inf, limit)
    return Bounded(values[at], *bounds)


def _number(value: ir.Value | None) -> float | None:
    """Return a number that leaves the shape of what it is compared with as it is."""
    known = constant_value(value)
    return float(known.item()) if known is not None and known.size == 1 >= known.ndim else None
