"""Ifs in loops that the device decides: both branches run, and no condition is copied.

The host chooses the branch of an If. Where the device computes the condition in an iteration, each
iteration waits for a copy of it. Two light branches, computed both, cost the device less.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from passes.device.host_facts import graph_of
from passes.device.host_reading import HostReadingPass
from passes.device.host_values import HostValues, values_in_loops
from passes.fusing.measured_costs import HEAVY
from passes.graph.graphs import default_opset, is_operator, subgraphs
from passes.graph.if_outputs import branches_of
from passes.graph.names import make_names_unique
from passes.graph.splice import remove_dead
from passes.runtimes.branch_choice import have_one_shape, hindrance
from passes.runtimes.select_branches import replace_if
from passes.typing import Typing, type_values

__all__ = ["DecidedOnDevicePass"]

_MOST_NODES = 8


class DecidedOnDevicePass(HostReadingPass):
    """Compute both branches of an If in a loop and pick the results element by element.

    1. The condition is computed in the iteration, from what the host does not have.
    2. The branches are a few light nodes, none of which could fail where the model would not run
       it, and yield tensors of one shape.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace Ifs in loops, inner ones first."""
        modified = False
        while self._replace_some(model):
            modified = make_names_unique(model) or True
        return ir.passes.PassResult(model, modified)

    def _replace_some(self, model: ir.Model) -> bool:
        """Replace Ifs that hold no other If."""
        facts, inside = values_in_loops(model, self._reads_on_host)
        if facts is None:
            return False
        found = [
            node
            for graph in inside
            for node in list(graph)
            if is_operator(node, "If") and _is_decided(node, inside)
        ]
        remove_dead([node for one in inside.values() for node in reversed(one.made)])
        if not found:
            return False
        typing, opset = type_values(model, proven=True, ranks=False), default_opset(model)
        chosen = [node for node in found if _is_light(node) and _picks(node, typing, opset)]
        for node in chosen:
            replace_if(node, typing, model, node.name or node.op_type)
        return bool(chosen)


def _is_decided(node: ir.Node, inside: Mapping[ir.Graph, HostValues]) -> bool:
    """Return whether the device computes the condition of an If in the iteration."""
    condition = node.inputs[0]
    if condition is None or condition.producer() is None:
        return False
    graph = graph_of(condition)
    return graph is not None and graph in inside and inside[graph].of(condition) is None


def _is_light(node: ir.Node) -> bool:
    nodes = [inner for graph in branches_of(node) for inner in graph]
    return len(nodes) <= _MOST_NODES and not any(
        inner.op_type in HEAVY or subgraphs(inner) for inner in nodes
    )


def _picks(node: ir.Node, typing: Typing, opset: int) -> bool:
    pairs = zip(*(graph.outputs for graph in branches_of(node)), strict=True)
    return not hindrance(node, typing, opset, holds_reads=False) and all(
        have_one_shape(one, other, typing, opset) for one, other in pairs
    )
