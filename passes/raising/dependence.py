"""Sorts the nodes of a body by a recurrence: in front of it, in it, and behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import onnx_ir as ir

from passes.batching import table
from passes.graph.graphs import is_used, reads_of, recorded_path, walk_nodes
from passes.reading.facts import Kind, LoopFacts, State
from passes.reading.needs import Needs
from passes.typing import Typing

__all__ = ["STUCK_KEY", "Dependence"]

STUCK_KEY = "seqmap.stuck"
"""Note on a Loop, which no file holds: paths of nodes of its body that could not be batched."""


class Dependence:
    """The dependences in the body of a Loop, in one iteration and from one to the next.

    Attributes:
        nodes: The nodes of the body, and those that patterns add.
        live: Those that some output needs.
        varying: The values that differ from iteration to iteration.
        states: The carried values, by their names in the body.
        reach: For each value the carried values that it depends on within one iteration.
        core: The carried values that are a recurrence, or that one needs.
        late: Those that depend on a recurrence and that none needs.
        stuck: The values of nodes that cannot be batched.
    """

    def __init__(
        self, facts: LoopFacts, needs: Needs, typing: Typing, opset: int, *, patterns: bool
    ) -> None:
        self.facts, self.needs, self.typing = facts, needs, typing
        self.nodes = [*facts.iteration.body, *facts.added]
        self.states = {state.carried.inner: state for state in facts.states}
        self.reach: dict[ir.Value, frozenset[ir.Value]] = {}
        self.varying: set[ir.Value] = set()
        self.stuck: list[ir.Value] = []
        self._follow(opset)
        self.live, self.live_states = self.closure(self._roots(facts.iteration.collected))
        past = self._past()
        recurrent = {
            inner
            for inner in self.live_states
            if self._is_recurrent(self.states[inner], patterns=patterns)
        }
        self.core = recurrent | {
            inner
            for inner in self.live_states
            if past[inner] & recurrent and any(inner in past[one] for one in recurrent)
        }
        live = {v for node in self.live for v in node.outputs}
        self.stuck = [value for value in self.stuck if value in live]
        self.late = {i for i in self.live_states if i not in self.core and past[i] & self.core}

    def _follow(self, opset: int) -> None:
        iteration = self.facts.iteration
        for inner, state in self.states.items():
            is_same = state.kind is Kind.INVARIANT
            self.reach[inner] = frozenset() if is_same else frozenset([inner])
        given = [iteration.number, *(inner for inner, _ in iteration.scanned)]
        self.varying = {v for v in (*given, *self.states) if v is not None}
        self.varying -= {s.carried.inner for s in self.facts.of_kind(Kind.INVARIANT)}
        for node in self.nodes:
            if not self.states.keys().isdisjoint(node.outputs):
                continue
            read = reads_of(node)
            reach = frozenset().union(*(self.reach.get(v, frozenset()) for v in read))
            if not self.varying.isdisjoint(read) and self._is_stuck(node, opset):
                self.stuck += node.outputs
                reach |= set(node.outputs)
            for value in node.outputs:
                self.reach[value] = reach
                if not self.varying.isdisjoint(read):
                    self.varying.add(value)

    def _is_stuck(self, node: ir.Node, opset: int) -> bool:
        """Whether a node stays in the Loop for what it is, or because it was tried in vain."""
        path = f"{recorded_path(node)}/"
        tried = self.facts.iteration.node.meta.get(STUCK_KEY, ())
        return any(f"{one}/".startswith(path) for one in tried) or not _may_be_batched(node, opset)

    def _roots(self, collected: Iterable[Any]) -> list[ir.Value]:
        """Return what leaves the body, and what decides whether there is another iteration."""
        roots = [one.inner for one in collected if is_used(one.result)]
        roots += [s.carried.next for s in self.facts.states if is_used(s.carried.result)]
        goes_on = self.facts.iteration.next_goes_on
        return roots if goes_on is None else [*roots, goes_on]

    def closure(
        self, roots: Iterable[ir.Value], stops: Callable[[ir.Value], bool] = lambda _: False
    ) -> tuple[set[ir.Node], set[ir.Value]]:
        """Return the nodes and carried values that some values depend on, in all iterations."""
        inside = set(self.nodes)
        nodes: set[ir.Node] = set()
        states: set[ir.Value] = set()
        pending = list(roots)
        while pending:
            value = pending.pop()
            if stops(value):
                continue
            if value in self.states and value not in states:
                states.add(value)
                pending.append(self.states[value].carried.next)
            node = None if value in self.states else value.producer()
            if node is not None and node in inside and node not in nodes:
                nodes.add(node)
                pending += reads_of(node)
        return nodes, states

    def _past(self) -> dict[ir.Value, set[ir.Value]]:
        """Return for each carried value those on which it depends from iteration to iteration."""
        past = {
            inner: set(self.reach.get(state.carried.next, ()))
            for inner, state in self.states.items()
        }
        for inner, state in self.states.items():
            if state.kind is Kind.INVARIANT:
                past[inner] = set()
        for _ in past:
            for mine in past.values():
                for other in list(mine):
                    mine |= past.get(other, set())
        return past

    def _is_recurrent(self, state: State, *, patterns: bool) -> bool:
        inner = state.carried.inner
        if state.kind is Kind.OTHER:
            return state.pattern is None or not patterns
        return state.element is not None and inner in self.reach.get(state.element, ())

    def depends(self, value: ir.Value) -> bool:
        """Whether a value depends on a recurrence, or on a node that cannot be batched."""
        own = self.reach.get(value, frozenset())
        return not own.isdisjoint(self.core | self.late | set(self.stuck))

    def core_roots(self) -> list[ir.Value]:
        """Return what the Loop computes in any case."""
        return [*(self.states[inner].carried.next for inner in self.core), *self.stuck]

    def rest(self, roots: Iterable[ir.Value]) -> list[ir.Node]:
        """Return the nodes that some values need and that depend on a recurrence, in order."""
        found, _ = self.closure(roots, lambda v: not self.depends(v))
        return [node for node in self.nodes if node in found]

    def values_of(self, roots: Iterable[ir.Value]) -> list[ir.Value]:
        """Return the values that depend on the recurrence and that the Loop goes on computing."""
        nodes, states = self.closure(roots, lambda v: not self.depends(v))
        computed = [v for node in self.nodes if node in nodes for v in node.outputs]
        return [*(inner for inner in self.states if inner in states), *computed]

    @property
    def collected(self) -> set[ir.Value]:
        """The outputs that stack what each iteration yields."""
        return {one.result for one in self.facts.iteration.collected}

    def results(self) -> dict[ir.Value, ir.Value]:
        """Return the outputs that are no counters, with what an iteration yields for each."""
        iteration = self.facts.iteration
        found = {one.result: one.inner for one in iteration.collected if is_used(one.result)}
        for state in self.facts.states:
            is_plain = state.kind in (Kind.COUNTER, Kind.INVARIANT)
            if is_used(state.carried.result) and not is_plain:
                found[state.carried.result] = state.carried.next
        return found


def _may_be_batched(node: ir.Node, opset: int) -> bool:
    """Whether a rule may be known for a node, and for all nodes inside of it."""
    found = (table.find(inner, opset) for inner in walk_nodes([node]))
    return not any(row is None or isinstance(row, table.Unsupported) for row in found)
