"""How large the body of a map has become by the guards of the maps in it."""

from __future__ import annotations

import onnx_ir as ir

from passes.decisions import Code, Reason
from passes.graph.builder import ORIGIN_KEY
from passes.graph.graphs import is_operator, subgraphs, walk_nodes
from passes.graph.limits import MOST_GUARDED
from passes.site import MapSite

__all__ = ["has_grown", "why_unguarded"]


def has_grown(site: MapSite) -> bool:
    """Whether so many nodes stand behind guards in the body of a map that it is written once.

    A guard writes a body in each branch. Of maps inside of each other the innermost body would
    be written as often as the product of all branches.
    """
    return _guarded_nodes(site.body) > MOST_GUARDED


def why_unguarded(site: MapSite) -> Reason | None:
    """Return why a map becomes a loop without a guard, if its body has grown."""
    if not has_grown(site):
        return None
    return Reason(
        Code.COST,
        detail=f"the maps in its body have become {_guarded_nodes(site.body)} nodes behind "
        "guards, and each branch of a guard around them would hold these again",
        advice="promise equal shapes with --uniform, which spares the guards",
    )


def _guarded_nodes(graph: ir.Graph) -> int:
    """Count the nodes in the branches of Ifs that a rewrite wrote."""
    total = 0
    for node in graph:
        is_guard = is_operator(node, "If") and ORIGIN_KEY in node.metadata_props
        for _, inner in subgraphs(node):
            total += sum(1 for _ in walk_nodes(inner)) if is_guard else _guarded_nodes(inner)
    return total
