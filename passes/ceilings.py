"""Limits on how far a map is rewritten: marks on its node, which every pass obeys."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.graphs import all_graphs, is_default_domain, node_paths

__all__ = ["Ceiling", "ceiling_of", "clear_ceilings", "mark_ceilings", "safer_forms"]

_KEY = "seqmap.ceiling"


class Ceiling(enum.StrEnum):
    """The furthest form that a map may take; each is safer than the one before it.

    1. ``guarded``: a SequenceMap is fused behind an If that asks whether all elements have one
       shape, with a loop in the other branch.
    2. ``expanded``: a SequenceMap becomes its fastest loop.
    3. ``as given``: a SequenceMap becomes the Loop of ONNX's specification; a Loop or Scan stays
       as it is.
    """

    GUARDED = "guarded"
    EXPANDED = "expanded"
    AS_GIVEN = "as given"


_FORMS = {
    "SequenceMap": (Ceiling.GUARDED, Ceiling.EXPANDED, Ceiling.AS_GIVEN),
    "Loop": (Ceiling.AS_GIVEN,),
    "Scan": (Ceiling.AS_GIVEN,),
}


def safer_forms(model: ir.Model) -> dict[str, tuple[Ceiling, ...]]:
    """Return the path of every map of a model, with its safer forms, the safest last."""
    paths = node_paths(model)
    nodes = [n for graph in all_graphs(model) for n in graph if is_default_domain(n)]
    return {paths[node]: _FORMS[node.op_type] for node in nodes if node.op_type in _FORMS}


def mark_ceilings(model: ir.Model, ceilings: Mapping[str, Ceiling]) -> None:
    """Mark maps, named by their paths in the model as given.

    Raises:
        RewriteError: There is no node of such a path.
    """
    nodes = {path: node for node, path in node_paths(model).items()} if ceilings else {}
    for path, ceiling in ceilings.items():
        if path not in nodes:
            raise RewriteError(f"there is no map {path!r} in the model: give the path of one")
        nodes[path].metadata_props[_KEY] = Ceiling(ceiling).value


def ceiling_of(node: ir.Node) -> Ceiling | None:
    """Return the furthest form that a map may take, None where all are allowed."""
    mark = node.metadata_props.get(_KEY)
    return None if mark is None else Ceiling(mark)


def clear_ceilings(model: ir.Model) -> None:
    """Take all marks away."""
    for graph in all_graphs(model):
        for node in graph:
            node.metadata_props.pop(_KEY, None)
