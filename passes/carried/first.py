"""The first iteration in which a condition holds: ``if s < 0 and flag_i: s = i``.

A mark that no iteration number equals, such as -1, says that none was found so far. For the
flags ``[0, 1, 1]`` it becomes 1.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.carried.best import Chosen
from passes.carried.hits import Hits
from passes.carried.masks import flag_of
from passes.carried.pattern import Term, added, dependent_values
from passes.carried.selections import find_selection, hoist
from passes.graph.made import made_by, only_number, operand, operands, skip_identities
from passes.reading.facts import LoopFacts
from passes.reading.integers import TRIP, Linear
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_first"]


def find_first(carried: Carried, facts: LoopFacts, typing: Typing) -> Chosen | None:
    """Return how a carried number takes that of the first iteration that a condition names."""
    body = facts.iteration.body
    selection = find_selection(carried.next, body)
    if selection is None or selection.other is not carried.inner:
        return None
    dtype = typing.dtype(carried.initial)
    if typing.dims(carried.initial) != () or dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        return None
    dependent = dependent_values(body, carried.inner)
    (chosen,), nodes, pairs = hoist([selection.chosen], selection.branches)
    number = facts.evaluator.number(selection.chosen)
    parts = _conjuncts(selection.condition, body, typing)
    own = [part for part in parts if part in dependent]
    flags = [part for part in parts if part not in dependent]
    if chosen in dependent or number is None or len(own) != 1 or not flags:
        return None
    mark = _mark(own[0], carried.inner, body)
    if mark is None or number.coefficient(TRIP) < 0:
        return None
    op_type, least = mark
    lowest = number.replace({TRIP: Linear(0)}).number
    if lowest is None or lowest < least + (op_type == "Equal"):
        return None
    flag = flags[0]
    for other in flags[1:]:
        nodes.append(added("And", [flag, other]))
        flag = nodes[-1].outputs[0]
    flag, beside = flag_of(flag)
    hits = Hits(None, Term(flag), None, True, ir.DataType.BOOL, True, (carried, op_type, least))
    terms = (Term(flag), Term(chosen))
    name = "first iteration where a condition holds"
    return Chosen(carried, terms, hits, name, (*nodes, *beside), tuple(pairs))


def _conjuncts(value: ir.Value, body: ir.Graph, typing: Typing) -> list[ir.Value]:
    """Return the booleans that a chain of And needs, all of them."""
    value = _boolean(value, body, typing)
    node = made_by(value, "And", body=body)
    if node is None:
        return [value]
    return [part for v in operands(node) for part in _conjuncts(v, body, typing)]


def _boolean(value: ir.Value, body: ir.Graph, typing: Typing) -> ir.Value:
    """Return the boolean that a boolean of one element was cast or reshaped from, or itself."""
    found = value = skip_identities(value)
    while (node := made_by(value, *_KEEPING, body=body)) is not None:
        value = skip_identities(operand(node, 0))
        if typing.dtype(value) == ir.DataType.BOOL:
            found = value
    return found


_KEEPING = ("Cast", "Squeeze", "Reshape", "Unsqueeze")
"""Operators behind which a boolean is still what it was; numbers between two may have a part."""


def _mark(value: ir.Value, inner: ir.Value, body: ir.Graph) -> tuple[str, int] | None:
    """Return what a carried number is compared with, and how, to tell that none was found."""
    node = made_by(value, "Equal", "Less", "Greater", body=body)
    if node is None:
        return None
    one, other = map(skip_identities, operands(node))
    op_type = node.op_type
    if other is inner:
        one, other = other, one
        op_type = {"Less": "Greater", "Greater": "Less"}.get(op_type, op_type)
    number = only_number(other)
    if one is not inner or op_type == "Greater" or number is None:
        return None
    return op_type, int(number)
