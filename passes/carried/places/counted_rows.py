"""Places that are counted and go through the rows of a Slice in order, as JAX writes them.

``s[a:a + 3]`` of a vector is written back to the places ``[[a], [a + 1], [a + 2]]``, rows of a
matrix to every place of theirs: ``[[a, 0], [a, 1], [a + 1, 0], [a + 1, 1]]``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.places.columns import is_last_axis, without_new_axis
from passes.graph.made import (
    axes_of,
    either_order,
    made_by,
    only_number,
    operand,
    operands,
    skip_identities,
    through,
)
from passes.graph.scopes import Scope
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import Linear
from passes.numbers.slice_bounds import Bounds, bounds_of

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
    if cut is None or not dims or rank is None or cut.axis != 0 or dims[-1] != rank:
        return False
    places = evaluator.of(indices)
    sizes = _sizes(read, cut, rank, evaluator)
    if sizes is None:
        return False
    if places is not None:
        return places == _all_places(cut.start, sizes)
    spans = [(cut.start, sizes[0]), *((Linear(0), size) for size in sizes[1:])]
    return _block(_columns(indices, rank, body, evaluator), body, evaluator) == spans


def _sizes(read: ir.Node, cut: Bounds, rank: int, evaluator: Evaluator) -> list[int] | None:
    """Return how many places a Slice takes along each axis, None where that is not known."""
    rest = [evaluator.dimension(operand(read, 0), at) for at in range(1, rank)]
    sizes = [None if n is None else n.number for n in (cut.end - cut.start, *rest)]
    known = [size for size in sizes if size is not None]
    return known if len(known) == len(sizes) else None


def _all_places(start: Linear, sizes: Sequence[int]) -> tuple[Linear, ...]:
    """Return the places of a block, one behind the other."""
    points = itertools.product(*map(range, sizes))
    return tuple(n for row, *others in points for n in (start + row, *map(Linear, others)))


def _unlisted(indices: ir.Value, body: ir.Graph | Scope) -> ir.Value | None:
    """Return the numbers that are the one column of a list of places, None for several."""
    value = skip_identities(indices)
    while (node := made_by(value, "Reshape", "Unsqueeze", "Concat", body=body)) is not None:
        if node.op_type == "Concat" and len(node.inputs) > 1:
            return None
        value = skip_identities(operand(node, 0))
    return value


def _columns(
    indices: ir.Value, rank: int, body: ir.Graph | Scope, evaluator: Evaluator
) -> list[ir.Value | None]:
    """Return the places of a list along each axis, in the shape of a block."""
    if rank == 1:
        return [_unlisted(indices, body)]
    grid = made_by(through(indices, ("Reshape",), body), "Concat", body=body)
    if grid is None or not is_last_axis(grid.attributes.get_int("axis", 0), rank + 1):
        return []
    return [without_new_axis(part, body, evaluator) for part in operands(grid)]


def _block(
    columns: Sequence[ir.Value | None], body: ir.Graph | Scope, evaluator: Evaluator
) -> list[tuple[Linear, int]]:
    """Return where the places of a block begin along each axis, and how many there are."""
    spans = []
    for axis, column in enumerate(columns):
        found = _span_along(column, axis, len(columns), body, evaluator)
        if found is None:
            return []
        spans.append(found)
    sizes = tuple(size for _, size in spans)
    is_block = all(_dims(column, body, evaluator) == sizes for column in columns)
    return spans if is_block else []


def _span_along(
    column: ir.Value | None, axis: int, rank: int, body: ir.Graph | Scope, evaluator: Evaluator
) -> tuple[Linear, int] | None:
    """Return where numbers begin that count along one axis of a block, and how many there are."""
    for one, other in either_order(made_by(column, "Add", body=body)):
        start = evaluator.number(through(one, ("Expand",), body))
        line = through(other, ("Expand",), body)
        numbers = made_by(_along(line, axis, rank, body), "Range", body=body)
        if start is None or numbers is None:
            continue
        first, limit, step = numbers.inputs
        size, is_counted = evaluator.integer(limit), (only_number(first), only_number(step))
        if size is not None and is_counted == (0, 1):
            return start, size
    return None


def _along(line: ir.Value, axis: int, rank: int, body: ir.Graph | Scope) -> ir.Value | None:
    """Return the vector that lies along one axis of a block, None if it does not."""
    node = made_by(line, "Unsqueeze", body=body)
    if node is None:
        return line if rank == 1 else None
    beside = [at for at in range(rank) if at != axis]
    return operand(node, 0) if axes_of(node) == beside else None


def _dims(
    column: ir.Value | None, body: ir.Graph | Scope, evaluator: Evaluator
) -> tuple[int, ...] | None:
    """Return the shape of places along one axis, which are a sum of what is expanded to it."""
    own = evaluator.dims(column) or ()
    sizes = tuple(size for size in own if isinstance(size, int))
    if own and len(sizes) == len(own):
        return sizes
    add = made_by(column, "Add", body=body)
    parts = [] if add is None else [made_by(v, "Expand", body=body) for v in operands(add)]
    shapes = {None if part is None else evaluator.of(part.inputs[1]) for part in parts}
    numbers = shapes.pop() if len(shapes) == 1 else None
    known = [n.number for n in numbers or () if n.number is not None]
    return tuple(known) if numbers is not None and len(known) == len(numbers) else None
