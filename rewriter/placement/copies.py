"""Finds the copies that onnxruntime makes between host and device."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from passes.graph.graphs import captured_values
from rewriter.placement.host_rule import is_initializer
from rewriter.placement.kernel_table import Kernel

__all__ = ["count_copies"]


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
