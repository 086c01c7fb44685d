"""Initializers that nothing reads any more."""

from __future__ import annotations

import onnx_ir as ir

from passes.graphs import all_graphs

__all__ = ["drop_initializers", "unread_initializers"]


def unread_initializers(model: ir.Model) -> set[ir.Value]:
    """Return the initializers of the main graph that no node and no output reads."""
    read: set[ir.Value | None] = set()
    for graph in all_graphs(model):
        read.update(graph.outputs)
        for node in graph:
            read.update(node.inputs)
    return {value for value in model.graph.initializers.values() if value not in read}


def drop_initializers(model: ir.Model, spared: set[ir.Value]) -> bool:
    """Drop the initializers that nothing reads, but for those that are inputs of the graph too.

    Args:
        model: The model.
        spared: Those that nothing read before the rewrite either; they stay.
    """
    unread = unread_initializers(model) - spared - set(model.graph.inputs)
    for value in unread:
        assert value.name is not None
        model.graph.initializers.pop(value.name, None)
    return bool(unread)
