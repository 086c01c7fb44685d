"""Liveness: the values of a body that the outputs of a Loop or Scan need."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.pattern import ASK_SHAPE
from passes.graph.graphs import is_default_domain
from passes.graph.if_outputs import read_for
from passes.graph.made import skip_identities
from passes.maps.sequence_map import results_of
from passes.reading.even import Bounds, branch_taken
from passes.reading.facts import Kind, LoopFacts, State
from passes.reading.iterations import Collected
from passes.reading.nodes import by_type, constant_of, passed_on
from passes.reading.sources import Element, Reads, Window, find_read
from passes.reading.stages import CarriedResult, Leaving, Stage
from passes.reading.why_carried import why_carried
from passes.site import MapResult
from passes.typing.value_types import Typing

__all__ = ["Needs"]


class Needs:
    """Follows what leaves a body back to what an iteration is given.

    Attributes:
        facts: The Loop or Scan.
        reads: What reading by the iteration number depends on.
        is_even: Take slices by entries of a vector as equally long, and so not as empty.
        unequal: The bounds of slices that are taken as not empty.
        behind: What is computed behind the map; `wanted` finds it.
        rows: Values of the body, and the tensors whose rows they are; `wanted` of the first of two
            maps finds them.
        wholes: Carried tensors that the first of two maps writes as a whole; `wanted` finds them.
        shaped: Carried values whose shape alone is read, and that keep it; `needed` finds them.
        stage: Which of several maps it is.
        ahead: Carried values that `needed` has met and that a first map could compute; None
            where it may not look for any.
    """

    def __init__(
        self,
        facts: LoopFacts,
        reads: Reads,
        declared: Typing,
        *,
        is_even: bool,
        stage: Stage,
    ) -> None:
        self.stage = stage
        self.ahead: dict[ir.Value, State] | None = None
        self.facts, self.reads, self.is_even = facts, reads, is_even
        self.unequal: set[Bounds] = set()
        self.behind: list[CarriedResult] = []
        self.rows: dict[ir.Value, ir.Value] = {}
        self.wholes: dict[ir.Value, CarriedResult] = {}
        self.shaped: set[ir.Value] = set()
        self._declared = declared
        self._found: dict[ir.Node, Element | Window | None] = {}
        self._states = {state.carried.inner: state for state in facts.states}
        self._nexts = {
            skip_identities(state.carried.next): state
            for state in facts.states
            if state.pattern is not None
            and (state.pattern.gives_next or state.carried.inner in facts.seen)
        }

    @property
    def found(self) -> list[Element | Window]:
        """All reads by the iteration number that were met."""
        return [read for read in self._found.values() if read is not None]

    def wanted(self, graph: ir.Graph) -> tuple[list[ir.Value], list[MapResult]]:
        """Return the values of the body that leave the map, and how."""
        leaving = Leaving()
        is_first, yields = self.stage.is_first, self.stage.yields
        rows = [Collected(inner, tensor) for inner, tensor in self.stage.rows.items()]
        for one in (*rows, *self.facts.iteration.collected):
            if not yields(one.result):
                continue
            if self._enter_carried(one, leaving):
                continue
            if not is_first and self._carried_by(one) is None:
                at = leaving.place(one.inner)
                result = MapResult(at, "stacked", one.result, one.axis, one.is_reversed)
                leaving.results.append(result)
        for state in self.facts.states:
            if not yields(state.carried.result) or not self._is_here(state):
                continue
            if state.pattern is not None:
                terms = leaving.terms(state.pattern)
                self.behind.append(CarriedResult(state.carried.result, state.pattern, terms))
            elif state.kind is Kind.OTHER:
                raise why_carried(state, None, self._declared)
            if state.element is not None:
                for result in results_of(0, state.carried.result, graph):
                    if result.kind == "stacked":
                        one = Collected(state.element, result.value, result.axis)
                        if self._enter_carried(one, leaving):
                            continue
                    at = leaving.place(state.element)
                    leaving.results.append(dataclasses.replace(result, output=at))
        for state in self.facts.states if is_first else ():
            if self._is_here(state) and state.pattern is not None:
                terms = leaving.terms(state.pattern)
                if state.carried.inner in self.facts.seen:
                    whole = ir.Value(name=f"{state.carried.inner.name}.whole")
                    self.wholes[state.carried.inner] = CarriedResult(whole, state.pattern, terms)
                    self.behind.append(self.wholes[state.carried.inner])
                    continue
                for value, is_after in self._collected_of(state):
                    given = ir.Value(name=f"{value.name}.{'after' if is_after else 'before'}")
                    self.behind.append(CarriedResult(given, state.pattern, terms, is_after))
                    self.rows[value] = given
        self.rows |= {
            term.value: value
            for term, value in leaving.joined.items()
            if term.kind == "stacked" and not term.axis and self._is_computed(term.value)
        }
        return list(leaving.outputs), leaving.results

    def _collected_of(self, state: State) -> list[tuple[ir.Value, bool]]:
        """Return the values of a state that a first map collects; are they those at the ends?"""
        pattern, value = state.pattern, skip_identities(state.carried.next)
        found = [(state.carried.inner, False)]
        if pattern is not None and not pattern.can_collect(is_after=False):
            found = []
        return [*found, (value, True)] if value in self._nexts else found

    def _is_here(self, state: State) -> bool:
        """Whether it is this map that a carried value is computed behind."""
        return (state.carried.inner in self.stage.ahead) == self.stage.is_first

    def _is_computed(self, value: ir.Value) -> bool:
        """Whether a value of the body is more than what an iteration is given."""
        node = value.producer()
        return node is not None and value in self.facts.inside and self.read(node) is None

    def _enter_carried(self, one: Collected, leaving: Leaving) -> bool:
        """Enter a result that stacks a carried value, if it is computed behind this map."""
        found = self._carried_by(one)
        if found is None or not self._is_here(found[0]):
            return False
        pattern = found[0].pattern
        assert pattern is not None
        terms = leaving.terms(pattern)
        self.behind.append(CarriedResult(one.result, pattern, terms, found[1]))
        return True

    def _carried_by(self, one: Collected) -> tuple[State, bool] | None:
        """Return the state whose values a stacked result holds, and whether those at the ends."""
        value = skip_identities(one.inner)
        if one.axis or one.is_reversed:
            return None
        for state in self.facts.states:
            pattern, carried = state.pattern, state.carried
            if pattern is None or value not in (carried.inner, skip_identities(carried.next)):
                continue
            is_after = value is not carried.inner
            if pattern.can_collect(is_after=is_after):
                return state, is_after
        return None

    def needed(self, outputs: list[ir.Value]) -> set[ir.Value | ir.Node]:
        """Return the nodes of the body that the outputs depend on, and the inputs.

        Raises:
            NotAMapError: They depend on what an earlier iteration computed.
        """
        needed: set[ir.Value | ir.Node] = set()
        asked: set[ir.Value] = set()
        pending: list[tuple[ir.Value, ir.Node | None]] = [(v, None) for v in outputs]
        while pending:
            value, reader = pending.pop()
            asks = reader is not None and self._asks_shape(value, reader, asked - needed)
            if asks and value in self.facts.alike:
                asked.add(value)
                value = self.facts.alike[value]
            if value in (asked if asks else needed):
                continue
            if asks and self._may_ask(value):
                asked.add(value)
                self.shaped |= {value} & self._states.keys()
                if (node := value.producer()) is not None:
                    needed.add(node)
                    pending.extend((v, node) for v in self._dependencies(node, value))
                continue
            needed.add(value)
            state = self._states.get(value) or self._nexts.get(value)
            if value in self.stage.given or self._is_seen(state):
                continue
            if state is not None and self.ahead is not None and self._may_run_ahead(state, value):
                self.ahead[state.carried.inner] = state
                continue
            if value in self._states and state is not None and state.kind in _PAST:
                raise why_carried(state, reader, self._declared)
            node = value.producer()
            if node is None or value not in self.facts.inside or value in self._states:
                continue
            needed.add(node)
            pending.extend((v, node) for v in self._dependencies(node, value))
        return needed

    def _asks_shape(self, value: ir.Value, reader: ir.Node, asked: set[ir.Value]) -> bool:
        """Whether a node reads a value for its shape only."""
        if value is not reader.inputs[0] or not is_default_domain(reader):
            return False
        if reader.op_type in ASK_SHAPE:
            return True
        is_shaped = all(output in asked for output in reader.outputs)
        return is_shaped and reader.op_type in _PASS_SHAPE

    def _may_ask(self, value: ir.Value) -> bool:
        """Whether the shape of a value is that of a carried value, or made of such a one."""
        value = self.facts.alike.get(value, value)
        state = self._states.get(value)
        if value in self.stage.given or self._is_seen(state):
            return False
        if state is not None:
            patterns = [one.pattern for one in self.behind]
            return state.pattern is not None and state.pattern in patterns
        node = value.producer()
        if node is None or value not in self.facts.inside or node.op_type not in _PASS_SHAPE:
            return False
        return node.inputs[0] is not None and self._may_ask(node.inputs[0])

    def _is_seen(self, state: State | None) -> bool:
        """Whether an earlier map has written a carried tensor."""
        return state is not None and state.carried.inner in self.stage.wholes

    def _may_run_ahead(self, state: State, value: ir.Value) -> bool:
        """Whether the values of a state in all iterations can be computed before they are read.

        Args:
            state: The state.
            value: The state at the start of an iteration, or its value at the end.
        """
        pattern = state.pattern
        if state.carried.inner in self.facts.seen:
            return True
        is_stacked = pattern is not None and all(t.kind == "stacked" for t in pattern.terms)
        is_after = value not in self._states
        return pattern is not None and is_stacked and pattern.can_collect(is_after=is_after)

    def _dependencies(self, node: ir.Node, value: ir.Value) -> list[ir.Value]:
        """Return what a node reads for one of its outputs."""
        read = self.read(node)
        if isinstance(read, Element) and read.rest:
            return [v for v in node.inputs[1:] if v is not None]
        if read is not None:
            return []
        branch = self.branch(node)
        if branch is not None:
            return list(branch.outputs)
        evaluator = self.facts.evaluator
        if passed_on(node, evaluator) is None and constant_of(node, evaluator) is not None:
            return []
        cast = by_type(node, evaluator)
        before, after = self.instead(node) or (None, None)
        found = read_for(value) if cast is None else [cast[0]]
        return [after if after is not None and v is before else v for v in found]

    def instead(self, node: ir.Node) -> tuple[ir.Value, ir.Value] | None:
        """Return which value a node reads another one for, and that; None where it does not."""
        found = self.facts.instead.get(node)
        is_given = found is not None and found[0] in self.stage.given
        return None if is_given else found

    def read(self, node: ir.Node) -> Element | Window | None:
        """Return what a node reads by the iteration number, None if it is no such node."""
        if node not in self._found:
            self._found[node] = find_read(node, self.reads)
        return self._found[node]

    def branch(self, node: ir.Node) -> ir.Graph | None:
        """Return the branch that an If takes in every iteration, if that is known."""
        return branch_taken(node, self.facts.evaluator, self.unequal if self.is_even else None)


_PAST = frozenset({Kind.OTHER, Kind.APPENDED})
"""What depends on its own past."""
_PASS_SHAPE = frozenset(
    {"Identity", "Slice", "Gather", "Unsqueeze", "Squeeze", "Transpose", "Cast", "Reshape"}
)
"""Operators that read no more than the shape of their first operand for that of their result."""
