"""Ifs whose condition is a constant: onnxruntime inlines a branch and loses what it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import (
    captured_values,
    is_default_domain,
    is_operator,
    reads_of,
    subgraphs,
)
from passes.graph.node_copies import copy_body, copy_of
from passes.maps.sequence_map import move_initializers
from passes.runtimes.types import Types

__all__ = ["branch_taken", "has_constant_condition", "newly_decided"]


def has_constant_condition(node: ir.Node, types: Types) -> bool:
    """Whether onnxruntime computes the condition of an If when it loads the model."""
    return _constant_makers(node.inputs[0], types) is not None


def newly_decided(
    ifs: Iterable[ir.Node], others: Collection[ir.Node], types: Types
) -> Iterator[ir.Node]:
    """Yield those of some Ifs of constant condition that one of some other nodes has to do with.

    It makes the condition; or what a branch and a Shape read; or it is the Shape of a result.
    """
    for node in ifs:
        if not is_operator(node, "If") or node in others:
            continue
        # Whether the condition is a constant is asked last: the types of the whole model say so.
        is_at_risk = not _at_risk(node).isdisjoint(others)
        if is_at_risk or _comes_from(node.inputs[0], others):
            makers = _constant_makers(node.inputs[0], types)
            if makers is not None and (is_at_risk or not makers.isdisjoint(others)):
                yield node


def _comes_from(value: ir.Value | None, nodes: Collection[ir.Node]) -> bool:
    """Whether a value is computed by one of some nodes, or of what they make."""
    pending, seen = [value], set[ir.Node]()
    while pending:
        one = pending.pop()
        node = None if one is None else one.producer()
        if node is None or node in seen:
            continue
        if node in nodes:
            return True
        seen.add(node)
        pending += reads_of(node)
    return False


def _at_risk(node: ir.Node) -> set[ir.Node]:
    """Return the makers of what the branches of an If read, and the Shapes of what it yields."""
    captured = {v for _, branch in subgraphs(node) for v in captured_values(branch)}
    makers = {maker for v in captured if _shapes(v) and (maker := v.producer()) is not None}
    return makers.union(*map(_shapes, node.outputs))


def _shapes(value: ir.Value) -> set[ir.Node]:
    return {user for user, _ in value.uses() if user.op_type == "Shape"}


def branch_taken(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The branch, where the condition is known; else an If whose condition is no constant."""
    graph, condition = node.graph, node.inputs[0]
    assert graph is not None and condition is not None
    known = types.known(condition)
    if known is None or known.size != 1:
        return _undecided(node, condition, types, builder)
    branch = node.attributes["then_branch" if known.item() else "else_branch"].as_graph()
    move_initializers(branch, graph)
    values: dict[ir.Value, ir.Value | None] = {}
    builder.nodes.extend(copy_body(branch, values))
    return [copy_of(values, value) for value in branch.outputs]


def _undecided(
    node: ir.Node, condition: ir.Value, types: Types, builder: Builder
) -> list[ir.Value] | None:
    """Return what the If yields by a condition that asks for the size of a tensor, in vain."""
    tensor = next(_run_time_tensors(node, types), None)
    if tensor is None:
        return None
    never = builder.op("Less", [builder.op("Size", [tensor]), builder.scalar(0)])
    values: dict[ir.Value, ir.Value | None] = {condition: builder.op("Or", [condition, never])}
    builder.nodes.extend(copy_body([node], values))
    return [values[value] or value for value in node.outputs]


def _run_time_tensors(node: ir.Node, types: Types) -> Iterator[ir.Value]:
    """Yield tensors that the branches of an If read, and that are no constants."""
    for _, branch in subgraphs(node):
        for value in captured_values(branch):
            if types.is_tensor(value) and _constant_makers(value, types) is None:
                yield value


def _constant_makers(value: ir.Value | None, types: Types) -> set[ir.Node] | None:
    """Return the nodes that make a constant; None where a value depends on what is fed.

    Whether a shape is known is asked last, since the types of the whole model say so.
    """
    makers: set[ir.Node] = set()
    pending, shapes = [value], list[ir.Node]()
    while pending or shapes:
        if not pending:
            shape = shapes.pop()
            if not types.has_static_shape(shape):
                pending += shape.inputs
            continue
        value = pending.pop()
        if value is None or (value.is_initializer() and not value.is_graph_input()):
            continue
        node = value.producer()
        if node is None or not is_default_domain(node):
            return None
        if node in makers:
            continue
        makers.add(node)
        if node.op_type == "Shape":
            shapes.append(node)
            continue
        graphs = [graph for _, graph in subgraphs(node)]
        if (node.op_type != "Constant" and not node.inputs) or (graphs and node.op_type != "If"):
            return None
        pending += reads_of(node)
    return makers
