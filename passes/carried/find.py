"""Finds what the carried values of a Loop or Scan are, beside counters and invariants."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.carried.alternation import find_alternation
from passes.carried.appends import find_append
from passes.carried.best import Best
from passes.carried.branch_totals import find_branch_total
from passes.carried.buffers import find_buffer
from passes.carried.cache_writes import find_cache_write
from passes.carried.cat_writes import find_cat_write
from passes.carried.clamps import find_clamped
from passes.carried.delays import Delay, Onward, Unwritten
from passes.carried.filtered_images import find_filtered_images
from passes.carried.find_best import find_best, find_chosen
from passes.carried.find_cells import find_cell
from passes.carried.find_conditional import find_conditional
from passes.carried.find_filters import find_filter
from passes.carried.find_keyed import find_keyed_reads, is_read_elsewhere
from passes.carried.find_ranges import find_own_rows, find_range_write
from passes.carried.find_reductions import find_reduction
from passes.carried.find_steps import find_steps
from passes.carried.find_tiles import find_tiles
from passes.carried.find_writes import find_write
from passes.carried.first import find_first
from passes.carried.flags import find_flag
from passes.carried.free_places import find_free_places
from passes.carried.joined_lists import find_joined_list
from passes.carried.keyed import KeyedRead
from passes.carried.last_places import find_last_write
from passes.carried.last_values import find_last_value
from passes.carried.list_reads import find_list_reads, with_appended
from passes.carried.nested_appends import find_nested_append
from passes.carried.number_extremes import find_number_extreme
from passes.carried.pattern import Pattern, Term, dependent_values
from passes.carried.rereads import Reread, find_rereads
from passes.carried.resets import find_resets
from passes.carried.rings import find_cycle, find_ring
from passes.carried.row_updates import RowUpdate, find_row_update
from passes.carried.seen import find_seen
from passes.carried.selections import find_replacing
from passes.carried.several_rows import find_several_rows
from passes.carried.shifts import find_shifts
from passes.carried.views import find_viewed
from passes.carried.writes import Write
from passes.reading.facts import Kind, LoopFacts, State
from passes.reading.integers import TRIP, Linear
from passes.reading.iterations import Carried
from passes.reading.number_order import is_nonnegative
from passes.typing.value_types import Typing

__all__ = ["with_patterns"]


def with_patterns(facts: LoopFacts, typing: Typing, *, rereads: bool = True) -> LoopFacts:
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
    for at, state in enumerate(list(states)) if rereads else ():
        if typing.is_sequence(state.carried.initial):
            read = _list_reads(state, facts, typing)
            facts = dataclasses.replace(facts, given=facts.given | _ends(read))
            states[at] = with_appended(state, facts)
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


def _list_reads(state: State, facts: LoopFacts, typing: Typing) -> list[State]:
    """Return what iterations read of a list that they append to, where that is a pattern."""
    read = find_list_reads(state, facts)
    inside = dataclasses.replace(facts, given=facts.given | _ends(read))
    read = _with_choices([_with_pattern(one, inside, typing) for one in read], inside, typing)
    return [one for one in read if one.pattern is not None]


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
        if not _is_open(state, typing):
            continue
        found = find_best(state.carried, iteration, typing)
        selection = find_replacing(state.carried.next, state.carried.inner, iteration.body)
        if found is not None:
            states[at] = dataclasses.replace(state, pattern=found)
        if isinstance(found, Best) and selection is not None:
            best.append((selection, found))
    for at, state in enumerate(states):
        if _is_open(state, typing):
            chosen = find_first(state.carried, facts, typing)
            chosen = chosen or find_chosen(state.carried, iteration, best, typing)
            anew: Pattern | None = chosen or find_resets(state.carried, iteration, typing)
            anew = anew or find_flag(state.carried, iteration, typing)
            anew = anew or find_free_places(state.carried, iteration, typing)
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
    pattern = _find_one_write(own, inside, typing) if reads else None
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
    pattern = known or _find_one_write(own, inside, typing)
    pattern = pattern or find_conditional(own, inside, typing, _find_write)
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
        return Unwritten(carried, read)
    if carried.next not in dependent_values(facts.scope, carried.inner):
        first = read.place.replace({TRIP: Linear(0)})
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
    return Onward(carried, form, read)


def _is_open(state: State, typing: Typing) -> bool:
    """Whether a carried tensor depends on its own past, and nothing better is known of it."""
    known = typing[state.carried.initial].type
    is_unknown = state.kind is Kind.OTHER and state.pattern is None
    return is_unknown and isinstance(known, ir.TensorType)


def _with_pattern(state: State, facts: LoopFacts, typing: Typing) -> State:
    carried = state.carried
    if state.pattern is not None:
        return state
    if state.kind is Kind.OTHER and typing.is_sequence(carried.initial):
        pattern: Pattern | None = find_joined_list(carried, facts.iteration, typing)
        rows = None if pattern else find_filter(carried, facts.iteration, typing)
        pattern = pattern or find_filtered_images(rows, typing) or rows
        pattern = pattern or find_several_rows(carried, facts.iteration, typing)
        pattern = pattern or find_nested_append(carried, facts, typing)
    elif not _is_open(state, typing):
        return state
    else:
        pattern = _find(state, facts, typing)
    return state if pattern is None else dataclasses.replace(state, pattern=pattern)


def _find(state: State, facts: LoopFacts, typing: Typing) -> Pattern | None:
    carried, iteration = state.carried, facts.iteration
    return (
        _find_write(carried, facts, typing)
        or find_cache_write(carried, facts)
        or find_shifts(carried, facts, typing)
        or find_reduction(carried, iteration, typing)
        or find_branch_total(carried, facts, typing)
        or find_number_extreme(carried, iteration, typing)
        or find_append(carried, iteration.body)
        or find_cat_write(carried, facts)
        or find_buffer(carried, facts, typing)
        or find_filter(carried, iteration, typing)
        or find_several_rows(carried, iteration, typing)
        or find_conditional(carried, facts, typing, _find_append)
        or find_row_update(carried, facts, typing)
        or find_last_value(carried, iteration)
        or find_clamped(carried, iteration, typing)
        or find_alternation(carried, facts, typing)
        or find_cycle(carried, facts, typing)
        or find_nested_append(carried, facts, typing)
        or find_cell(state, facts, typing)
    )


def _find_append(carried: Carried, facts: LoopFacts, typing: Typing) -> Pattern | None:
    """Return what a carried tensor gains at its end, in a branch too."""
    return find_append(carried, facts.scope)


def _find_write(carried: Carried, facts: LoopFacts, typing: Typing) -> Pattern | None:
    """Return what a carried tensor is written with; of branches, those that are looked into."""
    found: Pattern | None = find_own_rows(carried, facts, typing)
    found = found or find_write(carried, facts, typing.dtype(carried.initial))
    if found is None or _is_open_grid(found, facts) or _is_joined_range(found):
        found = find_tiles(carried, facts, typing) or found
    if found is not None and _is_open_grid(found, facts):
        found = find_row_update(carried, facts, typing) or found
    return (
        found
        or find_range_write(carried, facts, typing)
        or find_steps(carried, facts, typing, _find_write)
        or find_conditional(carried, facts, typing, _find_write)
        or find_ring(carried, facts)
        or find_last_write(carried, facts)
        or find_viewed(carried, facts, typing, _find_one_write)
    )


def _find_one_write(carried: Carried, facts: LoopFacts, typing: Typing) -> Pattern | None:
    """Return what a carried tensor is written with by one scatter."""
    found = find_write(carried, facts, typing.dtype(carried.initial))
    return found or find_last_write(carried, facts)


def _is_joined_range(pattern: Pattern) -> bool:
    """Whether something is joined to ranges, which an edge may cut."""
    if not isinstance(pattern, Write) or pattern.reduction == "none":
        return False
    return pattern.terms[0].kind == "concatenated"


def _is_open_grid(pattern: Pattern, facts: LoopFacts) -> bool:
    """Whether places are a grid that may have another shape in each iteration."""
    if not isinstance(pattern, Write) or pattern.terms[0].kind != "stacked":
        return False
    dims = facts.evaluator.dims(pattern.terms[0].value)
    return pattern.named is None and (dims is None or not all(isinstance(d, int) for d in dims))
