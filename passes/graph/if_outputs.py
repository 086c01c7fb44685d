"""The branches of an If, what each of its outputs is computed of, and an If that has some."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from passes.graph.graphs import is_operator, reads_of, subgraphs
from passes.graph.node_copies import node_like

__all__ = ["branches_of", "drop_unread", "read_for", "with_outputs"]


def branches_of(node: ir.Node) -> list[ir.Graph]:
    """Return the graph that an If runs where its condition holds, and the other one."""
    return [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]


def read_for(value: ir.Value) -> list[ir.Value]:
    """Return what the node that makes a value reads for it, by its graphs too.

    Of an If with several outputs that is the condition, and what those nodes of its branches read
    from around it that compute this one. A value that nothing makes is read from nowhere.
    """
    node = value.producer()
    if node is None:
        return []
    if not is_operator(node, "If") or len(node.outputs) < 2:
        return reads_of(node)
    at = list(node.outputs).index(value)
    read = dict.fromkeys(v for v in node.inputs if v is not None)
    for _, graph in subgraphs(node):
        read |= dict.fromkeys(_read_around(graph, graph.outputs[at]))
    return list(read)


def _read_around(graph: ir.Graph, output: ir.Value) -> list[ir.Value]:
    """Return what an output of a branch is computed of that the branch does not make."""
    own = {value for node in graph for value in node.outputs} | set(graph.initializers.values())
    pending, around = [output], dict[ir.Value, None]()
    seen = set(pending)
    for value in pending:
        if value not in own:
            around[value] = None
            continue
        new = [v for v in read_for(value) if v not in seen]
        seen.update(new)
        pending += dict.fromkeys(new)
    return list(around)


def with_outputs(node: ir.Node, kept: Collection[int]) -> ir.Node:
    """Return an If that yields some of the outputs of another, and takes its branches over.

    Args:
        node: The If; it reads nothing any more.
        kept: The numbers of the outputs.
    """
    attributes = list(node.attributes.values())
    node.attributes.clear()
    for attribute in attributes:
        graph = attribute.as_graph()
        for at in reversed(range(len(graph.outputs))):
            if at not in kept:
                del graph.outputs[at]
        _drop_unread(graph)
    new = node_like(node, node.inputs, attributes, len(kept))
    for at in range(len(node.inputs)):
        node.replace_input_with(at, None)
    for out, old in zip(new.outputs, (node.outputs[at] for at in sorted(kept)), strict=True):
        out.name, out.type, out.shape = old.name, old.type, old.shape
    return new


def drop_unread(node: ir.Node) -> None:
    """Leave nothing in the branches of an If that its outputs do not need, at any depth."""
    for _, graph in subgraphs(node):
        _drop_unread(graph)


def _drop_unread(graph: ir.Graph) -> None:
    """Remove the nodes of a branch whose results nothing reads."""
    for node in reversed(list(graph)):
        kept = [at for at, v in enumerate(node.outputs) if v.uses() or v in graph.outputs]
        if not kept:
            for _, inner in subgraphs(node):
                inner.outputs.clear()
                _drop_unread(inner)
            graph.remove(node, safe=True)
        elif is_operator(node, "If"):
            drop_unread(node if len(kept) == len(node.outputs) else _narrowed(graph, node, kept))


def _narrowed(graph: ir.Graph, node: ir.Node, kept: Collection[int]) -> ir.Node:
    """Put an If that yields some of the outputs of another in its place."""
    outputs = [node.outputs[at] for at in sorted(kept)]
    new = with_outputs(node, kept)
    graph.insert_before(node, new)
    for old, value in zip(outputs, new.outputs, strict=True):
        ir.convenience.replace_all_uses_with(old, value, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    return new
