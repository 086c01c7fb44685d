"""Initializers that nothing reads any more."""

from __future__ import annotations

import onnx_ir as ir

from passes.graphs import all_graphs

__all__ = ["drop_initializers", "read_initializers"]


def read_initializers(model: ir.Model) -> set[ir.Value]:
    """Return the initializers of the main graph that some node, or an output, reads."""
    read: set[ir.Value | None] = set()
    for graph in all_graphs(model):
        read.update(graph.outputs)
        for node in graph:
            read.update(node.inputs)
    return {value for value in model.graph.initializers.values() if value in read}


def drop_initializers(model: ir.Model, before: set[ir.Value]) -> bool:
    """Drop the initializers that were read before a rewrite and are not read now.

    Those that are inputs of the graph too stay, and so do those that nothing read at first.
    """
    unread = before - read_initializers(model) - set(model.graph.inputs)
    for value in unread:
        assert value.name is not None
        model.graph.initializers.pop(value.name, None)
    return bool(unread)
