"""What an iteration reads of a tensor, one row or all of it, and what values depend on."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.graph.graphs import reads_of
from passes.graph.made import operand
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import Linear
from passes.numbers.slice_bounds import bounds_of
from passes.reading.nodes import ends_far, passed_on

__all__ = ["needed_for", "row_number", "takes_all"]


def row_number(node: ir.Node, evaluator: Evaluator) -> tuple[int, Linear] | None:
    """Return the axis and number of the one row that a Gather or a Slice reads, or None."""
    rank = evaluator.rank(operand(node, 0))
    if not rank:
        return None
    if node.op_type == "Gather":
        index, axis = operand(node, 1), node.attributes.get_int("axis", 0)
        number = evaluator.number(index) if evaluator.rank(index) == 0 else None
        return None if number is None else (axis % rank, number)
    bounds = bounds_of(node, evaluator)
    is_row = bounds is not None and bounds.end == bounds.start + 1
    return (bounds.axis % rank, bounds.start) if bounds is not None and is_row else None


def takes_all(node: ir.Node, evaluator: Evaluator) -> bool:
    """Whether a Slice cuts nothing off."""
    return passed_on(node, evaluator) is not None and not ends_far(node, evaluator)


def needed_for(
    values: Iterable[ir.Value], graph: ir.Graph, among: Iterable[ir.Value] | None = None
) -> list[ir.Node]:
    """Return the nodes of a graph that some values depend on, in order.

    Args:
        values: The values.
        graph: The graph.
        among: Leave out nodes that compute none of these; all are taken by default.
    """
    allowed = None if among is None else set(among)
    found: set[ir.Node] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        node = value.producer()
        if node is None or node.graph is not graph or node in found:
            continue
        if allowed is None or value in allowed:
            found.add(node)
            pending += reads_of(node)
    return [node for node in graph if node in found]
