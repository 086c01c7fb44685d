"""What the branches of an If compute, computed outside of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from passes.carried.pattern import added
from passes.graphs import reads_of
from passes.node_copies import copy_node

__all__ = ["hoist"]


def hoist(
    values: Sequence[ir.Value], branches: Sequence[ir.Graph]
) -> tuple[list[ir.Value], list[ir.Node], list[tuple[ir.Node, ir.Node]]]:
    """Copy what computes some values inside of branches.

    Args:
        values: Values of a body, or of the branches of an If in it.
        branches: The branches.

    Returns:
        The values as they are known outside; the copies, in order; and pairs of a copy and the
        node that it is made of, which ran under a condition.
    """
    needed: set[ir.Node] = set()
    pending = list(values)
    while pending:
        node = pending.pop().producer()
        if node is None or node.graph not in branches or node in needed:
            continue
        needed.add(node)
        pending += reads_of(node)
    constants, copies = _constants(branches, {*values, *(v for n in needed for v in reads_of(n))})
    pairs = [
        (copy_node(node, copies), node) for graph in branches for node in graph if node in needed
    ]
    made = [copies.get(value) or value for value in values]
    return made, [*constants, *(copy for copy, _ in pairs)], pairs


def _constants(
    branches: Sequence[ir.Graph], read: Collection[ir.Value]
) -> tuple[list[ir.Node], dict[ir.Value, ir.Value | None]]:
    """Return Constants for the initializers of branches that are read, and what each is for."""
    given = [v for graph in branches for v in graph.initializers.values() if v in read]
    nodes = [added("Constant", [], {"value": v.const_value}) for v in given]
    return nodes, {v: node.outputs[0] for v, node in zip(given, nodes, strict=True)}
