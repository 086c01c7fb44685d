"""What iterations read of a list that they append to: all elements joined, or one of them.

``seen.append(a); torch.stack(seen)`` is a tensor that gains a row in each iteration, and
``seen[-1]`` in front of that what the iteration before appended. ``seen[0]`` is the same in all
iterations where the list begins with an element.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import onnx_ir as ir

from passes.carried.lists.filters import Filter
from passes.carried.lists.joined_elements import JoinedElements, first_elements
from passes.carried.pattern import Term, dependent_values
from passes.graph.graphs import is_operator
from passes.graph.made import made_by, operand, operands, skip_identities
from passes.numbers.integers import ITERATION, Linear
from passes.reading.facts import Kind, LoopFacts, State
from passes.reading.iterations import Carried

__all__ = ["find_element_reads", "find_list_reads", "with_appended"]


def find_list_reads(state: State, facts: LoopFacts) -> list[State]:
    """Return what iterations read of a list as carried values of their own.

    Args:
        state: A carried value.
        facts: The Loop.

    Returns:
        Values with a pattern, and others that may have one.
    """
    carried = state.carried
    element, first = _appended(carried, facts), first_elements(carried.initial)
    if element is None or first is None:
        return []
    if element in dependent_values(facts.iteration.body, carried.inner):
        return find_element_reads(state, facts)
    found = find_element_reads(state, facts, farthest=len(first))
    return [*found, *_joined_reads(carried, element, first, facts)]


def find_element_reads(state: State, facts: LoopFacts, *, farthest: int = 1) -> list[State]:
    """Return single elements of a list that iterations read and append to; see `find_list_reads`.

    Args:
        state: A carried value.
        facts: The Loop.
        farthest: How many iterations ago an element may have been appended.

    Returns:
        The last elements, which may have a pattern, and those that the list begins with.
    """
    carried = state.carried
    element, first = _appended(carried, facts), first_elements(carried.initial)
    if element is None or not first:
        return []
    found: list[State] = []
    for node in facts.iteration.body:
        if not is_operator(node, "SequenceAt") or node.inputs[0] is not carried.inner:
            continue
        place, value = facts.evaluator.number(node.inputs[1]), node.outputs[0]
        number = None if place is None else place.number
        ago = None if place is None else _iterations_ago(place, len(first))
        if ago is not None and ago <= farthest:
            found += _delayed(value, first, element, ago)
        elif number is not None and 0 <= number < len(first):
            own = Carried(value, first[number], value, ir.Value(name="first"))
            found.append(State(own, Kind.INVARIANT))
    return found


def _iterations_ago(place: Linear, count: int) -> int | None:
    """Return how many iterations ago an element was appended, from 1 on; None if that may differ.

    Args:
        place: Where it stands in the list, counted from the front or from the end.
        count: How many elements the list begins with; one of these is read before.
    """
    from_end = place if place.number is not None else place - Linear.of(ITERATION) - count
    ago = -from_end.number if from_end.number is not None else 0
    return ago if 0 < ago <= count else None


def _delayed(
    value: ir.Value, first: Sequence[ir.Value], element: ir.Value, ago: int
) -> list[State]:
    """Return a value that was appended some iterations ago, passed on in each one since then."""
    passed = [ir.Value(name="last", type=value.type) for _ in range(1, ago)]
    steps = zip([*passed, value], first[: -ago - 1 : -1], [element, *passed], strict=True)
    return [
        State(Carried(inner, initial, after, ir.Value(name="last")), Kind.OTHER)
        for inner, initial, after in steps
    ]


def with_appended(state: State, facts: LoopFacts) -> State:
    """Return a list with what it gains, which may depend on what is known that it is read for."""
    carried = state.carried
    element = _appended(carried, facts)
    is_open = state.kind is Kind.OTHER and state.pattern is None and element is not None
    if not is_open or first_elements(carried.initial) is None:
        return state
    if element is None or element in dependent_values(facts.scope, carried.inner):
        return state
    pattern = Filter(carried, (Term(element),), 0, is_sequence=True, is_reversed=False)
    return dataclasses.replace(state, pattern=pattern)


def _appended(carried: Carried, facts: LoopFacts) -> ir.Value | None:
    """Return the one element that each iteration appends to a list, None if it does not."""
    insert = made_by(carried.next, "SequenceInsert", body=facts.iteration.body)
    if insert is None or len(operands(insert)) != 2:
        return None
    is_own = skip_identities(operand(insert, 0)) is carried.inner
    return operand(insert, 1) if is_own else None


def _joined_reads(
    carried: Carried, element: ir.Value, first: Sequence[ir.Value], facts: LoopFacts
) -> Iterator[State]:
    """Return what joins all elements that are there so far."""
    after = skip_identities(carried.next)
    nodes: dict[tuple[int, int], tuple[list[ir.Value], list[ir.Value]]] = {}
    for node in facts.iteration.body:
        value = (
            skip_identities(operand(node, 0)) if is_operator(node, "ConcatFromSequence") else None
        )
        if value not in (carried.inner, after):
            continue
        how = node.attributes.get_int("axis", 0), node.attributes.get_int("new_axis", 0)
        nodes.setdefault(how, ([], []))[value is after].append(node.outputs[0])
    for (axis, is_new_axis), (before, behind) in nodes.items():
        if axis < 0 or (before and not first):
            continue
        term = Term(element, "stacked" if is_new_axis else "concatenated", axis)
        for one, other in itertools.zip_longest(before, behind):
            own = Carried(
                one or ir.Value(name=carried.inner.name),
                carried.initial,
                other or ir.Value(name=carried.inner.name),
                ir.Value(name=carried.inner.name),
            )
            pattern = JoinedElements(
                own, (term,), axis, bool(is_new_axis), tuple(first), bool(behind)
            )
            yield State(own, Kind.OTHER, pattern=pattern)
