"""The number that names the one place of a carried tensor that an iteration writes to."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.places.checked_places import CheckedPlaces
from passes.carried.places.columns import find_columns
from passes.graph.made import operand, through
from passes.numbers.integers import ITERATION, Linear
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried

__all__ = ["AXES", "Key", "find_key"]

AXES = ("Unsqueeze", "Squeeze", "Reshape")
"""Operators that give one number another shape."""


@dataclasses.dataclass(frozen=True)
class Key:
    """The number that names a place.

    Attributes:
        value: A value of the body that holds it, of whatever shape.
        root: What it was before it was given that shape.
        number: The number, where it is known: an entry of a vector.
        checked: Reads the places where a row is written only if there is such a place.
    """

    value: ir.Value
    root: ir.Value
    number: Linear | None
    checked: CheckedPlaces | None = None


def find_key(scatter: ir.Node, carried: Carried, facts: LoopFacts) -> Key | None:
    """Return the number that names the one place of a ScatterND along the first axis.

    Args:
        scatter: The node.
        carried: The tensor that it writes to.
        facts: The Loop or Scan.
    """
    return _plain_key(operand(scatter, 1), facts) or _checked_key(scatter, carried, facts)


def _plain_key(indices: ir.Value, facts: LoopFacts) -> Key | None:
    """Return the number that names the one place of a ScatterND along the first axis."""
    body, evaluator = facts.iteration.body, facts.evaluator
    columns = find_columns(indices, body, evaluator) or ()
    dims, value = evaluator.dims(indices), None
    if len(columns) == 1 and columns[0].is_point and not columns[0].is_constant:
        value = columns[0].root
    elif evaluator.number(indices) is not None or (dims and all(dim == 1 for dim in dims)):
        value = indices
    if value is None:
        return None
    number = evaluator.number(value)
    if _is_counted(number):
        return None  # which tells more
    return Key(value, through(value, AXES, body), number)


def _is_counted(number: Linear | None) -> bool:
    """Whether a place is one that the number of the iteration tells, or the same in all."""
    return number is not None and bool(number.coefficient(ITERATION) or number.number is not None)


def _checked_key(scatter: ir.Node, carried: Carried, facts: LoopFacts) -> Key | None:
    """Return the number that names the one place of a ScatterND if there is such a place."""
    checked = CheckedPlaces(facts)
    value = checked.unchecked(operand(scatter, 1), carried.inner)
    if value is None or _is_counted(facts.evaluator.number(value)):
        return None
    root = checked.root(value)
    return Key(root, root, None, checked)
