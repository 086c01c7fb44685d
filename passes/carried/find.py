"""Finds what the carried values of a Loop or Scan are, beside counters and invariants."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.alternation import find_alternation
from passes.carried.appends import find_append
from passes.carried.best import find_best, find_chosen
from passes.carried.buffers import find_buffer
from passes.carried.cache_writes import find_cache_write
from passes.carried.cat_writes import find_cat_write
from passes.carried.filters import find_filter
from passes.carried.find_conditional import find_conditional
from passes.carried.find_ranges import find_own_rows, find_range_write
from passes.carried.find_steps import find_steps
from passes.carried.find_tiles import find_tiles
from passes.carried.first import find_first
from passes.carried.last_places import find_last_write
from passes.carried.last_values import find_last_value
from passes.carried.pattern import Pattern
from passes.carried.reductions import find_reduction
from passes.carried.resets import find_resets
from passes.carried.row_updates import find_row_update
from passes.carried.selections import find_selection
from passes.carried.several_rows import find_several_rows
from passes.carried.views import find_viewed
from passes.carried.writes import Write, find_write
from passes.reading.facts import Kind, LoopFacts, State
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["with_patterns"]


def with_patterns(facts: LoopFacts, typing: Typing) -> LoopFacts:
    """Return what is carried, with the patterns of the values that are no counters.

    Args:
        facts: The Loop or Scan.
        typing: The proven typing.
    """
    states = [_with_pattern(state, facts, typing) for state in facts.states]
    states = _with_choices(states, facts, typing)
    patterns = [state.pattern for state in states if state.pattern is not None]
    nodes = [node for pattern in patterns for node in pattern.nodes]
    speculated = dict(pair for pattern in patterns for pair in pattern.speculated)
    alike = {value: p.carried.inner for p in patterns for value in p.between}
    inside = facts.inside | {value for node in nodes for value in node.outputs}
    return dataclasses.replace(
        facts, states=states, inside=inside, added=nodes, speculated=speculated, alike=alike
    )


def _with_choices(states: list[State], facts: LoopFacts, typing: Typing) -> list[State]:
    """Enter what a condition chooses, which may be that of another carried value."""
    iteration, best = facts.iteration, []
    for at, state in enumerate(states):
        if not _is_open(state, typing):
            continue
        found = find_best(state.carried, iteration, typing)
        selection = find_selection(state.carried.next, iteration.body, weighed=True)
        if found is not None and selection is not None:
            states[at] = dataclasses.replace(state, pattern=found)
            best.append((selection, found))
    for at, state in enumerate(states):
        if _is_open(state, typing):
            chosen = find_first(state.carried, facts, typing)
            chosen = chosen or find_chosen(state.carried, iteration, best)
            anew = chosen or find_resets(state.carried, iteration, typing)
            states[at] = dataclasses.replace(state, pattern=anew)
    return states


def _is_open(state: State, typing: Typing) -> bool:
    """Whether a carried tensor depends on its own past, and nothing better is known of it."""
    known = typing[state.carried.initial].type
    is_unknown = state.kind is Kind.OTHER and state.pattern is None
    return is_unknown and isinstance(known, ir.TensorType)


def _with_pattern(state: State, facts: LoopFacts, typing: Typing) -> State:
    carried = state.carried
    if state.kind is Kind.OTHER and typing.is_sequence(carried.initial):
        pattern: Pattern | None = find_filter(carried, facts.iteration, typing)
        pattern = pattern or find_several_rows(carried, facts.iteration, typing)
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
        or find_reduction(carried, iteration, typing)
        or find_append(carried, iteration)
        or find_cat_write(carried, facts)
        or find_buffer(carried, facts, typing)
        or find_filter(carried, iteration, typing)
        or find_several_rows(carried, iteration, typing)
        or find_row_update(carried, facts, typing)
        or find_last_value(carried, iteration)
        or find_alternation(carried, facts, typing)
    )


def _find_write(carried: Carried, facts: LoopFacts, typing: Typing) -> Pattern | None:
    """Return what a carried tensor is written with; of branches, those that are looked into."""
    found: Pattern | None = find_own_rows(carried, facts, typing)
    found = found or find_write(carried, facts, typing.dtype(carried.initial))
    if found is None or _is_open_grid(found, facts):
        found = find_tiles(carried, facts, typing) or found
    return (
        found
        or find_range_write(carried, facts, typing)
        or find_steps(carried, facts, typing, _find_write)
        or find_conditional(carried, facts, typing, _find_write)
        or find_last_write(carried, facts)
        or find_viewed(carried, facts, typing, _find_one_write)
    )


def _find_one_write(carried: Carried, facts: LoopFacts, typing: Typing) -> Pattern | None:
    """Return what a carried tensor is written with by one scatter."""
    found = find_write(carried, facts, typing.dtype(carried.initial))
    return found or find_last_write(carried, facts)


def _is_open_grid(pattern: Pattern, facts: LoopFacts) -> bool:
    """Whether places are a grid that may have another shape in each iteration."""
    if not isinstance(pattern, Write) or pattern.terms[0].kind != "stacked":
        return False
    dims = facts.evaluator.dims(pattern.terms[0].value)
    return pattern.named is None and (dims is None or not all(isinstance(d, int) for d in dims))
