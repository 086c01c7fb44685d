"""Names nodes as the model as given has them: copies of a map, and what took a node's place."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from passes.decisions import Decision, Reason

__all__ = ["with_given_nodes"]

_NUMBERED = re.compile(r"_\d+$")


def with_given_nodes(decisions: Sequence[Decision], given: Mapping[str, str]) -> list[Decision]:
    """Name the nodes in decisions as the model as given does.

    A copy, such as a function that is called twice holds, has the path of the node with a number
    behind it, which that model does not hold. What was written in the place of a node has its
    path, but is another operator.

    Args:
        decisions: What was done with the maps.
        given: The operators of all nodes of the model as given, by their paths.
    """

    def first(path: str) -> str:
        known = _NUMBERED.sub("", path)
        return known if path not in given and known in given else path

    def named(reason: Reason) -> Reason:
        node = first(reason.node)
        operator = given.get(node, reason.op_type)
        dependents = tuple(map(first, reason.dependents))
        return dataclasses.replace(reason, node=node, op_type=operator, dependents=dependents)

    return [
        dataclasses.replace(
            decision,
            copy_of=first(decision.path) if first(decision.path) != decision.path else "",
            reasons=list(map(named, decision.reasons)),
            notes=[" ".join(map(first, note.split(" "))) for note in decision.notes],
        )
        for decision in decisions
    ]
