"""Places that a carried count names, where it grows whenever one is written.

``if c_i: buf[n] = r_i; n += 1`` writes to place 0, then to place 1, and so on: never twice to one.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.graphs import subgraphs, with_subgraphs
from passes.graph.made import made_by, operands, skip_identities
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried

__all__ = ["names_new_places"]


def names_new_places(place: ir.Value, write: ir.Node, facts: LoopFacts) -> bool:
    """Whether a number is never negative, and larger whenever a node runs once more.

    Args:
        place: A number of an iteration.
        write: A node of the body, or of a branch in it.
        facts: The Loop or Scan.
    """
    carried, offset = _count(place, facts)
    if carried is None:
        return False
    first = facts.evaluator.number(carried.initial)
    if first is None or not is_nonnegative(first + Linear(offset)):
        return False
    growth = _Counts(carried.inner, write, facts).growth(carried.next)
    return growth is not None and growth.least >= 0 and growth.least_written >= 1


def _count(place: ir.Value, facts: LoopFacts) -> tuple[Carried | None, int]:
    """Return the carried value that a number is, and what is added to it."""
    value, offset = skip_identities(place), 0
    states = {one.inner: one for one in facts.iteration.states}
    while value not in states:
        found = _added(value, facts)
        if found is None:
            return None, 0
        value, offset = found[0], offset + found[1]
    return states[value], offset


def _added(value: ir.Value, facts: LoopFacts) -> tuple[ir.Value, int] | None:
    """Return a number to which a constant is added, and that constant."""
    node = made_by(value, "Add", "Sub", body=facts.scope)
    if node is None:
        return None
    one, other = map(skip_identities, operands(node))
    first, second = (facts.evaluator.integer(v) for v in (one, other))
    if second is not None:
        return one, second if node.op_type == "Add" else -second
    return None if first is None or node.op_type == "Sub" else (other, first)


@dataclasses.dataclass(frozen=True)
class _Growth:
    """By how much a count grows at least, and by how much where a place is written."""

    least: int
    least_written: int


class _Counts:
    def __init__(self, inner: ir.Value, write: ir.Node, facts: LoopFacts) -> None:
        self._inner, self._write, self._facts = inner, write, facts

    def growth(self, value: ir.Value) -> _Growth | None:
        """Return by how much a value is larger than the count."""
        value = skip_identities(value)
        if value is self._inner:
            return _Growth(0, 0)
        branches, node = made_by(value, "If"), value.producer()
        if branches is not None:
            return self._of_branches(branches, list(branches.outputs).index(value))
        inside = self._facts if node is None else _looked_into(self._facts, node)
        found = _added(value, inside)
        before = None if found is None else self.growth(found[0])
        if found is None or before is None:
            return None
        return _Growth(before.least + found[1], before.least_written + found[1])

    def _of_branches(self, node: ir.Node, at: int) -> _Growth | None:
        graphs = [graph for _, graph in subgraphs(node)]
        made = [self.growth(graph.outputs[at]) for graph in graphs]
        known = [one for one in made if one is not None]
        if len(known) < len(made):
            return None
        writes = [one for one, g in zip(known, graphs, strict=True) if self._holds_write(g)]
        return _Growth(
            min(one.least for one in known),
            min(one.least_written for one in writes or known),
        )

    def _holds_write(self, graph: ir.Graph) -> bool:
        return any(self._write.graph is inner for inner in with_subgraphs(graph))


def _looked_into(facts: LoopFacts, node: ir.Node) -> LoopFacts:
    """Return the same facts, which look into the branch of a node."""
    graph = node.graph
    if not isinstance(graph, ir.Graph) or any(graph is g for g in facts.scope.graphs):
        return facts
    return dataclasses.replace(facts, branches=(*facts.branches, graph))
