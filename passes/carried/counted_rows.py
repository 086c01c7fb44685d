"""Places that are counted and go through the rows of a Slice in order, as JAX writes them.

``s[a:a + 3]`` of a vector is written back to the places ``[[a], [a + 1], [a + 2]]``, rows of a
matrix to every place of theirs: ``[[a, 0], [a, 1], [a + 1, 0], [a + 1, 1]]``.
"""

from __future__ import annotations

import itertools

import onnx_ir as ir

from passes.graph.made import either_order, made_by, only_number, operand, skip_identities, through
from passes.graph.scopes import Scope
from passes.reading.evaluate import Evaluator
from passes.reading.integers import Linear
from passes.reading.slice_bounds import Bounds, bounds_of

__all__ = ["counts_rows"]


def counts_rows(
    read: ir.Node, indices: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator
) -> bool:
    """Whether places are those that a Slice along the first axis takes, in order.

    Args:
        read: The Slice.
        indices: The places of a ScatterND.
        body: The body.
        evaluator: Knows the numbers of the body.
    """
    cut, dims = bounds_of(read, evaluator), evaluator.dims(indices)
    rank = evaluator.rank(read.inputs[0])
    if cut is None or not dims or cut.axis != 0 or dims[-1] != rank:
        return False
    places = evaluator.of(indices)
    if places is not None:
        return places == _all_places(read, cut, evaluator)
    return rank == 1 and _span(indices, body, evaluator) == (cut.start, cut.end - cut.start)


def _all_places(read: ir.Node, cut: Bounds, evaluator: Evaluator) -> tuple[Linear, ...] | None:
    """Return the places of all that a Slice takes, one behind the other."""
    rank = evaluator.rank(read.inputs[0]) or 0
    rest = [evaluator.dimension(operand(read, 0), at) for at in range(1, rank)]
    sizes = [None if n is None else n.number for n in (cut.end - cut.start, *rest)]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    points = itertools.product(*(range(size) for size in known))
    return tuple(n for row, *others in points for n in (cut.start + row, *map(Linear, others)))


def _span(
    indices: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator
) -> tuple[Linear, Linear] | None:
    """Return where places begin that count by 1, and how many there are."""
    value = skip_identities(indices)
    while (node := made_by(value, "Reshape", "Unsqueeze", "Concat", body=body)) is not None:
        if node.op_type == "Concat" and len(node.inputs) > 1:
            return None
        value = skip_identities(operand(node, 0))
    add = made_by(value, "Add", body=body)
    if add is None or evaluator.rank(value) != 1:
        return None
    for one, other in either_order(add):
        start = evaluator.number(through(one, ("Expand",), body))
        numbers = made_by(through(other, ("Expand",), body), "Range", body=body)
        if start is None or numbers is None:
            continue
        first, limit, step = numbers.inputs
        size, is_counted = evaluator.integer(limit), (only_number(first), only_number(step))
        if is_counted != (0, 1) or size is None or size < 2:
            return None  # one place may be repeated
        return start, Linear(size)
    return None
