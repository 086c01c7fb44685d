"""Replaces an If by its branch where its condition is known."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.graph.graphs import all_nodes, is_operator, subgraphs, walk_nodes
from passes.graph.names import make_names_unique
from passes.graph.splice import remove_dead
from passes.maps.sequence_map import move_initializers
from passes.numbers.folding import Folder
from passes.typing import type_values

__all__ = ["FoldBranchesPass", "chosen_branch", "fold_branches"]


class FoldBranchesPass(ir.passes.InPlacePass):
    """Replace an If in a Loop, or around a map, by the branch that it takes in every run.

    Exporters write ``Squeeze`` as an If on the rank or on a dimension; behind NonMaxSuppression,
    which yields three columns, either is known. The result then has one rank, and the body can be
    batched.
    """

    only_for = (("If",),)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Fold in the main graph, subgraphs and functions."""
        loops = [node for node in all_nodes(model) if is_operator(node, ("Loop", "Scan"))]
        inside = [node for loop in loops for _, body in subgraphs(loop) for node in body]
        inside = [node for node in walk_nodes(inside) if node.op_type == "If"]
        inside += [node for node in all_nodes(model) if _holds_maps(node)]
        if not inside:
            return ir.passes.PassResult(model, False)
        modified = make_names_unique(model)
        folder = Folder(type_values(model, proven=True, ranks=False))
        modified |= fold_branches(dict.fromkeys(inside), folder)
        return ir.passes.PassResult(model, modified)


def _holds_maps(node: ir.Node) -> bool:
    """Whether a node is an If with a SequenceMap in a branch."""
    if not is_operator(node, "If"):
        return False
    inside = walk_nodes(inner for _, branch in subgraphs(node) for inner in branch)
    return any(is_operator(inner, "SequenceMap") for inner in inside)


def chosen_branch(node: ir.Node, folder: Folder) -> ir.Graph | None:
    """Return the branch that an If takes in every run; None if it is no If or that is unknown."""
    if not is_operator(node, "If"):
        return None
    condition = folder.value(node.inputs[0])
    if condition is None or condition.size != 1:
        return None
    return _branch(node, bool(condition.reshape(()).item()))


def _branch(node: ir.Node, condition: bool) -> ir.Graph:
    return node.attributes["then_branch" if condition else "else_branch"].as_graph()


def fold_branches(nodes: Iterable[ir.Node], folder: Folder) -> bool:
    """Put branches in the place of nodes whose branch is known, at any depth.

    Args:
        nodes: Nodes of a graph, or of several.
        folder: Knows the conditions.

    Returns:
        Whether a node was replaced.
    """
    folded = False
    for node in list(walk_nodes(nodes)):
        branch = chosen_branch(node, folder) if node.graph is not None else None
        if branch is not None:
            _inline_branch(node, branch)
            folded = True
    return folded


def _inline_branch(node: ir.Node, branch: ir.Graph) -> None:
    graph = node.graph
    assert graph is not None
    move_initializers(branch, graph)
    outputs = list(branch.outputs)
    branch.outputs.clear()
    nodes = list(branch)
    branch.remove(nodes)
    graph.insert_before(node, nodes)
    for old, new in zip(node.outputs, outputs, strict=True):
        new.type = new.type or old.type
        own, name = _own(graph, node, old, new), old.name
        is_output = old.is_graph_output()
        old.replace_all_uses_with(own, replace_graph_outputs=True)
        if is_output:
            old.name, own.name, own.type, own.shape = None, name, old.type, old.shape
    remove_dead([node])


def _own(graph: ir.Graph, node: ir.Node, old: ir.Value, new: ir.Value) -> ir.Value:
    """Return a value that may be an output of ``graph`` in the place of ``old``.

    An output must be computed in its graph, and stand there once.
    """
    producer = new.producer()
    if not old.is_graph_output() or (
        producer is not None and producer.graph is graph and not new.is_graph_output()
    ):
        return new
    copied = ir.Node("", "Identity", [new], name=f"{node.name}/Identity")
    copied.outputs[0].type, copied.outputs[0].shape = old.type, old.shape
    graph.insert_before(node, copied)
    return copied.outputs[0]
