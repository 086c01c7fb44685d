"""Brings a model into the state in which every map can be read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import onnx_ir as ir

from passes.batching import rules, table
from passes.batching.opening import open_functions
from passes.graph.graphs import default_opset, subgraphs, walk_nodes
from passes.graph.names import make_names_unique
from passes.inline import InlineMapFunctionsPass
from passes.maps.sequence_map import is_sequence_map

__all__ = ["move_initializers", "prepare", "read_moved"]

assert rules


def prepare(model: ir.Model, *, opens: bool = False) -> bool:
    """Inline the functions that hide maps and move the initializers of bodies outside.

    An initializer of a body is one value for all samples. In the main graph it can be read by
    whatever the map becomes, and a body can be copied without copying weights.

    Args:
        model: The model.
        opens: Open the functions in bodies that have no batching rule, too.

    Returns:
        Whether the model was changed.
    """
    changed = bool(model.functions) and InlineMapFunctionsPass()(model).modified
    maps = [node for node in walk_nodes(model.graph) if is_sequence_map(node)]
    if not maps:
        return changed
    bodies = [body for node in maps for _, body in subgraphs(node)]
    if opens and _lack_rules(bodies, default_opset(model)):
        changed |= open_functions(model, bodies)
    changed |= make_names_unique(model)
    for body in bodies:
        changed |= move_initializers(body, model.graph)
    return changed


def _lack_rules(bodies: Iterable[ir.Graph], opset: int) -> bool:
    """Whether a node of some bodies has no batching rule."""
    nodes = (node for body in bodies for node in walk_nodes(body))
    return any(table.find(node, opset) is None for node in nodes)


def move_initializers(graph: ir.Graph, target: ir.Graph) -> bool:
    """Move the initializers of a graph and of the graphs inside it; return whether any were.

    What a copy of the graph has had before is read there.
    """
    moved = list(graph.initializers.values())
    for value in moved:
        assert value.name is not None
        _let_go(graph, value)
        del graph.initializers[value.name]
        known = target.initializers.get(value.name)
        if known is None:
            target.register_initializer(value)
        elif known.const_value is value.const_value:
            value.replace_all_uses_with(known)
        else:
            value.name = _free_name(target, value.name)
            target.register_initializer(value)
    inner = [move_initializers(g, target) for node in graph for _, g in subgraphs(node)]
    return any(inner) or bool(moved)


def _free_name(graph: ir.Graph, name: str) -> str:
    """Return a name that no initializer of a graph has."""
    return next(n for i in itertools.count(1) if (n := f"{name}_{i}") not in graph.initializers)


def read_moved(nodes: Iterable[ir.Node], target: ir.Graph) -> None:
    """Let nodes that were copied out of a graph read its initializers where they lie now.

    A copy of a graph has copies of its initializers, of the same name and the same tensor.

    Args:
        nodes: Nodes that may read such copies.
        target: Where the initializers were moved.
    """
    for node in walk_nodes(nodes):
        for position, value in enumerate(node.inputs):
            if value is None or not value.is_initializer() or value.name is None:
                continue
            moved = target.initializers.get(value.name)
            if moved is not None and moved.const_value is value.const_value:
                node.replace_input_with(position, moved)


def _let_go(graph: ir.Graph, value: ir.Value) -> None:
    """Let a graph that returns one of its initializers return a copy."""
    for position, output in enumerate(graph.outputs):
        if output is value:
            node = ir.node("Identity", [value])
            node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
            graph.append(node)
            graph.outputs[position] = node.outputs[0]
