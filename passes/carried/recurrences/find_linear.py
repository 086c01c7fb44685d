"""Finds linear recurrences: ``s = a_i * s + b_i``, however an iteration spells it.

``s + 0.1 * (x_i - s)`` is ``0.9 * s + 0.1 * x_i``; under a condition a value may stay as it is,
or begin anew.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.carried.pattern import Term
from passes.carried.recurrences.line_reader import LineReader
from passes.carried.recurrences.linear import TYPES, LinearRecurrence
from passes.carried.recurrences.linear_steps import Role
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, operands
from passes.numbers.integer_reads import INTEGERS
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_linear"]

_DEEPEST = 32
"""So many operators of an iteration are followed, one behind the other."""


def find_linear(carried: Carried, facts: LoopFacts, typing: Typing) -> LinearRecurrence | None:
    """Return the factor and the term of a linear recurrence, None if a value is none."""
    dtype = typing.dtype(carried.initial)
    if dtype not in TYPES:
        return None
    reader = LineReader(carried, facts, typing, dtype)
    found = reader.read(carried.next, _DEEPEST)
    if found is None or found.factor is None or found.offset is None:
        return None
    span = reader.spans.of(found.factor)
    is_number = span[0] == span[1] and dtype not in INTEGERS and _is_scalar(found.factor)
    number = span[0] if is_number else None
    keeps = max(map(abs, span)) <= 1
    inside = facts.inside - facts.evaluator.outer.keys()
    is_computed = found.factor in inside or found.factor.producer() in reader.nodes
    if (number is not None or not is_computed) and not keeps and dtype not in INTEGERS:
        return None  # it grows, in all iterations
    parts: dict[Role, ir.Value | None] = {
        "offset": found.offset,
        "factor": found.factor if number is None else None,
        "anew": found.anew,
        "spoilt": None if isinstance(found.spoils, bool) else found.spoils,
    }
    given = {part: Term(value) for part, value in parts.items() if value is not None}
    count = sum(node.op_type not in _FREE for node in facts.iteration.body)
    return LinearRecurrence(
        carried,
        tuple(given.values()),
        tuple(given),
        dtype,
        number,
        keeps=keeps,
        spoils=found.spoils is True,
        is_small=count <= _SMALL,
        nodes=tuple(reader.nodes),
        speculated=tuple(reader.speculated),
    )


def _is_scalar(value: ir.Value) -> bool:
    """Whether a value is made of constants without axes alone."""
    pending = [value]
    for one in pending:
        array, node = constant_value(one), made_by(one, *_OF_NUMBERS)
        if array is None and node is not None:
            pending += operands(node)[: 1 if node.op_type == "CastLike" else None]
        elif array is None or array.ndim:
            return False
    return True


_OF_NUMBERS = ("Add", "Cast", "CastLike", "Mul", "Neg", "Sub", "Sum")

_FREE = ("Constant", "Identity")
_SMALL = 16
"""A body of so few nodes is no slower for few iterations than what takes its place."""
