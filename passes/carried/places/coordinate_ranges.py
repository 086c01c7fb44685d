"""Where the entries of a tensor of integers lie: from a number of the iteration on, so many.

``i * 4 + [0, 1, 2, 3]``, expanded, cut and joined in whatever way, holds numbers from ``i * 4``
on, 4 of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from passes.carried.places.shared_coordinates import (
    Reach,
    all_places,
    columns_of,
    yielded_by_branches,
)
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, operands, skip_identities
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative

__all__ = ["own_coordinate", "own_span", "span_of"]

_DEEPEST = 64
_LARGEST = 1 << 16

_PICKS = frozenset(
    {"Compress", "Expand", "Gather", "Reshape", "Slice", "Squeeze", "Tile", "Transpose"}
    | {"Unsqueeze"}
)
"""Operators whose result holds entries of their first operand, and nothing else."""


def span_of(value: ir.Value, evaluator: Evaluator, depth: int = 0) -> Reach | None:
    """Return where all entries of a tensor lie, None where that is not known.

    Args:
        value: The tensor.
        evaluator: Knows the numbers of the body.
        depth: How many values have been followed.
    """
    numbers = evaluator.of(value)
    if numbers:
        return _around(Reach(number, 1) for number in numbers)
    array = constant_value(value, largest=_LARGEST)
    if array is not None and array.size and array.dtype.kind in "iu":
        low, high = int(array.min()), int(array.max())
        return Reach(Linear(low), high - low + 1)
    node = made_by(value)
    if node is None or depth > _DEEPEST:
        return None

    def spans(values: Iterable[ir.Value]) -> list[Reach] | None:
        found = [span_of(v, evaluator, depth + 1) for v in values]
        known = [span for span in found if span is not None]
        return known if len(known) == len(found) else None

    if node.op_type == "If":
        at = list(node.outputs).index(skip_identities(value))
        return _around(spans(yielded_by_branches(node, at)))
    given = operands(node)
    if node.op_type in _PICKS or _keeps_integers(node):
        return _around(spans(given[:1]))
    if node.op_type == "Concat":
        return _around(spans(given))
    if node.op_type == "Where":
        side = _sole_side(given[0], evaluator, depth)
        return _around(spans(given[1:] if side is None else [given[2 - side]]))
    if node.op_type in ("Add", "Sub"):
        both = spans(given)
        return None if both is None else _joined(both, is_sum=node.op_type == "Add")
    return None


def _keeps_integers(node: ir.Node) -> bool:
    """Whether a node is a Cast between integers that hold all places."""
    return node.op_type == "Cast" and node.attributes.get_int("to", 0) == ir.DataType.INT64


def _around(spans: Iterable[Reach] | None) -> Reach | None:
    """Return a span that holds several, None where nothing tells which is the first."""
    found = [] if spans is None else list(spans)
    if not found:
        return None
    gaps = [(span.first - found[0].first).number for span in found]
    known = [gap for gap in gaps if gap is not None]
    if len(known) < len(gaps):
        return None
    low = min(known)
    high = max(gap + span.width for gap, span in zip(known, found, strict=True))
    return Reach(found[0].first + low, high - low)


def _joined(both: Sequence[Reach], *, is_sum: bool) -> Reach:
    one, other = both
    if is_sum:
        return Reach(one.first + other.first, one.width + other.width - 1)
    last = other.first + (other.width - 1)
    return Reach(one.first - last, one.width + other.width - 1)


def _sole_side(condition: ir.Value, evaluator: Evaluator, depth: int) -> int | None:
    """Return what a condition ``x < y`` is for all entries, 0 or 1, None where it may be both."""
    node = made_by(condition, "Less")
    if node is None:
        return None
    one, other = (span_of(v, evaluator, depth + 1) for v in operands(node))
    if one is None or other is None:
        return None
    if is_nonnegative(one.first - (other.first + (other.width - 1))):
        return 0
    return 1 if is_nonnegative(other.first - (one.first + one.width)) else None


def own_coordinate(indices: ir.Value, evaluator: Evaluator) -> Reach | None:
    """Return the coordinates along an axis that an iteration has for its own, if there are any.

    Args:
        indices: The places, ``[..., axes]``.
        evaluator: Knows the numbers of the body.
    """
    for axis, part in columns_of(all_places(indices, evaluator), evaluator):
        span = own_span(part, evaluator)
        if span is not None:
            return dataclasses.replace(span, axis=axis)
    return None


def own_span(value: ir.Value, evaluator: Evaluator) -> Reach | None:
    """Return where all entries of a tensor lie, if those of no other iteration lie there."""
    span = span_of(value, evaluator)
    is_own = span is not None and abs(span.first.step) >= span.width
    return span if is_own else None
