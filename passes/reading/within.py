"""Rows that an iteration reads by a counted number, and that are there in all iterations."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.reading.facts import LoopFacts
from passes.reading.integers import TRIP, Linear
from passes.reading.number_order import is_nonnegative

__all__ = ["reads_within"]


def reads_within(node: ir.Node, facts: LoopFacts) -> bool:
    """Whether a Gather reads a row that every iteration has: ``x[i + 1]`` of ``n - 1`` ones.

    Args:
        node: A node of the body, or of a branch in it.
        facts: The Loop or Scan.
    """
    evaluator, trips = facts.evaluator, facts.iteration.trips
    if not is_operator(node, "Gather") or trips is None or evaluator.rank(operand(node, 1)) != 0:
        return False
    tensor, axis = operand(node, 0), node.attributes.get_int("axis", 0)
    place, count = evaluator.number(operand(node, 1)), evaluator.number(trips)
    rank = evaluator.rank(tensor)
    size = None if rank is None else evaluator.dimension(tensor, axis % rank)
    if place is None or count is None or size is None or place.coefficient(TRIP) < 0:
        return False
    first, last = (place.replace({TRIP: at}) for at in (Linear(0), count - 1))
    return is_nonnegative(first) and is_nonnegative(size - 1 - last)
