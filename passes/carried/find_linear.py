"""Finds linear recurrences: ``s = a_i * s + b_i``, however an iteration spells it.

``s + 0.1 * (x_i - s)`` is ``0.9 * s + 0.1 * x_i``.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.bounded import Span, Spans
from passes.carried.linear import TYPES, LinearRecurrence
from passes.carried.pattern import Term, added, added_constant, dependent_values
from passes.graph.made import made_by, operands, skip_identities
from passes.reading.facts import LoopFacts
from passes.reading.integer_reads import INTEGERS
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
    reader = _LinearReader(carried, facts, typing, dtype)
    found = reader.read(carried.next, _DEEPEST)
    if found is None or found.factor is None or found.offset is None:
        return None
    span = reader.spans.of(found.factor)
    number = span[0] if span[0] == span[1] and dtype not in INTEGERS else None
    keeps = max(map(abs, span)) <= 1
    if number is not None and not keeps:
        return None
    terms = [Term(found.offset)]
    if number is None:
        terms.append(Term(found.factor))
    nodes = tuple(reader.nodes)
    return LinearRecurrence(carried, tuple(terms), dtype, number, keeps, found.spoils, nodes)


def _later_values(carried: Carried, facts: LoopFacts) -> set[ir.Value]:
    """Return the values that depend on a carried one, in its iteration or in a later one."""
    body, states = facts.iteration.body, facts.iteration.states
    found: set[ir.Value] = set()
    start = {carried.inner}
    while not start <= found:
        found = dependent_values(body, *start)
        start |= {one.inner for one in states if one.next in found}
    return found


@dataclasses.dataclass(frozen=True)
class _Line:
    """A value of an iteration: a factor times the carried value, and what is added.

    Attributes:
        factor: The factor, None for 1.
        offset: What is added, None for nothing.
        spoils: Whether it is NaN where the carried value is infinite.
    """

    factor: ir.Value | None = None
    offset: ir.Value | None = None
    spoils: bool = False


class _LinearReader:
    """Reads values of an iteration as lines, and makes the nodes that say what they are."""

    def __init__(
        self, carried: Carried, facts: LoopFacts, typing: Typing, dtype: ir.DataType
    ) -> None:
        self.nodes: list[ir.Node] = []
        scanned = {inner: source.tensor for inner, source in facts.iteration.scanned}
        self.spans = Spans(typing, {**scanned, **facts.evaluator.outer})
        self._inner, self._body, self._dtype = carried.inner, facts.iteration.body, dtype
        self._dependent = dependent_values(self._body, carried.inner)
        self._later = _later_values(carried, facts)

    def read(self, value: ir.Value, depth: int) -> _Line | None:
        """Return what a value is of the carried one, None if it is anything else."""
        value = skip_identities(value)
        if value is self._inner:
            return _Line()
        node = made_by(value, "Add", "Mul", "Neg", "Sub", "Sum", body=self._body)
        if node is None or not depth or value not in self._dependent:
            return None
        given = operands(node)
        lines = [self.read(v, depth - 1) if v in self._dependent else None for v in given]
        if any(line is None and v in self._later for v, line in zip(given, lines, strict=True)):
            return None
        if node.op_type == "Neg":
            return self._negated(lines[0])
        if len(given) != 2:
            return None
        if node.op_type == "Mul":
            return self._product(given, lines)
        if node.op_type == "Sub":
            if lines[1] is None:
                given = [given[0], self._made("Neg", given[1])]
            else:
                lines = [lines[0], self._negated(lines[1])]
        return self._total(given, lines)

    def _product(self, given: list[ir.Value], lines: list[_Line | None]) -> _Line | None:
        at = 0 if lines[1] is None else 1
        line, other = lines[at], given[1 - at]
        if line is None or lines[1 - at] is not None:
            return None
        factor = other if line.factor is None else self._made("Mul", line.factor, other)
        offset = None if line.offset is None else self._made("Mul", line.offset, other)
        return _Line(factor, offset, line.spoils)

    def _total(self, given: list[ir.Value], lines: list[_Line | None]) -> _Line | None:
        one, other = lines
        if one is not None and other is not None:
            return self._of_both(one, other)
        line, term = (one, given[1]) if one is not None else (other, given[0])
        if line is None:
            return None
        offset = term if line.offset is None else self._made("Add", line.offset, term)
        return dataclasses.replace(line, offset=offset)

    def _of_both(self, one: _Line, other: _Line) -> _Line | None:
        """Return the sum of two lines; what becomes of an infinite value has to be known."""
        spans = [self._span(line) for line in (one, other)]
        is_integer = self._dtype in INTEGERS
        cancels = any(low > 0 and high <= 0 for (low, _), (_, high) in (spans, spans[::-1]))
        if not (is_integer or cancels):
            return None
        factors = [line.factor or self._number(1) for line in (one, other)]
        offsets = [line.offset for line in (one, other) if line.offset is not None]
        offset = self._made("Add", *offsets) if len(offsets) > 1 else next(iter(offsets), None)
        return _Line(self._made("Add", *factors), offset, spoils=not is_integer)

    def _span(self, line: _Line) -> Span:
        return (1.0, 1.0) if line.factor is None else self.spans.of(line.factor)

    def _negated(self, line: _Line | None) -> _Line | None:
        if line is None:
            return None
        offset = None if line.offset is None else self._made("Neg", line.offset)
        factor = self._number(-1) if line.factor is None else self._made("Neg", line.factor)
        return _Line(factor, offset, line.spoils)

    def _number(self, number: int) -> ir.Value:
        self.nodes.append(added_constant(np.array(number, self._dtype.numpy())))
        return self.nodes[-1].outputs[0]

    def _made(self, op_type: str, *inputs: ir.Value) -> ir.Value:
        self.nodes.append(added(op_type, inputs))
        return self.nodes[-1].outputs[0]
