"""Copies of nodes and graphs, which stand in a graph that a rewrite makes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx_ir as ir

from passes.graph.drafts import note
from passes.graph.graphs import is_default_domain, subgraphs

__all__ = [
    "copy_body",
    "copy_graph",
    "copy_node",
    "copy_nodes",
    "copy_of",
    "copy_value",
    "forget_dims",
    "forget_shapes",
    "node_like",
    "rank_alone",
]

_INFERRED_WRONGLY = frozenset({"Attention"})
"""Operators for which ONNX's inference gives false ranks: the checker refuses true ones."""


def copy_node(node: ir.Node, values: dict[ir.Value, ir.Value | None]) -> ir.Node:
    """Copy a node, its graphs included, reading ``values[v]`` wherever it read ``v``.

    Args:
        node: The node.
        values: Substitution; the outputs of the copy are added to it. A value that it lacks
            belongs to an enclosing graph and is read as it is.
    """
    read = [None if v is None else values.get(v, v) for v in node.inputs]
    attributes = [_copy_attribute(a, values) for a in node.attributes.values()]
    new = node_like(node, read, attributes, len(node.outputs))
    for old, out in zip(node.outputs, new.outputs, strict=True):
        out.name, out.type, out.shape = old.name, old.type, old.shape
        values[old] = out
    return new


def node_like(
    node: ir.Node, inputs: Iterable[ir.Value | None], attributes: Iterable[ir.Attr], outputs: int
) -> ir.Node:
    """Return a node of the operator, the name and the metadata of another, to take its place.

    Args:
        node: The other one.
        inputs: What the new one reads.
        attributes: Its attributes.
        outputs: How many values it yields; they have neither names nor types yet.
    """
    new = ir.Node(
        node.domain,
        node.op_type,
        list(inputs),
        list(attributes),
        overload=node.overload,
        num_outputs=outputs,
        version=node.version,
        name=node.name,
        doc_string=node.doc_string,
        metadata_props=dict(node.metadata_props),
    )
    note(new)
    new.meta.update(node.meta)
    return new


def copy_nodes(nodes: Iterable[ir.Node], values: dict[ir.Value, ir.Value | None]) -> list[ir.Node]:
    """Copy nodes in order; see `copy_node`."""
    return [copy_node(node, values) for node in nodes]


def copy_graph(graph: ir.Graph, values: dict[ir.Value, ir.Value | None]) -> ir.Graph:
    """Copy a graph; inputs, initializers and outputs of nodes are added to ``values``."""
    for value in (*graph.inputs, *graph.initializers.values()):
        values[value] = copy_value(value)
    nodes = copy_nodes(graph, values)

    def copied(originals: Iterable[ir.Value]) -> list[ir.Value]:
        made = []
        for original in originals:
            value = values.get(original, original)
            assert value is not None
            made.append(value)
        return made

    new = ir.Graph(
        copied(graph.inputs),
        copied(graph.outputs),
        nodes=nodes,
        initializers=copied(graph.initializers.values()),
        doc_string=graph.doc_string,
        opset_imports=dict(graph.opset_imports),
        name=graph.name,
    )
    new.metadata_props.update(graph.metadata_props)
    return new


def copy_of(values: Mapping[ir.Value, ir.Value | None], value: ir.Value) -> ir.Value:
    """Return what a value became in a copy, or the value if it became nothing else."""
    found = values.get(value)
    return value if found is None else found


def _copy_attribute(attribute: ir.Attr, values: dict[ir.Value, ir.Value | None]) -> ir.Attr:
    if attribute.is_ref():
        return attribute
    if attribute.type == ir.AttributeType.GRAPH:
        return ir.AttrGraph(attribute.name, copy_graph(attribute.as_graph(), values))
    if attribute.type == ir.AttributeType.GRAPHS:
        graphs = [copy_graph(g, values) for g in attribute.as_graphs()]
        return ir.AttrGraphs(attribute.name, graphs)
    return attribute


def copy_value(value: ir.Value) -> ir.Value:
    """Return a value of the same name, type and constant that belongs to no graph."""
    return ir.Value(
        name=value.name,
        type=value.type,
        shape=value.shape,
        doc_string=value.doc_string,
        const_value=value.const_value,
    )


def copy_body(nodes: Iterable[ir.Node], values: dict[ir.Value, ir.Value | None]) -> list[ir.Node]:
    """Copy nodes in order as `copy_nodes` does, without the dimensions that are declared."""
    copies = copy_nodes(nodes, values)
    forget_dims(copies)
    return copies


def forget_dims(nodes: Iterable[ir.Node], kept: Collection[ir.Value] = ()) -> None:
    """Let what nodes yield have a rank and no dimensions: what a body declares may be false.

    onnxruntime folds what a graph computes of declared dimensions: with ``float[10,7,3]`` on a
    value, `Shape` of it is [10, 7, 3] whatever the value is. The outputs of the body of a Loop
    keep theirs, which tell what a Loop of no steps yields, and so does the body of a map, which
    is yet to be copied. onnxruntime refuses a Scan that yields a value of unknown rank.

    Args:
        nodes: The nodes; changed at any depth.
        kept: Values that keep their dimensions.
    """
    for node in nodes:
        for _, inner in subgraphs(node):
            if node.op_type != "SequenceMap":
                forget_dims(inner, inner.outputs if node.op_type in ("Loop", "Scan") else ())
        for value in node.outputs:
            if node.op_type in _INFERRED_WRONGLY:
                value.shape = None
            elif value not in kept:
                value.shape = rank_alone(value.shape)


def forget_shapes(nodes: Iterable[ir.Node]) -> None:
    """Let what operators of ONNX yield have no shape: what a body declares may be false in rank.

    This is for copies that run one after another, whose shapes every runtime infers. Those of
    loops, which it may not infer, stay.
    """
    for node in nodes:
        if not is_default_domain(node) or node.op_type in ("Loop", "Scan", "SequenceMap"):
            continue
        for _, inner in subgraphs(node):
            forget_shapes(inner)
        for value in node.outputs:
            value.shape = None


def rank_alone(shape: ir.Shape | None) -> ir.Shape | None:
    """Return a shape of the same rank that has no dimensions."""
    return None if shape is None else ir.Shape([None] * len(shape))
