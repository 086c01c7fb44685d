"""Names nodes as the model as given has them: copies of a map, and what took a node's place."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence

from passes.decisions import Decision, Reason
from rewriter.target_table import Unreached

__all__ = ["with_given_nodes", "with_given_paths"]

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
    first = functools.partial(_first, given)

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


def with_given_paths(blocked: Sequence[Unreached], given: Mapping[str, str]) -> list[Unreached]:
    """Name the nodes that keep a model from its target, and those to blame, as it was given.

    Args:
        blocked: What keeps it.
        given: As for `with_given_nodes`.
    """

    def told(text: str) -> str:
        return " ".join(_first(given, word) for word in text.split(" "))

    return [
        dataclasses.replace(
            left,
            node=_first(given, left.node),
            reason=told(left.reason),
            cause=told(left.cause),
        )
        for left in blocked
    ]


def _first(given: Mapping[str, str], path: str) -> str:
    """Return a path in the model as given: of a copy of a node, or of what a copy holds, its own.

    Args:
        given: The operators of all nodes of that model, by their paths.
        path: A path, or any other word, which stays.
    """
    outer, inner = path, ""
    while outer and outer not in given:
        known = _NUMBERED.sub("", outer)
        if known in given:
            return known + inner
        outer, slash, name = outer.rpartition("/")
        inner = f"{slash}{name}{inner}"
    return path
