"""What of the body of a Loop or Scan leaves it, and what of it that depends on."""

from __future__ import annotations

import onnx_ir as ir

from passes.graphs import captured_values, is_default_domain, subgraphs
from passes.reading.even import Bounds, entry_of
from passes.reading.facts import Kind, LoopFacts, skip_identities, why_carried
from passes.reading.sources import Element, Reads, Window, find_read
from passes.sequence_map import results_of
from passes.site import Result
from passes.typing.value_types import Typing

__all__ = ["Needs", "is_used"]


class Needs:
    """Follows what leaves a body back to what an iteration is given.

    Attributes:
        facts: The Loop or Scan.
        reads: What reading by the iteration number depends on.
        is_even: Take slices by entries of a vector as equally long, and so not as empty.
        unequal: The bounds of slices that are taken as not empty.
    """

    def __init__(self, facts: LoopFacts, reads: Reads, declared: Typing, *, is_even: bool) -> None:
        self.facts, self.reads, self.is_even = facts, reads, is_even
        self.unequal: set[Bounds] = set()
        self._declared = declared
        self._found: dict[ir.Node, Element | Window | None] = {}
        self._states = {state.carried.inner: state for state in facts.states}

    @property
    def found(self) -> list[Element | Window]:
        """All reads by the iteration number that were met."""
        return [read for read in self._found.values() if read is not None]

    def wanted(self, graph: ir.Graph) -> tuple[list[ir.Value], list[Result]]:
        """Return the values of the body that leave the map, and how."""
        outputs: dict[ir.Value, int] = {}
        results: list[Result] = []
        for one in self.facts.iteration.collected:
            if is_used(one.result):
                at = outputs.setdefault(one.inner, len(outputs))
                results.append(Result(at, "stacked", one.result, one.axis, one.is_reversed))
        for state in self.facts.states:
            if not is_used(state.carried.result):
                continue
            if state.kind is Kind.OTHER:
                raise why_carried(state, None, self._declared)
            if state.element is not None:
                at = outputs.setdefault(state.element, len(outputs))
                results.extend(results_of(at, state.carried.result, graph))
        return list(outputs), results

    def needed(self, outputs: list[ir.Value]) -> set[ir.Value | ir.Node]:
        """Return the nodes of the body that the outputs depend on, and the inputs.

        Raises:
            NotAMapError: They depend on what an earlier iteration computed.
        """
        needed: set[ir.Value | ir.Node] = set()
        pending: list[tuple[ir.Value, ir.Node | None]] = [(v, None) for v in outputs]
        while pending:
            value, reader = pending.pop()
            if value in needed:
                continue
            needed.add(value)
            state = self._states.get(value)
            if state is not None and state.kind in (Kind.OTHER, Kind.APPENDED):
                raise why_carried(state, reader, self._declared)
            node = value.producer()
            if node is None or value not in self.facts.inside:
                continue
            needed.add(node)
            pending.extend((v, node) for v in self._dependencies(node))
        return needed

    def _dependencies(self, node: ir.Node) -> list[ir.Value]:
        if self.read(node) is not None:
            return []
        branch = self.branch(node)
        if branch is not None:
            return list(branch.outputs)
        captured = [v for _, g in subgraphs(node) for v in captured_values(g)]
        return [v for v in (*node.inputs, *captured) if v is not None]

    def read(self, node: ir.Node) -> Element | Window | None:
        """Return what a node reads by the iteration number, None if it is no such node."""
        if node not in self._found:
            self._found[node] = find_read(node, self.reads)
        return self._found[node]

    def branch(self, node: ir.Node) -> ir.Graph | None:
        """Return the branch that an If takes in every iteration, if that is known."""
        if node.op_type != "If" or not is_default_domain(node):
            return None
        if self.is_even and self._asks_for_rows(node.inputs[0]):
            return node.attributes["else_branch"].as_graph()
        condition = self.facts.evaluator.number(node.inputs[0])
        if condition is None or condition.number is None:
            return None
        name = "then_branch" if condition.number else "else_branch"
        return node.attributes[name].as_graph()

    def bounds(self, one: ir.Value | None, other: ir.Value | None) -> Bounds | None:
        """Return the vectors whose entries two numbers are, and where they begin."""
        start, end = (entry_of(self.facts.evaluator.number(v)) for v in (one, other))
        return None if start is None or end is None else (start, end)

    def _asks_for_rows(self, condition: ir.Value | None) -> bool:
        """Whether a boolean is true exactly if a slice starts where it ends."""
        node = None if condition is None else skip_identities(condition).producer()
        if node is None or node.op_type != "Equal" or not is_default_domain(node):
            return False
        bounds = self.bounds(*node.inputs)
        if bounds is not None:
            self.unequal.add(bounds)
        return bounds is not None


def is_used(value: ir.Value) -> bool:
    """Whether anything reads a value, or it leaves its graph."""
    return bool(value.uses()) or value.is_graph_output()
