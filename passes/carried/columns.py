"""The places that a ScatterND writes to, axis by axis.

PyTorch writes ``s[i, a:b] = v`` as a ScatterND at the places ``[[i, a], [i, a + 1], ...]``: one
column for each axis, each expanded to the grid of all places, and joined behind the last axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.pattern import operator
from passes.graph.graphs import constant_value
from passes.graph.made import skip_identities
from passes.graph.scopes import Scope
from passes.reading.evaluate import Evaluator
from passes.reading.integers import Least, Linear, is_nonnegative

__all__ = ["Column", "find_columns"]


@dataclasses.dataclass(frozen=True)
class Column:
    """The positions along one axis.

    Attributes:
        root: The positions before they are expanded: one number, or a vector.
        is_point: Whether it is one number.
        start: The least of them; None where it is not known.
        size: How many follow it at most, itself counted; None where that is not known.
        is_constant: Whether it is one number that stands in a constant of whatever shape.
    """

    root: ir.Value
    is_point: bool
    start: Linear | None = None
    size: int | None = None
    is_constant: bool = False


def find_columns(
    indices: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator
) -> tuple[Column, ...] | None:
    """Return the columns of places that are a grid, in the order of the axes.

    Args:
        indices: The places, ``[..., axes]``.
        body: The body of the Loop.
        evaluator: Knows the numbers of the body.
    """
    node = operator(skip_identities(indices), body)
    if node is None or node.op_type not in ("Concat", "Unsqueeze"):
        return None
    if node.op_type == "Unsqueeze":
        roots: Sequence[ir.Value | None] = [_grown(indices, body, evaluator)]
    elif node.attributes.get_int("axis", 0) in (-1, (evaluator.rank(indices) or 0) - 1):
        roots = _grid(node.inputs, body, evaluator)
    else:
        return None
    columns = [None if root is None else _column(root, body, evaluator) for root in roots]
    known = tuple(column for column in columns if column is not None)
    return known if known and len(known) == len(columns) else None


def _grid(
    parts: Sequence[ir.Value | None], body: ir.Graph | Scope, evaluator: Evaluator
) -> list[ir.Value | None]:
    """Return the vectors that the columns of a grid expand, each along its own axis.

    The grid has the shape of their sum, as PyTorch's exporter computes it.
    """
    expands = [_made_by("Expand", _grown(part, body, evaluator), body) for part in parts]
    values = [None if node is None else node.inputs[0] for node in expands]
    leaves = [None if v is None else skip_identities(v) for v in values]
    sums = [None if node is None else _summed(node.inputs[1], body) for node in expands]
    keys = [_key(leaf) for leaf in leaves]
    if None in leaves or any(one is None or [_key(v) for v in one] != keys for one in sums):
        return []
    return [_along(leaf, len(parts) - 1 - at, body) for at, leaf in enumerate(leaves)]


def _key(value: ir.Value | None) -> ir.Value | int | None:
    """Return what tells a vector of positions from others; equal constants may stand apart."""
    array = constant_value(value)
    return int(array.item()) if array is not None and array.size == 1 else value


def _made_by(op_type: str, value: ir.Value | None, body: ir.Graph | Scope) -> ir.Node | None:
    node = None if value is None else operator(skip_identities(value), body)
    return node if node is not None and node.op_type == op_type else None


def _grown(
    value: ir.Value | None, body: ir.Graph | Scope, evaluator: Evaluator
) -> ir.Value | None:
    """Return what an Unsqueeze gives a last axis, if that is all that it does."""
    node = _made_by("Unsqueeze", value, body)
    if node is None:
        return None
    axes = node.attributes.get_ints("axes")
    if axes is None and len(node.inputs) > 1:
        given = constant_value(node.inputs[1])
        axes = None if given is None else given.reshape(-1).tolist()
    last = [[-1], [evaluator.rank(node.inputs[0])]]
    return node.inputs[0] if axes is not None and list(axes) in last else None


def _summed(shape: ir.Value | None, body: ir.Graph | Scope) -> list[ir.Value | None] | None:
    """Return the values whose sum has a shape; what replaces a -1 in it replaces nothing."""
    node = _made_by("Where", shape, body)
    node = _made_by("Shape", shape if node is None else node.inputs[2], body)
    if node is None or node.attributes:
        return None
    found: list[ir.Value | None] = []
    value = node.inputs[0]
    while (add := _made_by("Add", value, body)) is not None:
        last = add.inputs[1]
        found.insert(0, None if last is None else skip_identities(last))
        value = add.inputs[0]
    return [None if value is None else skip_identities(value), *found]


def _along(value: ir.Value | None, behind: int, body: ir.Graph | Scope) -> ir.Value | None:
    """Return the vector that is reshaped to ``[-1, 1, ..]``, with so many axes behind it."""
    if not behind or isinstance(_key(value), int):
        return value
    node = _made_by("Reshape", value, body)
    shape = None if node is None else constant_value(node.inputs[1])
    is_column = shape is not None and shape.tolist() == [-1, *[1] * behind]
    return node.inputs[0] if node is not None and is_column else None


def _column(root: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator) -> Column | None:
    """Return what is known of the positions along one axis."""
    value = skip_identities(root)
    number, fixed = evaluator.number(value), _key(value)
    if isinstance(fixed, int) and evaluator.rank(value) != 0:
        return Column(value, True, Linear(fixed), 1, is_constant=True)
    scalar = _scalar(value, body, evaluator)
    if scalar is not None:
        return Column(scalar, True, number, 1)
    if evaluator.rank(value) != 1:
        return None
    start, size = _span(value, body, evaluator)
    return Column(value, False, start, size)


def _scalar(value: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator) -> ir.Value | None:
    """Return the number of rank 0 that a value is, or is made of by new axes of 1."""
    if evaluator.rank(value) == 0:
        return value
    node = _made_by("Unsqueeze", value, body)
    if node is None or node.inputs[0] is None:
        return None
    return _scalar(skip_identities(node.inputs[0]), body, evaluator)


def _span(
    value: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator
) -> tuple[Linear | None, int | None]:
    """Return where a Slice of the numbers from 0 begins, and how many there are at most."""
    node = _made_by("Slice", value, body)
    if node is None or not _counts(node.inputs[0], body):
        return None, None
    start, end = (evaluator.number(node.inputs[at]) for at in (1, 2))
    steps = node.inputs[4] if len(node.inputs) > 4 else None
    step = Linear(1) if steps is None else evaluator.number(steps)
    if start is None or end is None or step is None or step.number != 1:
        return None, None
    if not (is_nonnegative(start) and is_nonnegative(end)):
        return None, None
    return start, _most(end, start)


def _most(end: Linear, start: Linear) -> int | None:
    """Return a number that a difference does not exceed: ``min(4 * i + 4, n) - 4 * i`` is 4."""
    gaps = [(end - start).number]
    for atom, count in end.terms:
        if isinstance(atom, Least) and count == 1:
            rest = end.without(atom) - start
            gaps += [(member + rest).number for member in atom.members]
    return min((gap for gap in gaps if gap is not None), default=None)


def _counts(value: ir.Value | None, body: ir.Graph | Scope) -> bool:
    """Whether a vector holds the numbers from 0 in steps of 1."""
    node = _made_by("Range", value, body)
    if node is None:
        return False
    ends = [constant_value(node.inputs[at]) for at in (0, 2)]
    return [None if e is None else e.item() for e in ends] == [0, 1]
