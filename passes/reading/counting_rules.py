"""Vectors of constants that are added up, or written by place, as packing does with lengths."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.reading.integer_reads import INTEGERS, NumberReader, Numbers, Rule
from passes.reading.integers import Linear

__all__ = ["COUNTING_RULES"]

_MOST = 64
"""Longer vectors are not followed."""


def _running(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Add a vector of constants up, from number to number."""
    numbers, axis = _constants(evaluator, node.inputs[0]), _constants(evaluator, node.inputs[1])
    if numbers is None or axis is None or axis not in ([0], [-1]):
        return None
    if node.attributes.get_int("reverse", 0) or not numbers:
        return None
    sums = list(itertools.accumulate(numbers, initial=0))
    return _linear(sums[:-1] if node.attributes.get_int("exclusive", 0) else sums[1:])


def _scattered(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Add constants to a vector of constants at known places, or write them there."""
    given = [_constants(evaluator, value) for value in node.inputs]
    data, places, updates = given
    reduction = node.attributes.get_string("reduction", "none")
    if data is None or places is None or updates is None or len(places) != len(updates):
        return None
    is_known = reduction == "add" or (reduction == "none" and len(set(places)) == len(places))
    if not is_known or not all(0 <= place < len(data) for place in places):
        return None
    made = list(data)
    for place, update in zip(places, updates, strict=True):
        made[place] = update + (made[place] if reduction == "add" else 0)
    return _linear(made)


def _constants(evaluator: NumberReader, value: ir.Value | None) -> list[int] | None:
    """Return the integers of a short vector, or of a scalar; None if one is not known."""
    if value is None or evaluator.dtype(value) not in INTEGERS:
        return None
    numbers, rank = evaluator.of(value), evaluator.rank(value)
    if numbers is None or rank not in (0, 1) or len(numbers) > _MOST:
        return None
    found = [one.number for one in numbers if one.number is not None]
    return found if len(found) == len(numbers) else None


def _linear(numbers: Sequence[int]) -> Numbers:
    return tuple(Linear(number) for number in numbers)


COUNTING_RULES: Mapping[str, Rule] = {"CumSum": _running, "ScatterElements": _scattered}
