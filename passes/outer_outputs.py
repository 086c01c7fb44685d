"""Outputs of bodies that are values of an enclosing graph."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from passes.graphs import all_graphs, subgraphs

__all__ = ["connect_outer_outputs"]


def connect_outer_outputs(model: ir.Model) -> bool:
    """Let every body pass on by Identity what it returns of an enclosing graph.

    SequenceMap allows a body to return a value that it captures. In onnx_ir such an output is a
    value of its own that nothing computes: the outer value's name is all that they share.

    Returns:
        Whether the model was changed.
    """
    if not any(_is_unbound(value) for graph in all_graphs(model) for value in graph.outputs):
        return False
    changed = _connect(model.graph, {})
    for function in model.functions.values():
        changed |= _connect(function.graph, {})
    return changed


def _is_unbound(value: ir.Value) -> bool:
    """Whether nothing computes the value and no graph takes it from outside."""
    is_given = value.is_graph_input() or value.is_initializer()
    return value.producer() is None and not is_given


def _connect(graph: ir.Graph, outer: Mapping[str | None, ir.Value]) -> bool:
    """Connect the outputs of the graphs in a graph, and its own to the values around it."""
    changed = False
    own = [*graph.inputs, *graph.initializers.values()]
    scope = {**outer, **{value.name: value for value in own}}
    for node in graph:
        for _, inner in subgraphs(node):
            changed |= _connect(inner, scope)
        own.extend(node.outputs)
        scope.update((value.name, value) for value in node.outputs)
    computed = set(own)
    for position, value in enumerate(graph.outputs):
        captured = None if value in computed else outer.get(value.name)
        if captured is None:
            continue
        node = ir.node("Identity", [captured])
        node.outputs[0].name, node.outputs[0].type = value.name, value.type
        node.outputs[0].shape = value.shape
        graph.append(node)
        graph.outputs[position] = node.outputs[0]
        changed = True
    return changed
