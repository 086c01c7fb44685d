"""Finds what the carried values of a Loop or Scan are, beside counters and invariants.

What one is may follow from another, or from what iterations read of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.carried.choices.best import Best
from passes.carried.choices.find_best import find_best, find_chosen
from passes.carried.choices.first import find_first
from passes.carried.choices.flags import find_flag
from passes.carried.choices.free_places import find_free_places
from passes.carried.combined.find_conditional import find_conditional
from passes.carried.common.selections import find_replacing
from passes.carried.find import find_one_write, find_pattern, find_written, is_open
from passes.carried.lists.list_reads import find_element_reads, find_list_reads, with_appended
from passes.carried.pattern import Pattern, Term, dependent_values
from passes.carried.recurrences.find_linear import find_linear
from passes.carried.rereads.delays import Delay, Onward, Unwritten
from passes.carried.rereads.find_keyed import find_keyed_reads, is_read_elsewhere
from passes.carried.rereads.keyed import KeyedRead
from passes.carried.rereads.rereads import Reread, find_rereads
from passes.carried.rereads.row_updates import RowUpdate
from passes.carried.rereads.seen import find_seen
from passes.carried.totals.resets import find_resets
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative
from passes.reading.facts import Kind, LoopFacts, State
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["with_patterns"]


def with_patterns(facts: LoopFacts, typing: Typing, *, rereads: bool) -> LoopFacts:
    """Return what is carried, with the patterns of the values that are no counters.

    Args:
        facts: The Loop or Scan.
        typing: The proven typing.
        rereads: Whether what an iteration reads of a tensor that it writes to may become a
            carried value of its own.
    """
    states = [_with_pattern(state, facts, typing) for state in facts.states]
    states = _with_choices(states, facts, typing)
    for at, state in enumerate(states) if rereads else ():
        if _is_closed(state):
            states, given = _with_rereads(states, at, facts, typing)
            facts = dataclasses.replace(facts, given=facts.given | given)
    for at, state in enumerate(list(states)):
        if typing.is_sequence(state.carried.initial):
            find = _list_reads if rereads else _element_reads
            facts, states[at], read = find(state, facts, typing)
            states += read
    patterns = [state.pattern for state in states if state.pattern is not None]
    nodes = [node for pattern in patterns for node in pattern.nodes]
    speculated = dict(pair for pattern in patterns for pair in pattern.speculated)
    _enter(speculated, facts, typing)
    alike = {value: p.carried.inner for p in patterns for value in p.between}
    inside = facts.inside | {value for node in nodes for value in node.outputs}
    known = {p.carried.inner: find_seen(p, facts.evaluator, typing) for p in patterns}
    return dataclasses.replace(
        facts,
        states=states,
        inside=inside,
        added=nodes,
        speculated=speculated,
        alike=alike,
        instead={node: pair for p in patterns for node, pair in p.instead.items()},
        seen={inner: seen for inner, seen in known.items() if seen is not None},
    )


def _list_reads(
    state: State, facts: LoopFacts, typing: Typing
) -> tuple[LoopFacts, State, list[State]]:
    """Find what iterations read of a list that they append to, where that is a pattern.

    Returns:
        The Loop, the list, and what is read.
    """
    read = find_list_reads(state, facts)
    inside = dataclasses.replace(facts, given=facts.given | _ends(read))
    read = _with_choices([_with_pattern(one, inside, typing) for one in read], inside, typing)
    read = [one for one in read if one.pattern is not None or one.kind is Kind.INVARIANT]
    inside = dataclasses.replace(facts, given=facts.given | _ends(read))
    return inside, with_appended(state, inside), read


def _element_reads(
    state: State, facts: LoopFacts, typing: Typing
) -> tuple[LoopFacts, State, list[State]]:
    """Let a Loop carry the elements that it reads of a list, so that it need not carry the list.

    Returns:
        The Loop, the list, and what it carries beside it.
    """
    read = find_element_reads(state, facts)
    for one in read:
        _type_element(one.carried, typing)
    iteration = facts.iteration
    carried = [*iteration.states, *(one.carried for one in read)]
    inside = dataclasses.replace(
        facts,
        iteration=dataclasses.replace(iteration, states=carried),
        given=facts.given | _ends(read),
    )
    appended = with_appended(state, inside)
    return (facts, state, []) if appended is state else (inside, appended, read)


def _type_element(carried: Carried, typing: Typing) -> None:
    """Enter that an element is like those that are appended, if the first one is, too."""
    dims = typing.dims(carried.next)
    is_known = dims is not None and all(map(typing.is_same_number, dims))
    if is_known and dims == typing.dims(carried.initial):
        typing.set(carried.inner, typing[carried.next])


def _ends(states: Sequence[State]) -> frozenset[ir.Value]:
    """Return what stands for carried values at the start of an iteration."""
    return frozenset(state.carried.inner for state in states)


def _enter(speculated: Mapping[ir.Node, ir.Node], facts: LoopFacts, typing: Typing) -> None:
    """Enter what is known of nodes in branches for their copies."""
    for copy, node in speculated.items():
        for new, old in zip(copy.outputs, node.outputs, strict=True):
            if typing[new].type is None:
                typing.set(new, typing[old])
            facts.evaluator.known.setdefault(new, facts.evaluator.of(old))


def _with_choices(states: list[State], facts: LoopFacts, typing: Typing) -> list[State]:
    """Enter what a condition chooses, which may be that of another carried value."""
    iteration, best = facts.iteration, []
    for at, state in enumerate(states):
        if not is_open(state, typing):
            continue
        found = find_best(state.carried, iteration, typing)
        selection = find_replacing(state.carried.next, state.carried.inner, iteration.body)
        if found is not None:
            states[at] = dataclasses.replace(state, pattern=found)
        if isinstance(found, Best) and selection is not None:
            best.append((selection, found))
    for at, state in enumerate(states):
        if is_open(state, typing):
            chosen = find_first(state.carried, facts, typing)
            chosen = chosen or find_chosen(state.carried, iteration, best, typing)
            anew: Pattern | None = chosen or find_resets(state.carried, iteration, typing)
            anew = anew or find_flag(state.carried, iteration, typing)
            anew = anew or find_free_places(state.carried, iteration, typing)
            anew = anew or find_linear(state.carried, facts, typing)
            states[at] = dataclasses.replace(state, pattern=anew)
    return states


def _is_closed(state: State) -> bool:
    """Whether nothing can read what iterations make of a carried value."""
    pattern = state.pattern
    if isinstance(pattern, RowUpdate):  # which reads its own row
        return False
    can_read = pattern is not None and pattern.can_collect(is_after=False)
    return state.kind is Kind.OTHER and not can_read


def _with_rereads(
    states: list[State], at: int, facts: LoopFacts, typing: Typing
) -> tuple[list[State], frozenset[ir.Value]]:
    """Enter what iterations read of a tensor as carried values, if it is a pattern then.

    Returns:
        The states, and what is read.
    """
    own = states[at].carried
    keyed = find_keyed_reads(own, facts, typing)
    if keyed:
        return _with_keyed(states, at, keyed, facts, typing)
    reads = find_rereads(own, facts, typing)
    given = frozenset(read.carried.inner for read in reads)
    inside = dataclasses.replace(facts, given=facts.given | given)
    pattern = find_one_write(own, inside, typing) if reads else None
    made = [] if pattern is None else [_reread(read, inside, typing) for read in reads]
    if pattern is None or not all(made):
        return states, frozenset()
    found = [
        State(read.carried, Kind.OTHER, pattern=one) for read, one in zip(reads, made, strict=True)
    ]
    kept = [*states, *found]
    kept[at] = dataclasses.replace(states[at], pattern=pattern)
    return kept, given


def _with_keyed(
    states: list[State], at: int, reads: list[KeyedRead], facts: LoopFacts, typing: Typing
) -> tuple[list[State], frozenset[ir.Value]]:
    """Enter what iterations read at their keys as carried values; see `_with_rereads`."""
    given = frozenset(read.carried.inner for read in reads)
    inside = dataclasses.replace(facts, given=facts.given | given)
    known = states[at].pattern
    if known is not None and not any(map(is_read_elsewhere, reads)):
        return states, frozenset()
    own = states[at].carried
    pattern = known or find_one_write(own, inside, typing)
    pattern = pattern or find_conditional(own, inside, typing, find_written)
    if pattern is None:
        return states, frozenset()
    found = [State(read.carried, Kind.OTHER, pattern=read) for read in reads]
    kept = [*states, *found]
    kept[at] = dataclasses.replace(states[at], pattern=pattern)
    return kept, given


def _reread(read: Reread, facts: LoopFacts, typing: Typing) -> Pattern | None:
    """Return what all iterations read of a tensor."""
    carried = read.carried
    if read.is_unwritten:
        return Unwritten(carried, (), read)
    if carried.next not in dependent_values(facts.scope, carried.inner):
        first = read.place.replace({ITERATION: Linear(0)})
        is_counted = read.is_next or read.ring is not None or is_nonnegative(first)
        return Delay(carried, (Term(carried.next),), read) if is_counted else None
    if not read.is_next or read.ring is not None:
        return None
    (state,) = _with_choices(
        [_with_pattern(State(carried, Kind.OTHER), facts, typing)], facts, typing
    )
    form = state.pattern
    is_stacked = form is not None and all(term.kind == "stacked" for term in form.terms)
    if form is None or not is_stacked or not form.can_collect(is_after=False):
        return None
    return Onward(carried, form.terms, form, read, nodes=form.nodes, speculated=form.speculated)


def _with_pattern(state: State, facts: LoopFacts, typing: Typing) -> State:
    """Enter what a carried value is by itself."""
    found = None if state.pattern is not None else find_pattern(state, facts, typing)
    return state if found is None else dataclasses.replace(state, pattern=found)
