"""The graphs of a model, each with the nodes that a device takes and the copies around them.

The copies are those that onnxruntime makes between host and device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping

import onnx_ir as ir

from passes.device.host_facts import is_put_on_host
from passes.device.host_loops import stays_on_host
from passes.graph.graphs import captured_values, local_name, subgraphs
from rewriter.placement.host_rule import is_initializer, shape_arithmetic
from rewriter.placement.kernel_table import Kernel, KernelTable
from rewriter.placement.node_kernels import kernel_of

__all__ = ["PlacedGraph", "placed_graphs"]


def count_copies(graph: ir.Graph, placed: Mapping[ir.Node, Kernel], *, merges: bool = True) -> int:
    """Return how many nodes are inserted into one graph to copy a value.

    A value that is made on one side and read on the other is copied once, whoever reads it. Inputs
    of the graph, and values of graphs around it, are copied only where both sides read them:
    otherwise they are handed over on the right side. Initializers of the graph are there on both.

    Args:
        graph: A graph, without those inside of its nodes.
        placed: The kernels of those of its nodes that are on the device.
        merges: Whether onnxruntime makes one node of some on the device, as it does on CUDA only.
    """
    made: dict[bool, set[ir.Value]] = {True: set(), False: set()}
    read: dict[bool, set[ir.Value]] = {True: set(), False: set()}
    ranges = [node for node in placed if merges and _becomes_a_slice(node, placed)]
    for node in graph:
        if not node.domain and node.op_type == "Constant":
            continue
        kernel = placed.get(node)
        for position, value in enumerate(node.inputs):
            if value is not None:
                is_read_there = kernel is not None and position not in kernel.host_inputs
                read[is_read_there or node in ranges].add(value)
        for position, value in enumerate(node.outputs):
            is_made_there = kernel is not None and position not in kernel.host_outputs
            made[is_made_there].add(value)
    given = {value for value in graph.inputs if not is_initializer(value)}
    handed = read[True] & read[False] & {*given, *captured_values(graph)}
    copied = (made[True] & read[False]) | (made[False] & read[True]) | handed
    return len(copied) + _BOUNDS * len(ranges)


_BOUNDS = 3


def _becomes_a_slice(node: ir.Node, placed: Mapping[ir.Node, Kernel]) -> bool:
    """Return whether a Range is read by one Gather only, on the device.

    onnxruntime makes one Slice of the two, gives start, limit and step an axis on the device, and
    copies them back to the host, where a Slice reads them.
    """
    uses = node.outputs[0].uses() if node.op_type == "Range" else ()
    if len(uses) != 1 or node.outputs[0].is_graph_output():
        return False
    (use,) = uses
    return use.node.op_type == "Gather" and use.idx == 1 and use.node in placed


_WITH_ITS_LOOP = "kept on the host with its loop, which would copy in each iteration"
_PUT_THERE = "whole numbers that a loop reads on the host, put there so that no iteration copies"


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
            else _kernel_of(node, table, model)
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


def _kernel_of(node: ir.Node, table: KernelTable, model: ir.Model) -> Kernel | str:
    found = kernel_of(node, table, model.opset_imports)
    is_told = isinstance(found, str) and is_put_on_host(node)
    return _PUT_THERE if is_told else found


def _places(place: _Place) -> Iterator[_Place]:
    yield place
    for number, node in enumerate(place.graph):
        path = place.prefix + local_name(node, number)
        on_host = place.on_host or stays_on_host(node)
        for name, inner in subgraphs(node):
            is_loop = node.op_type in ("Loop", "Scan")
            loop, loop_path = (node, path) if is_loop else (place.loop, place.loop_path)
            yield from _places(_Place(inner, f"{path}/{name}/", loop, loop_path, on_host))
