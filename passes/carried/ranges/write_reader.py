"""Reads what a chain of ScatterNDs writes to ranges of a carried tensor in one iteration."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import Term, dependent_values
from passes.carried.places.columns import Column, find_columns, find_listed_columns
from passes.carried.places.range_reads import Range, find_ranges
from passes.carried.ranges.range_marks import Marked
from passes.carried.ranges.range_writes import One
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, operand, operands, skip_identities, through
from passes.numbers.integers import ITERATION
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["WriteReader"]

_Write = TypeVar("_Write", bound=One)


class WriteReader(abc.ABC, Generic[_Write]):
    """Reads the writes of an iteration.

    Attributes:
        carried: The tensor that is written to.
        facts: The Loop or Scan.
        typing: The proven typing.
        rank: The rank of the tensor.
        dtype: Its element type.
        writes: The writes, in order.
        columns: The places of each.
        nodes: What computes the terms beside the body.
        is_sized: Whether a term is more than a number.
        moves: Whether a range moves on with each iteration.
        dependent: What depends on what was written.
    """

    def __init__(self, carried: Carried, facts: LoopFacts, typing: Typing) -> None:
        """Read nothing yet."""
        self.carried, self.facts, self.typing = carried, facts, typing
        self.rank = facts.evaluator.rank(carried.initial) or 0
        self.dtype = typing.dtype(carried.initial) or ir.DataType.UNDEFINED
        self.writes: list[_Write] = []
        self.columns: list[Sequence[Column]] = []
        self.nodes: list[ir.Node] = []
        self.is_sized = False
        self.moves = False
        self.dependent = dependent_values(facts.scope, carried.inner)
        self._terms: dict[Term, int] = {}
        self._tensors = {carried.inner}

    @property
    def terms(self) -> tuple[Term, ...]:
        """What is needed of all iterations."""
        return tuple(self._terms)

    @abc.abstractmethod
    def write_of(
        self, node: ir.Node, columns: Sequence[Column], ranges: Sequence[Range]
    ) -> _Write | None:
        """Return what one node writes to one range along each axis, None for anything else."""

    def read_all(self) -> bool:
        """Read the writes of an iteration; return whether that is all that changes the tensor."""
        if not self.rank or self.dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
            return False
        chain: list[ir.Node] = []
        value = skip_identities(self.carried.next)
        while value is not self.carried.inner:
            node = made_by(value, "ScatterND", body=self.facts.scope)
            if node is None or node.attributes.get_string("reduction", "none") != "none":
                return False
            chain.insert(0, node)
            value = skip_identities(operand(node, 0))
        self._tensors |= {node.outputs[0] for node in chain}
        return bool(chain) and all(map(self._read, chain))

    def _read(self, node: ir.Node) -> bool:
        """Read one write; return whether it is one."""
        evaluator = self.facts.evaluator
        given = operand(node, 1), self.facts.scope, evaluator
        columns = find_columns(*given) or find_listed_columns(*given)
        if columns is None or len(columns) > self.rank:
            return False
        initial = self.carried.initial
        found = find_ranges(columns, self._tensors, initial, self.facts.scope, evaluator)
        if found is None:
            return False
        ranges, nodes = found
        bounds = [b for r in ranges for b in (r.start, r.end) if b is not None]
        if not self.is_free(*bounds, *nodes):
            return False
        made = self.write_of(node, columns, ranges)
        if made is None:
            return False
        numbers = (evaluator.number(b) for b in bounds)
        self.moves |= any(n is not None and bool(n.coefficient(ITERATION)) for n in numbers)
        self.nodes += nodes
        self.writes.append(made)
        self.columns.append(columns)
        return True

    def is_free(self, *read: ir.Value | ir.Node) -> bool:
        """Whether nothing of what is read, or what nodes read, depends on what was written."""
        values = {v for v in read if isinstance(v, ir.Value)}
        nodes = (n for n in read if isinstance(n, ir.Node) and n.op_type != "Shape")
        values.update(v for n in nodes for v in operands(n))
        return self.dependent.isdisjoint(values)

    def one_row(self, node: ir.Node, columns: Sequence[Column]) -> ir.Value | None:
        """Return the one number, or the one row of all named places, that is written."""
        body, rest = self.facts.scope, self.rank - len(columns)
        value = through(operand(node, 2), ["Reshape"], body)
        is_point = all(c.is_point for c in columns)
        if is_point and self.facts.evaluator.rank(value) == 0 == rest:
            return value
        given: ir.Value | None = None
        while (made := made_by(value, "Expand", body=body)) is not None:
            value = skip_identities(operand(made, 0))
            rank = self.facts.evaluator.rank(value)
            given = value if rank is not None and rank <= rest else given
        return given

    def one_for_all(self, given: ir.Value, ranges: Sequence[Range]) -> One | None:
        """Return the write of one number, or row, None if it depends on what was written."""
        if not self.is_free(given):
            return None
        number = self._fixed(given)
        self.is_sized |= number is None and self.facts.evaluator.rank(given) != 0
        return One(self.marked(ranges), number, None if number is not None else self.term(given))

    def term(
        self, value: ir.Value, *, kind: Literal["stacked", "concatenated"] = "stacked"
    ) -> int:
        """Return the number of a term."""
        return self._terms.setdefault(Term(value, kind), len(self._terms))

    def marked(self, ranges: Sequence[Range]) -> tuple[Marked, ...]:
        """Return which terms bound the range along each axis."""
        return tuple(Marked(self.bound(r.start), self.bound(r.end)) for r in ranges)

    def bound(self, value: ir.Value | None) -> int | None:
        """Return the number of the term of a bound, None if there is none."""
        return None if value is None else self.term(value)

    def _fixed(self, value: ir.Value) -> np.ndarray | ir.Value | None:
        """Return what a value is in all iterations, None if that is not known."""
        array = constant_value(value)
        if array is not None:
            return array.reshape(()) if array.size == 1 else None
        is_number = self.facts.evaluator.rank(value) == 0
        return value if is_number and value not in self.facts.inside else None
