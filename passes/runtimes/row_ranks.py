"""Values whose rank a runtime may not know where a Loop runs no iteration.

onnxruntime yields a scan output of shape (0) then, unless the body tells a rank for its rows. Our
inference may know the rank all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.graph.graphs import all_nodes, is_operator, subgraphs
from passes.graph.made import operand

__all__ = ["values_of_open_rank"]

_TELL_RANK = ("NonZero", "Reshape", "Shape", "Size")
"""Operators whose result has a rank that their first operand does not tell."""


def values_of_open_rank(model: ir.Model) -> frozenset[ir.Value]:
    """Return what Loops collect of rows without a declared rank, and all that follows from it."""
    nodes = list(all_nodes(model))
    pending = [value for node in nodes if is_operator(node, "Loop") for value in _rows(node)]
    if not pending:
        return frozenset()
    owners = {graph: node for node in nodes for _, graph in subgraphs(node)}
    seen: set[ir.Value] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses():
            pending += _results(use.node, value)
        if value.graph is not None and value.graph in owners and value.is_graph_output():
            pending += owners[value.graph].outputs
    return frozenset(seen)


def _rows(loop: ir.Node) -> Iterator[ir.Value]:
    """Yield the scan outputs of a Loop whose rows have no declared shape."""
    states = len(loop.inputs) - 2
    parts = loop.attributes["body"].as_graph().outputs[1 + states :]
    for collected, part in zip(loop.outputs[states:], parts, strict=True):
        if part.shape is None:
            yield collected


def _results(node: ir.Node, value: ir.Value) -> Iterator[ir.Value]:
    """Yield what may have its rank of a value that a node reads."""
    if is_operator(node, _TELL_RANK) and operand(node, 0) is value:
        return
    yield from node.outputs
    for _, graph in subgraphs(node):
        yield from graph.inputs
