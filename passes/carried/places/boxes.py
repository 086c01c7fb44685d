"""The box of a carried tensor that an iteration reads: one range, or one place, of each axis.

PyTorch reads ``s[i, :n]`` as a Gather of row ``i`` and a Slice of that.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.carried.places.range_reads import Range
from passes.graph.made import either_order, made_by, operand, operands, skip_identities, through
from passes.numbers.integers import Linear
from passes.numbers.slice_bounds import axis_cut_in_steps_of_1, bounds_of
from passes.reading.facts import LoopFacts

__all__ = ["Bounds", "box_of", "is_box", "is_one", "span_of"]

Bounds = dict[int, tuple[ir.Value, ir.Value | None]]
"""The start and the end of the range along each axis that is cut; no end for one place."""

Counts = Mapping[ir.Value, int]
_DEEPEST = 16


def box_of(value: ir.Value, tensor: ir.Value, facts: LoopFacts, rank: int) -> Bounds | None:
    """Return the bounds of the box of a tensor that a value is, None for another value.

    Args:
        value: What Slices, and Gathers of one number, read of the tensor.
        tensor: The tensor.
        facts: The Loop or Scan.
        rank: The rank of the tensor.
    """
    chain: list[ir.Node] = []
    value = skip_identities(value)
    while value is not tensor:
        node = made_by(value, "Slice", "Gather", body=facts.scope)
        if node is None:
            return None
        chain.insert(0, node)
        value = skip_identities(operand(node, 0))
    axes, box = list(range(rank)), Bounds()
    for node in chain:
        found = _gathered(node, facts) if node.op_type == "Gather" else _sliced(node, facts)
        if found is None:
            return None
        at, bounds = found
        axis = axes[at]
        if bounds is not None:
            if axis in box:
                return None
            box[axis] = bounds
        if node.op_type == "Gather":
            axes.remove(axis)
    return dict(sorted(box.items()))


def _gathered(node: ir.Node, facts: LoopFacts) -> tuple[int, tuple[ir.Value, None]] | None:
    """Return the axis along which a Gather reads one place, and the place."""
    place = skip_identities(operand(node, 1))
    if facts.evaluator.rank(place) != 0:
        return None
    return node.attributes.get_int("axis", 0), (place, None)


def _sliced(
    node: ir.Node, facts: LoopFacts
) -> tuple[int, tuple[ir.Value, ir.Value] | None] | None:
    """Return the axis that a Slice cuts, and its bounds; None for these if it takes all."""
    axis = axis_cut_in_steps_of_1(node, facts.evaluator)
    if axis is None:
        return None
    _, start, end, *_ = operands(node)
    bounds = bounds_of(node, facts.evaluator)
    is_whole = bounds is not None and bounds.is_whole
    return axis, None if is_whole else (start, end)


def is_box(ranges: Sequence[Range], box: Bounds, facts: LoopFacts) -> bool:
    """Whether a box that is read is the one that some ranges name."""
    named = {at: (r.start, r.end) for at, r in enumerate(ranges) if r.start is not None}
    if named.keys() != box.keys():
        return False
    pairs = [pair for at in box for pair in zip(named[at], box[at], strict=True)]
    return all(
        v is w or (v is not None and w is not None and is_one(v, w, facts)) for v, w in pairs
    )


def is_one(one: ir.Value, other: ir.Value, facts: LoopFacts) -> bool:
    """Whether two values are one number."""
    if _root(one) is _root(other):
        return True
    return span_of(one, other, facts) == 0


def span_of(start: ir.Value, end: ir.Value, facts: LoopFacts) -> int | None:
    """Return how far an end is behind a start, if it is a constant."""
    gap, others = Linear(), collections.Counter[ir.Value]()
    for value, sign in ((end, 1), (start, -1)):
        known, unknown = _summed(_root(value), facts)
        gap += known * sign
        for one, count in unknown.items():
            others[one] += count * sign
    return None if any(others.values()) else gap.number


def _root(value: ir.Value) -> ir.Value:
    """Return the number that is made a vector of one."""
    return through(value, ["Unsqueeze"])


def _summed(value: ir.Value, facts: LoopFacts, depth: int = 0) -> tuple[Linear, Counts]:
    """Return a number as a known sum, and how often each number that is not known counts."""
    value = skip_identities(value)
    number = facts.evaluator.number(value)
    if number is not None:
        return number, {}
    node = made_by(value, "Add", "Sub", "Mul", body=facts.scope)
    if node is None or depth > _DEEPEST:
        return Linear(), {value: 1}
    if node.op_type == "Mul":
        for one, other in either_order(node):
            factor = facts.evaluator.integer(other)
            if factor is not None:
                known, unknown = _summed(one, facts, depth + 1)
                return known * factor, {v: count * factor for v, count in unknown.items()}
        return Linear(), {value: 1}
    (first, counts), (second, more) = (_summed(v, facts, depth + 1) for v in operands(node))
    sign = 1 if node.op_type == "Add" else -1
    total = collections.Counter(counts)
    for v, count in more.items():
        total[v] += count * sign
    return first + second * sign, total
