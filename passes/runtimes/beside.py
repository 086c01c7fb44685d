"""Finds the author's nodes that a runtime takes together with new ones."""

from __future__ import annotations

from collections.abc import Callable, Collection

import onnx_ir as ir

from passes.graph.graphs import makers

__all__ = ["TAKEN_AWAY", "Beside", "anywhere", "by_way_of", "is_captured"]

TAKEN_AWAY = (
    *("Add", "Cast", "Div", "Dropout", "Expand", "Identity", "Mul", "Reshape", "Slice", "Sub"),
)
"""Operators that onnxruntime takes away where they change nothing."""

Beside = Callable[[ir.Node, Collection[ir.Node]], bool]
"""Whether a node of the author's is looked at, given the nodes that are new."""


def anywhere(node: ir.Node, new: Collection[ir.Node]) -> bool:
    """Wherever it stands: what a new node changes goes through all others."""
    return bool(new)


def by_way_of(*operators: str) -> Beside:
    """Next to a new node, or behind one, with nothing but some operators between them."""

    def is_beside(node: ir.Node, new: Collection[ir.Node]) -> bool:
        return _is_read_by(node, new) or _is_behind(node, new, operators)

    return is_beside


def _is_read_by(node: ir.Node, new: Collection[ir.Node]) -> bool:
    return any(use.node in new for value in node.outputs for use in value.uses())


def _is_behind(node: ir.Node, new: Collection[ir.Node], operators: Collection[str]) -> bool:
    """Whether there is a way from one of some operators that is new, by way of others of them."""
    found = (maker for value in node.inputs if value for maker in makers(value, operators))
    return any(maker in new and maker.op_type in operators for maker in found)


def is_captured(node: ir.Node) -> bool:
    """Whether a graph inside of a node reads a result, or what may be the same once more."""
    seen, left = {node}, [node]
    while left:
        for reader in {use.node for value in left.pop().outputs for use in value.uses()}:
            if reader.graph is not node.graph:
                return True
            if reader.op_type in TAKEN_AWAY and reader not in seen:
                seen.add(reader)
                left.append(reader)
    return False
