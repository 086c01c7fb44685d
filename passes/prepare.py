"""Brings a model into the state in which every map can be read."""

from __future__ import annotations

import onnx_ir as ir

from passes.graphs import subgraphs, walk_nodes
from passes.inline import InlineMapFunctionsPass
from passes.names import make_names_unique
from passes.sequence_map import is_sequence_map

__all__ = ["prepare"]


def prepare(model: ir.Model) -> bool:
    """Inline the functions that hide maps and move the initializers of bodies outside.

    An initializer of a body is one value for all samples. In the main graph it can be read by
    whatever the map becomes, and a body can be copied without copying weights.

    Returns:
        Whether the model was changed.
    """
    changed = InlineMapFunctionsPass()(model).modified
    changed |= make_names_unique(model)
    for node in walk_nodes(model.graph):
        if is_sequence_map(node):
            for _, body in subgraphs(node):
                changed |= _move_initializers(body, model.graph)
    return changed


def _move_initializers(graph: ir.Graph, target: ir.Graph) -> bool:
    moved = list(graph.initializers.values())
    for value in moved:
        assert value.name is not None
        del graph.initializers[value.name]
        target.register_initializer(value)
    inner = [g for node in graph for _, g in subgraphs(node)]
    return any(_move_initializers(g, target) for g in inner) or bool(moved)
