"""Puts new nodes in the place of old ones, and removes what nothing reads any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.drafts import drafting, drop_uses
from passes.graph.graphs import all_graphs, captured_values, is_used, subgraphs
from passes.graph.node_copies import rank_alone

__all__ = [
    "drop_initializers",
    "hand_over",
    "remove_dead",
    "splice",
    "splice_form",
    "unread_initializers",
]


def splice(
    builder: Builder, node: ir.Node, replacements: Iterable[tuple[ir.Value, ir.Value]]
) -> dict[ir.Value, ir.Value]:
    """Insert what a builder recorded before a node, and replace values by new ones.

    A new value takes the name, type and rank of the value that it replaces, and the dimensions
    of an output of the graph: those of any other may be false. The node, and what only it needed,
    is removed when nothing reads it any more. An output that is left out needs no new value.

    Args:
        builder: The new nodes.
        node: Where they go; usually the node that they replace.
        replacements: Pairs of old and new value.

    Returns:
        For each old value the one that is read in its place.
    """
    graph = node.graph
    assert graph is not None
    pairs = [(old, new) for old, new in replacements if old.name != ""]
    own = {out for new in builder.nodes for out in new.outputs}
    named: set[ir.Value] = set()
    for i, (old, new) in enumerate(pairs):
        if new not in own or new in named or new.is_graph_output():
            pairs[i] = (old, builder.op("Identity", [new]))
        named.add(pairs[i][1])
    builder.prune(named)
    graph.insert_before(node, builder.nodes)
    users = [old.producer() for old, _ in pairs]
    for old, new in pairs:
        name = old.name
        new.type = old.type or new.type
        new.shape = old.shape if old.is_graph_output() else rank_alone(old.shape)
        new.doc_string = old.doc_string
        new.metadata_props.update(old.metadata_props)
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        old.name = None
        new.name = name
    remove_dead([node, *(user for user in users if user is not None)])
    return dict(pairs)


def splice_form(node: ir.Node, form: Callable[[Builder], Sequence[ir.Value] | None]) -> bool:
    """Put another form of a node in its place; its metadata go with it.

    Args:
        node: The node.
        form: Records the form and returns its outputs, None where the node stays as it is.

    Returns:
        Whether there is another form.
    """
    builder = Builder.at(node)
    with drafting() as draft:
        new = form(builder)
        if new is None:
            return False
        draft.keep_all()
    for made in builder.nodes:
        made.metadata_props.update(node.metadata_props)
    splice(builder, node, zip(node.outputs, new, strict=True))
    return True


def remove_dead(nodes: Iterable[ir.Node]) -> None:
    """Remove the nodes with outputs that nothing reads, then the nodes that only they read."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        graph = node.graph
        if graph is None or any(is_used(out) for out in node.outputs):
            continue
        read = {v for v in node.inputs if v is not None}
        for _, inner in subgraphs(node):
            read.update(captured_values(inner))
            drop_uses(list(inner))
        graph.remove(node, safe=True)
        pending.extend(p for v in read if (p := v.producer()) is not None)


def unread_initializers(model: ir.Model) -> set[ir.Value]:
    """Return the initializers of the main graph that no node and no output reads."""
    read: set[ir.Value | None] = set()
    for graph in all_graphs(model):
        read.update(graph.outputs)
        for node in graph:
            read.update(node.inputs)
    return {value for value in model.graph.initializers.values() if value not in read}


def drop_initializers(model: ir.Model, spared: set[ir.Value]) -> bool:
    """Drop the initializers that nothing reads, but for those that are inputs of the graph too.

    Args:
        model: The model.
        spared: Those that nothing read before the rewrite either; they stay.
    """
    unread = unread_initializers(model) - spared - set(model.graph.inputs)
    for value in unread:
        assert value.name is not None
        model.graph.initializers.pop(value.name, None)
    return bool(unread)


def hand_over(old: ir.Value, new: ir.Value) -> None:
    """Let a value be read, and called, and typed, in the place of another."""
    name, old.name = old.name, None
    new.name = name
    new.type, new.shape, new.doc_string = old.type, old.shape, old.doc_string
    new.metadata_props.update(old.metadata_props)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
