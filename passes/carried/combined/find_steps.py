"""Finds several writes of one iteration to a carried tensor, one behind the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.combined.crossing_writes import CrossingWrites, crossing
from passes.carried.combined.find_conditional import Find, reread
from passes.carried.combined.steps import Steps, in_steps
from passes.carried.combined.writes_in_turn import WritesInTurn, in_turn
from passes.carried.pattern import ASK_SHAPE, Pattern, dependent_values
from passes.carried.writes.find_writes import SCATTERS
from passes.carried.writes.last_places import LastWrite, find_last_write
from passes.carried.writes.writes import Write
from passes.graph.graphs import reads_of, subgraphs
from passes.graph.made import made_by, skip_identities
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_steps"]


def find_steps(
    carried: Carried, facts: LoopFacts, typing: Typing, find: Find
) -> Steps | WritesInTurn | CrossingWrites | None:
    """Return the writes of an iteration; the last one is a scatter or an If.

    Args:
        carried: The carried tensor.
        facts: The Loop or Scan.
        typing: The proven typing.
        find: Finds what a value was written with.
    """
    before = _before(carried, facts)
    if before is None:
        return None
    first = find(dataclasses.replace(carried, next=before), facts, typing)
    if first is None:
        return None
    last = find(dataclasses.replace(carried, inner=before), facts, typing)
    if last is None or _reads_elements(last, carried, facts):
        return None
    for node in last.nodes:
        reread(node, {before: carried.inner})
    parts = [first, last]
    found = in_steps(parts, [before]) or in_turn(parts, [before])
    if found is not None:
        return found
    turn = in_turn(_at_any_places(parts, carried, facts), [before])
    if turn is not None and not turn.is_dear:
        return turn
    return crossing(parts, [before], typing.dtype(carried.initial)) or turn


def _at_any_places(
    parts: Sequence[Pattern], carried: Carried, facts: LoopFacts
) -> Sequence[Pattern]:
    """Return writes as such that those of other iterations may meet; none if one of them is not.

    Args:
        parts: The writes.
        carried: The tensor that an iteration begins with.
        facts: The Loop or Scan.
    """
    found: list[Pattern] = []
    for part in parts:
        for one in part.parts if isinstance(part, Steps | WritesInTurn) else (part,):
            again = one if isinstance(one, LastWrite) else _as_last_write(one, facts)
            if again is None or _reads_elements(again, carried, facts):
                return ()
            for node in again.nodes:
                reread(node, {one.carried.inner: carried.inner})
            found.append(again)
    return found


def _as_last_write(pattern: Pattern, facts: LoopFacts) -> LastWrite | None:
    """Return a write as one that others may meet, None for what some iterations write only."""
    return find_last_write(pattern.carried, facts) if isinstance(pattern, Write) else None


def _before(carried: Carried, facts: LoopFacts) -> ir.Value | None:
    """Return what the last of several writes writes to."""
    node = made_by(carried.next, "If", *SCATTERS, body=facts.scope)
    if node is None:
        return None
    data = _kept(carried, node) if node.op_type == "If" else node.inputs[0]
    if made_by(data, body=facts.scope) is None:
        return None
    return None if data is None else skip_identities(data)


def _kept(carried: Carried, node: ir.Node) -> ir.Value | None:
    """Return what a branch of an If hands on that computes nothing itself."""
    at = list(node.outputs).index(skip_identities(carried.next))
    for _, graph in subgraphs(node):
        value = skip_identities(graph.outputs[at])
        made = value.producer()
        if made is None or made.graph is not graph:
            return value
    return None


def _reads_elements(pattern: Pattern, carried: Carried, facts: LoopFacts) -> bool:
    """Whether a pattern reads more than the shape of what an iteration begins with."""
    dependent = dependent_values(facts.scope, carried.inner)
    read = {term.value for term in pattern.terms}
    read |= {v for node in pattern.nodes if node.op_type not in ASK_SHAPE for v in reads_of(node)}
    return not read.isdisjoint(dependent)
