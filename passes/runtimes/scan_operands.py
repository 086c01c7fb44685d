"""What OpenVINO computes in place of a slice of a Scan, which the next iterations then read."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.graph.node_copies import copy_body
from passes.runtimes.types import Types

__all__ = ["has_slices_in_front", "with_slices_behind"]

_TURNED = frozenset({"Add", "Max", "Min", "Mul"})
"""Operators whose operands may change places."""


def has_slices_in_front(node: ir.Node, types: Types) -> bool:
    """Whether a node in a Scan joins a slice to something else that is no slice."""
    return any(True for _ in _in_front(node))


def with_slices_behind(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same Scan, where a slice is the second operand."""
    (scan,) = copy_body([node], {})
    for inner in list(_in_front(scan)):
        first, second = inner.inputs
        inner.replace_input_with(0, second)
        inner.replace_input_with(1, first)
    builder.nodes.append(scan)
    return list(scan.outputs)


def _in_front(node: ir.Node) -> Iterator[ir.Node]:
    """Yield the nodes of a Scan whose first operand is a slice, and whose second one is none."""
    body = node.attributes["body"].as_graph()
    slices = body.inputs[len(body.inputs) - node.attributes.get_int("num_scan_inputs", 0) :]
    for inner in body:
        if is_operator(inner, _TURNED) and len(inner.inputs) == 2:
            first, second = (operand(inner, at) for at in range(2))
            if first in slices and second not in slices:
                yield inner
