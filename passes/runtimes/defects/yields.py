"""Branches and steps that yield one value twice."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import subgraphs
from passes.graph.node_copies import copy_body
from passes.runtimes.types import Types

__all__ = ["with_each_value_once", "yields_a_value_twice"]


def yields_a_value_twice(node: ir.Node, types: Types) -> bool:
    """Whether a graph inside of a node names a value as two of its outputs."""
    return any(len(set(graph.outputs)) < len(graph.outputs) for _, graph in subgraphs(node))


def with_each_value_once(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same node; copies of the values take the places of those that were named before."""
    (copy,) = copy_body([node], {})
    for _, graph in subgraphs(copy):
        inside = Builder.at(node)
        for at, value in enumerate(graph.outputs):
            if value in graph.outputs[:at]:
                graph.outputs[at] = inside.op("Identity", [value])
        graph.extend(inside.nodes)
    builder.nodes.append(copy)
    return list(copy.outputs)
