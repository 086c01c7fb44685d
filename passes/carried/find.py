"""Finds what a carried value of a Loop or Scan is by itself: asks the patterns in turn."""

from __future__ import annotations

import onnx_ir as ir

from passes.carried.alternation import find_alternation
from passes.carried.appends import find_append
from passes.carried.branch_totals import find_branch_total
from passes.carried.buffers import find_buffer
from passes.carried.cache_writes import find_cache_write
from passes.carried.cat_writes import find_cat_write
from passes.carried.clamps import find_clamped
from passes.carried.filtered_images import find_filtered_images
from passes.carried.find_cells import find_cell
from passes.carried.find_conditional import find_conditional
from passes.carried.find_filters import find_filter
from passes.carried.find_own_rows import find_own_rows
from passes.carried.find_ranges import find_range_write
from passes.carried.find_reductions import find_reduction
from passes.carried.find_steps import find_steps
from passes.carried.find_tiles import find_tiles
from passes.carried.find_writes import find_write
from passes.carried.joined_lists import find_joined_list
from passes.carried.last_places import find_last_write
from passes.carried.last_values import find_last_value
from passes.carried.nested_appends import find_nested_append
from passes.carried.number_extremes import find_number_extreme
from passes.carried.pattern import Pattern
from passes.carried.rings import find_cycle, find_ring
from passes.carried.row_updates import find_row_update
from passes.carried.several_rows import find_several_rows
from passes.carried.shifts import find_shifts
from passes.carried.views import find_viewed
from passes.carried.writes import Write
from passes.reading.facts import Kind, LoopFacts, State
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_one_write", "find_pattern", "find_written", "is_open"]


def find_pattern(state: State, facts: LoopFacts, typing: Typing) -> Pattern | None:
    """Return what a carried value is by itself, None where nothing is found."""
    carried = state.carried
    if state.kind is not Kind.OTHER or not typing.is_sequence(carried.initial):
        return _find(state, facts, typing) if is_open(state, typing) else None
    pattern: Pattern | None = find_joined_list(carried, facts.iteration, typing)
    rows = None if pattern else find_filter(carried, facts.iteration, typing)
    return (
        pattern
        or find_filtered_images(rows, typing)
        or rows
        or find_several_rows(carried, facts.iteration, typing)
        or find_nested_append(carried, facts, typing)
    )


def is_open(state: State, typing: Typing) -> bool:
    """Whether a carried tensor depends on its own past, and nothing better is known of it."""
    known = typing[state.carried.initial].type
    is_unknown = state.kind is Kind.OTHER and state.pattern is None
    return is_unknown and isinstance(known, ir.TensorType)


def _find(state: State, facts: LoopFacts, typing: Typing) -> Pattern | None:
    carried, iteration = state.carried, facts.iteration
    return (
        find_written(carried, facts, typing)
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
        or find_own_rows(carried, facts, typing, is_last=True)
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


def find_written(carried: Carried, facts: LoopFacts, typing: Typing) -> Pattern | None:
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
        or find_steps(carried, facts, typing, find_written)
        or find_conditional(carried, facts, typing, find_written)
        or find_ring(carried, facts)
        or find_last_write(carried, facts)
        or find_viewed(carried, facts, typing, find_one_write)
    )


def find_one_write(carried: Carried, facts: LoopFacts, typing: Typing) -> Pattern | None:
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
