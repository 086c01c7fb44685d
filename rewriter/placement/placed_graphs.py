"""The graphs of a model, each with the nodes that a device takes and the copies around them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping

import onnx_ir as ir

from passes.device.host_loops import stays_on_host
from passes.graph.graphs import local_name, subgraphs
from rewriter.placement.copies import count_copies
from rewriter.placement.host_rule import shape_arithmetic
from rewriter.placement.kernel_table import Kernel, KernelTable
from rewriter.placement.node_kernels import kernel_of

__all__ = ["PlacedGraph", "placed_graphs"]

_WITH_ITS_LOOP = "kept on the host with its loop, which would copy in each iteration"


@dataclasses.dataclass(frozen=True)
class PlacedGraph:
    """A graph of a model and where its nodes run, without those inside of them.

    Attributes:
        graph: The graph.
        prefix: The path in front of the names of its nodes.
        loop: The innermost Loop or Scan around it.
        loop_path: The path of that loop; empty where there is none.
        found: The kernels of its nodes, or why there is none; constants aside.
        kept: Nodes that onnxruntime keeps on the host although there is a kernel.
        placed: The kernels of the nodes on the device.
        copies: How many values are copied between host and device.
    """

    graph: ir.Graph
    prefix: str
    loop: ir.Node | None
    loop_path: str
    found: Mapping[ir.Node, Kernel | str]
    kept: Collection[ir.Node]
    placed: Mapping[ir.Node, Kernel]
    copies: int


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a graph stands in its model."""

    graph: ir.Graph
    prefix: str = ""
    loop: ir.Node | None = None
    loop_path: str = ""
    on_host: bool = False


def placed_graphs(model: ir.Model, table: KernelTable) -> Iterator[PlacedGraph]:
    """Yield the graphs of a model, outer ones first.

    Args:
        model: The model, values typed, without model-local functions.
        table: The kernels of the provider.
    """
    has_layers = any(map(stays_on_host, model.graph.all_nodes()))
    for place in _places(_Place(model.graph)):
        found = {
            node: _WITH_ITS_LOOP
            if place.on_host or stays_on_host(node)
            else kernel_of(node, table, model.opset_imports)
            for node in place.graph
            if node.op_type != "Constant" or node.domain
        }
        kernels = {node: one for node, one in found.items() if isinstance(one, Kernel)}
        kept = set[ir.Node]()
        if table.kind != "list":
            twice = table.kind == "plugin"
            kept = shape_arithmetic(place.graph, kernels, twice=twice, has_layers=has_layers)
        placed = {node: one for node, one in kernels.items() if node not in kept}
        copies = count_copies(place.graph, placed, merges=table.device == "CUDA")
        yield PlacedGraph(
            place.graph, place.prefix, place.loop, place.loop_path, found, kept, placed, copies
        )


def _places(place: _Place) -> Iterator[_Place]:
    yield place
    for number, node in enumerate(place.graph):
        path = place.prefix + local_name(node, number)
        on_host = place.on_host or stays_on_host(node)
        for name, inner in subgraphs(node):
            is_loop = node.op_type in ("Loop", "Scan")
            loop, loop_path = (node, path) if is_loop else (place.loop, place.loop_path)
            yield from _places(_Place(inner, f"{path}/{name}/", loop, loop_path, on_host))
