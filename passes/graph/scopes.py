"""A body together with the branches in it that are looked into."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import onnx_ir as ir

__all__ = ["Dependents", "Scope", "stands_in"]


Dependents = dict[tuple["Scope", tuple[ir.Value, ...]], frozenset[ir.Value]]
"""The values that depend on some in a scope, by both; see `passes.carried.pattern`."""


@dataclasses.dataclass(frozen=True)
class Scope:
    """Nodes of a body, and of branches of an If in it, taken together.

    Attributes:
        graphs: The body, and the branches, outer ones first.
        given: Values that are taken for given, whatever makes them.
        dependents: What depends on some values in it, and in others of the same body, as far as
            that was asked for: a long body is asked very often.
    """

    graphs: tuple[ir.Graph, ...]
    given: frozenset[ir.Value] = frozenset()
    dependents: Dependents = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __iter__(self) -> Iterator[ir.Node]:
        """Yield the nodes; each comes behind those of the same scope that it reads."""
        for graph in self.graphs:
            yield from graph


def stands_in(body: ir.Graph | Scope, node: ir.Node) -> bool:
    """Whether a node stands in a body itself, or in one of the branches that are looked into."""
    graphs = body.graphs if isinstance(body, Scope) else (body,)
    return any(node.graph is graph for graph in graphs)
