"""Tells the nodes of the model's author from those that were written or moved."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.graph.graphs import subgraphs, walk_nodes
from passes.reading.kept_typing import KeptTyping
from passes.typing import Typing

__all__ = ["Authored", "OthersPass", "nodes_by_others", "outermost_graphs"]


class Authored:
    """Where each node of a model stood when it was recorded.

    A node is the author's if it is the same node, in the same graph, and that graph belongs to
    the same node, up to the main graph or a function. Every other node was written or moved.
    """

    def __init__(self, model: ir.Model) -> None:
        """Record a model as it was given."""
        self._graph_of: dict[ir.Node, ir.Graph] = {}
        self._owner_of: dict[ir.Graph, ir.Node] = {}
        for graph in outermost_graphs(model):
            for node in graph:
                self._record(node, graph)

    def _record(self, node: ir.Node, graph: ir.Graph) -> None:
        self._graph_of[node] = graph
        for _, inner in subgraphs(node):
            self._owner_of[inner] = node
            for one in inner:
                self._record(one, inner)

    def others(self, model: ir.Model) -> Iterator[ir.Node]:
        """Yield the nodes that were written or moved since, in order."""
        for graph in outermost_graphs(model):
            for node in graph:
                yield from self._others(node, graph)

    def _others(self, node: ir.Node, graph: ir.Graph) -> Iterator[ir.Node]:
        if self._graph_of.get(node) is not graph:
            yield from walk_nodes([node])
            return
        for _, inner in subgraphs(node):
            if self._owner_of.get(inner) is not node:
                yield from walk_nodes(inner)
                continue
            for one in inner:
                yield from self._others(one, inner)


def nodes_by_others(model: ir.Model, authored: Authored | None) -> list[ir.Node]:
    """Return the nodes that are not the author's; all nodes where nothing was recorded."""
    if authored is not None:
        return list(authored.others(model))
    return [node for graph in outermost_graphs(model) for node in walk_nodes(graph)]


class OthersPass(ir.passes.InPlacePass):
    """A pass that looks at the nodes that the model's author did not write."""

    def __init__(self, authored: Authored | None = None, typing: KeptTyping | None = None) -> None:
        """Set up the pass.

        Args:
            authored: The model as its author wrote it; None for none of its nodes.
            typing: The proven typing, kept for the passes behind it.
        """
        super().__init__()
        self._authored = authored
        self._kept = typing

    def _others(self, model: ir.Model) -> list[ir.Node]:
        return nodes_by_others(model, self._authored)

    def _typing(self, model: ir.Model) -> Typing:
        return (self._kept or KeptTyping()).of(model)


def outermost_graphs(model: ir.Model) -> list[ir.Graph]:
    """Return the main graph and those of the functions."""
    return [model.graph, *(function.graph for function in model.functions.values())]
