"""Nodes of a picture: which stand beside a map, and what a picture says of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from passes.graph.builder import ORIGIN_KEY
from passes.graph.graphs import captured_values, subgraphs
from passes.sequence_operators import SEQUENCE_OPERATORS
from rewriter.model_files.model_facts import LOOP_OPERATORS, type_text
from rewriter.reporting.printable import printable

__all__ = ["around", "ends_of", "first_of", "kind_of", "told_node", "told_value", "values_read"]

_MOST_BESIDE = 6
"""Nodes that are drawn before a map, and as many behind it."""


def around(core: Sequence[ir.Node]) -> tuple[list[ir.Node], list[ir.Node]]:
    """Return the nodes one step before some nodes, and one step behind, in the same graphs."""
    graphs = {node.graph for node in core}
    known = set(core)

    def others(found: Iterable[ir.Node | None]) -> list[ir.Node]:
        new = [node for node in found if node and node not in known and node.graph in graphs]
        known.update(new)
        return list(dict.fromkeys(new))

    before = others(value.producer() for node in core for value in values_read(node))
    behind = others(user for node in core for one in node.outputs for user in one.consumers())
    return before, behind


def first_of(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """Return the first of some nodes; too many would leave no room for the map."""
    return [node for node in nodes if node.op_type != "Constant"][:_MOST_BESIDE]


def ends_of(nodes: Sequence[ir.Node]) -> tuple[str, ...]:
    """Return the names of what nodes read of others, and of what others read of them."""
    inner = set(nodes)
    read = [v for node in nodes for v in values_read(node) if v.producer() not in inner]
    made = [v for node in nodes for v in node.outputs]
    made = [v for v in made if v.is_graph_output() or not inner.issuperset(v.consumers())]
    return tuple(dict.fromkeys(v.name for v in [*read, *made] if v.name))


def values_read(node: ir.Node) -> list[ir.Value]:
    """Return what a node reads, values that its subgraphs capture included."""
    captured = [value for _, graph in subgraphs(node) for value in captured_values(graph)]
    return [*(value for value in node.inputs if value is not None), *captured]


def kind_of(node: ir.Node) -> str:
    """Return the kind of a node, which gives it its colour."""
    if node.domain not in ("", "ai.onnx"):
        return "plain"
    if node.op_type in LOOP_OPERATORS:
        return "loop"
    if node.op_type == "If":
        return "branch"
    return "sequence" if node.op_type in SEQUENCE_OPERATORS else "plain"


def told_node(node: ir.Node) -> str:
    """Return what a node is: operator, name, results, and what it stands for."""
    name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    lines = [f"{name} {node.name or ''}".strip(), *(told_value(one) for one in node.outputs)]
    origin = node.metadata_props.get(ORIGIN_KEY)
    lines += [f"stands for {origin}"] if origin else []
    return "\n".join(map(printable, lines))


def told_value(value: ir.Value) -> str:
    """Return the name and the type of a value."""
    return printable(f"{value.name or '(unnamed)'}: {type_text(value.type, value.shape)}")
