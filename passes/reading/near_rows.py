"""Rows that a branch cuts out beside the iteration's own, read in iterations that lack them, too.

``if i > 0: y = x[i - 1]`` is a Slice from ``i - 1`` to ``i`` whose axis a Squeeze removes. In the
first iteration, which does not take the branch, it is empty, and the Squeeze fails: there another
row is read, which nothing uses.
"""

from __future__ import annotations

from collections.abc import MutableMapping

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.graph.node_copies import copy_of
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.slice_bounds import bounds_of
from passes.reading.facts import LoopFacts
from passes.typing.needed_places import needs_one

__all__ = ["read_near_row"]


def read_near_row(
    builder: Builder,
    node: ir.Node,
    values: MutableMapping[ir.Value, ir.Value | None],
    facts: LoopFacts,
    trips: Linear,
) -> ir.Value | None:
    """Record a Slice of one row at a place that is there; None where it is no such Slice.

    A row that is there stays the one that it is.

    Args:
        builder: Records it.
        node: A node of the body.
        values: What values became in the copy of the body.
        facts: The Loop or Scan.
        trips: How many iterations there are, if there are any.
    """
    if node not in facts.speculated or not is_operator(node, "Slice"):
        return None
    evaluator, data = facts.evaluator, operand(node, 0)
    bounds, rank = bounds_of(node, evaluator), evaluator.rank(data)
    if bounds is None or rank is None or (bounds.end - bounds.start).number != 1:
        return None
    axis = bounds.axis % rank
    size = evaluator.dimension(data, axis)
    given = facts.speculated[node]
    has_rows = size is not None and is_nonnegative(size - trips)
    is_alone = evaluator.dims(operand(node, 1)) == (1,)
    if not (has_rows and is_alone and needs_one(evaluator, given.outputs[0], axis, rank)):
        return None
    whole, zero, one = copy_of(values, data), builder.ints(0), builder.ints(1)
    start = copy_of(values, operand(node, 1))
    count = builder.shape(whole, axis, axis + 1)
    start = builder.op("Cast", [start], {"to": ir.DataType.INT64})
    is_behind = builder.op("Less", [start, zero])
    place = builder.op("Where", [is_behind, builder.op("Add", [start, count]), start])
    lowest = builder.op("Max", [place, zero])
    place = builder.op("Min", [lowest, builder.op("Sub", [count, one])])
    end = builder.op("Add", [place, one])
    return builder.op("Slice", [whole, place, end, builder.ints(axis)])
