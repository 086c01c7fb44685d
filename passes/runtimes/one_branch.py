"""Nodes that one branch alone reads, in that branch: the other one does not wait for them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from passes.batching.failing import cannot_fail
from passes.graph.graphs import all_graphs, all_nodes, is_operator, subgraphs
from passes.graph.names import make_names_unique
from passes.runtimes.sidestep import OthersPass

__all__ = ["OneBranchPass"]

Owners = Mapping[ir.Graph, ir.Node]
"""The node that each inner graph belongs to."""


class OneBranchPass(OthersPass):
    """Move nodes in front of an If into the one branch that reads them, at any depth.

    What could fail stays, since it would no longer fail where the other branch runs. What the
    model's author wrote stays, too.
    """

    only_for = (("If",),)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Move what can be moved, out of outer graphs first."""
        nodes = set(self._others(model))
        owners = {inner: node for node in all_nodes(model) for _, inner in subgraphs(node)}
        if not any(_branch_for(node, owners) for node in nodes):
            return ir.passes.PassResult(model, False)
        modified = make_names_unique(model)
        typing = self._typing(model)
        for graph in all_graphs(model):
            for node in list(graph)[::-1]:
                branch = _branch_for(node, owners) if node in nodes else None
                if branch is not None and cannot_fail(node, typing):
                    graph.remove(node)
                    branch.insert_before(branch[0], node)
                    modified = True
        return ir.passes.PassResult(model, modified)


def _branch_for(node: ir.Node, owners: Owners) -> ir.Graph | None:
    """Return the branch of an If beside a node that alone reads it; None if there is none."""
    if is_operator(node, "Constant") or any(value.is_graph_output() for value in node.outputs):
        return None
    readers = [use.node for value in node.outputs for use in value.uses()]
    found = {_branch_around(reader, node, owners) for reader in readers}
    return found.pop() if len(found) == 1 else None


def _branch_around(reader: ir.Node, node: ir.Node, owners: Owners) -> ir.Graph | None:
    """Return the branch that a reader stands in, of an If in the graph of a node."""
    around: ir.Node | None = reader
    while around is not None and around.graph is not node.graph:
        graph = around.graph
        around = owners.get(graph) if isinstance(graph, ir.Graph) else None
        if around is not None and around.graph is node.graph and is_operator(around, "If"):
            return graph
    return None
