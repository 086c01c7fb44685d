"""The first iteration in which a condition holds: ``if s < 0 and flag_i: s = i``.

A mark that no iteration number equals, such as -1 or the number of iterations, says that none was
found so far. For the flags ``[0, 1, 1]`` it becomes 1.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.carried.choices.best import Chosen
from passes.carried.choices.hits import Hits
from passes.carried.common.masks import flag_of
from passes.carried.common.selections import BranchReader, Selection, find_selection, hoist
from passes.carried.pattern import FLOATS, Term, added
from passes.graph.made import (
    made_by,
    only_number,
    operand,
    operands,
    skip_identities,
    through,
)
from passes.graph.scopes import Scope
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.written_numbers import is_writable
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_first"]


def find_first(carried: Carried, facts: LoopFacts, typing: Typing) -> Chosen | None:
    """Return how a carried number takes that of the first iteration that a condition names."""
    dtype = typing.dtype(carried.initial)
    if typing.dims(carried.initial) != () or dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        return None
    reader = _FirstReader(carried.inner, facts.iteration.body, typing)
    number_of = reader.chosen(carried)
    if number_of is None:
        return None
    dependent = reader.dependent
    number = facts.evaluator.number(number_of)
    own = [part for part in reader.parts if part in dependent]
    asked = [part for part in reader.parts if part not in dependent]
    if number_of in dependent or number is None or len(own) != 1 or not asked:
        return None
    (chosen, *flags), nodes, pairs = hoist([number_of, *asked], reader.branches)
    mark = _mark(own[0], carried.inner, reader.scope, facts.evaluator)
    if mark is None or number.coefficient(ITERATION) < 0:
        return None
    op_type, limit = mark
    is_before = op_type == "Equal" and _is_before(number, limit, facts)
    if not is_before and not _is_behind(number, op_type, limit):
        return None
    flag = flags[0]
    for other in flags[1:]:
        nodes.append(added("And", [flag, other]))
        flag = nodes[-1].outputs[0]
    flag, beside = flag_of(flag)
    hits = Hits(None, Term(flag), None, True, ir.DataType.BOOL, True, (carried, op_type, limit))
    terms = (Term(flag), Term(chosen))
    name = "first iteration where a condition holds"
    return Chosen(carried, terms, hits, name, nodes=(*nodes, *beside), speculated=tuple(pairs))


class _FirstReader(BranchReader):
    """Reads which booleans have to be true for a carried value to be replaced, all of them.

    Attributes:
        parts: These booleans.
    """

    def __init__(self, inner: ir.Value, body: ir.Graph, typing: Typing) -> None:
        super().__init__(inner, body)
        self.parts: list[ir.Value] = []
        self._typing = typing

    def chosen(self, carried: Carried) -> ir.Value | None:
        """Return what takes the place of a carried value; None if nothing else may be."""
        value = skip_identities(carried.next)
        while (selection := find_selection(value, self.scope)) is not None:
            if selection.other is not carried.inner:
                return None
            self.enter(selection)
            self._read(selection.condition)
            value = selection.chosen
        return value if self.parts else None

    def _read(self, value: ir.Value) -> None:
        """Enter what a chain of And needs; scripts write ``a and b`` as ``b if a else False``."""
        value = self._boolean(value)
        node = made_by(value, "And", "If", body=self.scope)
        selection = find_selection(value, self.scope) if _is_if(node) else None
        if selection is not None and self._is_false(selection):
            self.enter(selection)
            self._read(selection.condition)
            self._read(selection.chosen)
        elif node is None or node.op_type == "If":
            self.parts.append(value)
        else:
            for part in operands(node):
                self._read(part)

    def _is_false(self, selection: Selection) -> bool:
        """Whether a choice is false where its condition is; TensorFlow yields the condition."""
        if only_number(selection.other) is False:
            return True
        return self._boolean(selection.other) is self._boolean(selection.condition)

    def _boolean(self, value: ir.Value) -> ir.Value:
        """Return the boolean that one of one element was cast or reshaped from, or itself."""
        found = value = skip_identities(value)
        while (node := made_by(value, *_KEEPING, body=self.scope)) is not None:
            value = skip_identities(operand(node, 0))
            if self._typing.dtype(value) == ir.DataType.BOOL:
                found = value
        return found


def _is_if(node: ir.Node | None) -> bool:
    return node is not None and node.op_type == "If"


_KEEPING = ("Cast", "Squeeze", "Reshape", "Unsqueeze")
"""Operators behind which a boolean is still what it was; numbers between two may have a part."""


def _is_behind(number: Linear, op_type: str, limit: Linear) -> bool:
    """Whether what iterations take is past a mark: not less than it, or not equal to it."""
    lowest = number.replace({ITERATION: Linear(0)})
    return is_nonnegative(lowest - limit - int(op_type == "Equal"))


def _is_before(number: Linear, limit: Linear, facts: LoopFacts) -> bool:
    """Whether what the last iteration takes is less than a mark, as that of all others is then."""
    trips = facts.iteration.trips
    count = None if trips is None else facts.evaluator.number(trips)
    return count is not None and is_nonnegative(limit - number.replace({ITERATION: count - 1}) - 1)


def _mark(
    value: ir.Value, inner: ir.Value, body: Scope, evaluator: Evaluator
) -> tuple[str, Linear] | None:
    """Return what a carried number is compared with, and how, to tell that none was found."""
    node = made_by(value, "Equal", "Less", "Greater", body=body)
    if node is None:
        return None
    one, other = (_uncast(v, body) for v in operands(node))
    op_type = node.op_type
    if other is inner:
        one, other = other, one
        op_type = {"Less": "Greater", "Greater": "Less"}.get(op_type, op_type)
    number = only_number(through(other, ("CastLike",)))  # a whole one stays what it is
    if one is not inner or op_type == "Greater":
        return None
    if number is None:
        is_plain = other in map(skip_identities, operands(node))
        counted = evaluator.number(other) if is_plain else None
        return None if counted is None or not is_writable(counted) else (op_type, counted)
    is_near = number == int(number) and abs(number) <= _NEAR
    return (op_type, Linear(int(number))) if is_near else None


_NEAR = 1 << 11
"""Up to here a whole number is the same as a float of any kind: larger ones stay larger."""


def _uncast(value: ir.Value, body: Scope) -> ir.Value:
    """Return what was cast to floats, as tf2onnx does to compare it, or the value."""
    node = made_by(value, "Cast", body=body)
    if node is None or node.attributes.get_int("to", 0) not in FLOATS:
        return skip_identities(value)
    return skip_identities(operand(node, 0))
