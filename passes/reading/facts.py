"""Facts about the values that a Loop or Scan carries."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from passes.graph.graphs import with_subgraphs
from passes.graph.made import made_by, operand, operands, skip_identities
from passes.graph.scopes import Dependents, Scope
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import ITERATION, Dim, Linear, StateSymbol
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

if TYPE_CHECKING:
    from passes.carried.pattern import Pattern
    from passes.carried.rereads.seen import Seen

__all__ = ["Kind", "LoopFacts", "State", "find_facts"]


class Kind(enum.Enum):
    """The kind of a carried value."""

    INVARIANT = "the same in every iteration"
    COUNTER = "grows by one constant in every iteration"
    APPENDED = "a sequence that gains one element in every iteration"
    OTHER = "depends on its own past"


@dataclasses.dataclass(frozen=True)
class State:
    """A carried value and what it is.

    Attributes:
        carried: Where it stands.
        kind: What it is.
        first: Of a counter: its first value.
        step: Of a counter: by how much it grows.
        element: Of an appended sequence: what is appended.
        pattern: Of a value that depends on its own past: what computes it without a loop.
    """

    carried: Carried
    kind: Kind
    first: Linear = dataclasses.field(default_factory=Linear)
    step: int = 0
    element: ir.Value | None = None
    pattern: Pattern | None = None


@dataclasses.dataclass(frozen=True)
class LoopFacts:
    """The carried values, and the integers of the body.

    Attributes:
        iteration: The Loop or Scan.
        states: Its carried values.
        evaluator: Knows the iteration number and the counters.
        inside: All values that the body computes or is given.
        added: Nodes that patterns need of an iteration and that the body lacks, in order.
        speculated: Those of them that are copies of nodes in a branch, with these nodes.
        alike: Values of the body that have the shape of a carried one, and which.
        instead: Nodes that may read another value of the body than they do with the same result:
            what they read, and that value.
        branches: Branches in the body that are looked into, outer ones first.
        given: Values of the body that stand for carried ones of their own, whatever makes them.
        seen: What iterations see of carried tensors that are known in front of those that read
            them.
        dependents: What depends on some values in a scope, as far as that was asked for.
    """

    iteration: Iteration
    states: list[State]
    evaluator: Evaluator
    inside: frozenset[ir.Value]
    added: Sequence[ir.Node] = ()
    speculated: Mapping[ir.Node, ir.Node] = dataclasses.field(default_factory=dict)
    alike: Mapping[ir.Value, ir.Value] = dataclasses.field(default_factory=dict)
    instead: Mapping[ir.Node, tuple[ir.Value, ir.Value]] = dataclasses.field(default_factory=dict)
    branches: tuple[ir.Graph, ...] = ()
    given: frozenset[ir.Value] = frozenset()
    seen: Mapping[ir.Value, Seen] = dataclasses.field(default_factory=dict)
    dependents: Dependents = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def scope(self) -> Scope:
        """The body, and the branches in it that are looked into."""
        graphs = (self.iteration.body, *self.branches)
        return Scope(graphs, self.given, self.dependents)

    def of_kind(self, kind: Kind) -> list[State]:
        """Return the carried values of one kind."""
        return [state for state in self.states if state.kind is kind]


def find_facts(iteration: Iteration, typing: Typing) -> LoopFacts:
    """Classify what a Loop or Scan carries.

    Args:
        iteration: The Loop or Scan.
        typing: The proven typing.
    """
    inside = frozenset(_values_inside(iteration.body))
    trip = None if iteration.number is None else {iteration.number: (Linear.of(ITERATION),)}
    probe, outside = Evaluator(typing, inside, trip), Evaluator(typing, inside)
    probe.named = _named(iteration, typing)
    for carried in iteration.states:
        if _is_handed_on(carried):
            probe.known[carried.inner] = outside.of(carried.initial)
        elif _is_one_integer(carried, typing):
            probe.known[carried.inner] = (Linear.of(StateSymbol(carried.inner)),)
    states = [_classify(c, iteration, probe, outside) for c in iteration.states]
    evaluator = Evaluator(typing, inside, trip)
    evaluator.named = probe.named
    for state in states:
        inner, initial = state.carried.inner, state.carried.initial
        if state.kind is Kind.COUNTER:
            evaluator.known[inner] = (state.first + Linear.of(ITERATION) * state.step,)
        elif state.kind is Kind.INVARIANT:
            evaluator.known[inner] = outside.of(initial)
            evaluator.outer[inner] = initial
        elif _is_written_to(state.carried):
            evaluator.sized[inner] = initial
    evaluator.in_range = [*probe.in_range, *outside.in_range]
    evaluator.through_floats = probe.through_floats or outside.through_floats
    evaluator.is_far = probe.is_far or outside.is_far
    return LoopFacts(iteration, states, evaluator, inside)


def _named(iteration: Iteration, typing: Typing) -> dict[str, Dim]:
    """Return for each dimension that a carried value begins with where it can be asked for."""
    return {
        dim: Dim(dim, carried.initial, axis)
        for carried in iteration.states
        for axis, dim in enumerate(typing.dims(carried.initial) or ())
        if isinstance(dim, str) and typing.is_same_number(dim)
    }


def _values_inside(body: ir.Graph) -> Iterator[ir.Value]:
    for graph in with_subgraphs(body):
        yield from graph.inputs
        for node in graph:
            yield from node.outputs


def _is_handed_on(carried: Carried) -> bool:
    """Whether every iteration hands on a value as it is, or as it began."""
    origin = skip_identities(carried.next)
    return origin is carried.inner or origin is skip_identities(carried.initial)


def _is_written_to(carried: Carried) -> bool:
    """Whether an iteration does nothing to a tensor but write in it: it keeps its shape."""
    value = skip_identities(carried.next)
    while (node := made_by(value, "ScatterND", "ScatterElements", "TensorScatter")) is not None:
        value = skip_identities(operand(node, 0))
    return value is carried.inner


def _is_one_integer(carried: Carried, typing: Typing) -> bool:
    known = (typing[carried.initial], typing[carried.inner])
    dtype = next((k.type.dtype for k in known if k.type is not None), None)
    dims = next((k.dims for k in known if k.dims is not None), None)
    return dtype in (ir.DataType.INT32, ir.DataType.INT64) and dims in ((), (1,))


def _classify(
    carried: Carried, iteration: Iteration, probe: Evaluator, outside: Evaluator
) -> State:
    if _is_handed_on(carried):
        return State(carried, Kind.INVARIANT)
    if carried.inner in probe.known:
        following = probe.number(carried.next)
        first = outside.number(carried.initial)
        own = Linear.of(StateSymbol(carried.inner))
        step = None if following is None else (following - own).number
        if step is not None and first is not None:
            return State(carried, Kind.COUNTER, first, step)
    element = _appended(carried, iteration, probe)
    if element is not None:
        return State(carried, Kind.APPENDED, element=element)
    return State(carried, Kind.OTHER)


def _appended(carried: Carried, iteration: Iteration, probe: Evaluator) -> ir.Value | None:
    """Return what is appended, in every iteration, to a sequence that starts empty."""
    node = made_by(carried.next, "SequenceInsert", body=iteration.body)
    if node is None or made_by(carried.initial, "SequenceEmpty") is None:
        return None
    sequence, element, *position = operands(node)
    if skip_identities(sequence) is not carried.inner:
        return None
    # At position `n` of `n` elements, which is behind the last one.
    is_last = not position or probe.number(position[0]) == Linear.of(ITERATION)
    return element if is_last else None
