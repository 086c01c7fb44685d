"""The places that a ScatterND writes to, axis by axis.

PyTorch writes ``s[i, a:b] = v`` as a ScatterND at the places ``[[i, a], [i, a + 1], ...]``: one
column for each axis, each expanded to the grid of all places, and joined behind the last axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import added
from passes.graph.graphs import constant_value
from passes.graph.made import (
    axes_of,
    made_by,
    only_number,
    operand,
    operands,
    shaped,
    skip_identities,
)
from passes.graph.scopes import Scope
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import Least, Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.slice_bounds import slice_of

__all__ = [
    "Column",
    "as_numbers",
    "find_columns",
    "find_listed_columns",
    "is_last_axis",
    "without_new_axis",
]


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
    node = made_by(indices, "Concat", "Unsqueeze", body=body)
    if node is None:
        return None
    if node.op_type == "Unsqueeze":
        roots: Sequence[ir.Value | None] = [without_new_axis(indices, body, evaluator)]
    elif is_last_axis(node.attributes.get_int("axis", 0), evaluator.rank(indices)):
        roots = _grid(operands(node), body, evaluator)
    else:
        return None
    columns = [None if root is None else _column(root, body, evaluator) for root in roots]
    known = tuple(column for column in columns if column is not None)
    return known if known and len(known) == len(columns) else None


def find_listed_columns(
    indices: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator
) -> tuple[Column, ...] | None:
    """Return the columns of a list of places: one is a vector, the others are one number each.

    TensorFlow stacks them: ``stack([fill([n], i), range(n)], 1)``, in integers of 32 bits. The
    arguments are those of `find_columns`.
    """
    node = made_by(_before_cast(indices, body, evaluator), "Concat", body=body)
    if node is None or not is_last_axis(node.attributes.get_int("axis", 0), 2):
        return None
    roots: list[ir.Value] = []
    for part in operands(node):
        root = without_new_axis(part, body, evaluator)
        if root is None or evaluator.rank(root) != 1:
            return None
        spread = made_by(root, "Expand", body=body)
        given = None if spread is None else skip_identities(operand(spread, 0))
        is_number = given is not None and evaluator.dims(given) in ((), (1,))
        roots.append(given if given is not None and is_number else root)
    columns = [_column(root, body, evaluator) for root in roots]
    known = tuple(column for column in columns if column is not None)
    is_list = sum(not column.is_point for column in known) == 1
    return known if is_list and len(known) == len(columns) else None


def _before_cast(value: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator) -> ir.Value:
    """Return the integers of 32 bits that a value holds in 64."""
    node = made_by(value, "Cast", body=body)
    if node is None or node.attributes.get_int("to", 0) != ir.DataType.INT64:
        return value
    given = skip_identities(operand(node, 0))
    return given if evaluator.dtype(given) == ir.DataType.INT32 else value


def as_numbers(columns: Sequence[Column]) -> tuple[tuple[Column, ...], list[ir.Node]]:
    """Return columns whose constants have rank 0, and the nodes of these; they stand nowhere."""
    found, nodes = list(columns), list[ir.Node]()
    for at, column in enumerate(columns):
        if column.is_constant and column.start is not None:
            number = ir.tensor(np.array(column.start.constant, np.int64))
            nodes.append(added("Constant", [], {"value": number}))
            found[at] = dataclasses.replace(column, root=nodes[-1].outputs[0])
    return tuple(found), nodes


def is_last_axis(axis: int, rank: int | None) -> bool:
    """Whether an axis is the last one of a tensor."""
    return axis == -1 or axis + 1 == rank


def _grid(
    parts: Sequence[ir.Value], body: ir.Graph | Scope, evaluator: Evaluator
) -> list[ir.Value | None]:
    """Return the vectors that the columns of a grid expand, each along its own axis.

    The grid has the shape of their sum, as PyTorch's exporter computes it.
    """
    grown = [
        made_by(without_new_axis(part, body, evaluator), "Expand", body=body) for part in parts
    ]
    expands = [node for node in grown if node is not None]
    leaves = [skip_identities(operand(node, 0)) for node in expands]
    keys = [_key(leaf) for leaf in leaves]
    if len(leaves) < len(parts) or any(_summed(node, body) != keys for node in expands):
        return []
    if all(isinstance(_key(leaf), int) or evaluator.rank(leaf) == 0 for leaf in leaves):
        return [*leaves]  # one place; numbers need no axis of their own
    return [_along(leaf, len(parts) - 1 - at, body) for at, leaf in enumerate(leaves)]


def _key(value: ir.Value) -> ir.Value | int:
    """Return what tells a vector of positions from others; equal constants may stand apart."""
    number = only_number(value)
    return value if number is None else int(number)


def without_new_axis(
    value: ir.Value | None, body: ir.Graph | Scope, evaluator: Evaluator
) -> ir.Value | None:
    """Return what an Unsqueeze gives a last axis, if that is all that it does."""
    node = made_by(value, "Unsqueeze", body=body)
    if node is None or axes_of(node) not in ([-1], [evaluator.rank(node.inputs[0])]):
        return None
    return node.inputs[0]


def _summed(expand: ir.Node, body: ir.Graph | Scope) -> list[ir.Value | int] | None:
    """Return what tells the values whose sum has the shape that an Expand gives.

    What replaces a -1 in it replaces nothing.
    """
    where = made_by(expand.inputs[1], "Where", body=body)
    target = expand.inputs[1] if where is None else where.inputs[2]
    value = shaped(target, body)
    if value is None:
        return None
    found: list[ir.Value | int] = []
    while (add := made_by(value, "Add", body=body)) is not None:
        value, last = operands(add)
        found.insert(0, _key(skip_identities(last)))
    return [_key(skip_identities(value)), *found]


def _along(value: ir.Value, behind: int, body: ir.Graph | Scope) -> ir.Value | None:
    """Return the vector that is reshaped to ``[-1, 1, ..]``, with so many axes behind it."""
    if not behind or isinstance(_key(value), int):
        return value
    node = made_by(value, "Reshape", body=body)
    shape = None if node is None else constant_value(node.inputs[1])
    if node is None or shape is None or shape.tolist() != [-1, *[1] * behind]:
        return None
    return node.inputs[0]


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
    node = made_by(value, "Unsqueeze", body=body)
    return None if node is None else _scalar(skip_identities(operand(node, 0)), body, evaluator)


def _span(
    value: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator
) -> tuple[Linear | None, int | None]:
    """Return where a Slice of the numbers from 0 begins, and how many there are at most."""
    cut = slice_of(value, evaluator, body)
    if cut is None or not _counts(cut[0], body):
        return None, None
    start, end = cut[1].start, cut[1].end
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
    node = made_by(value, "Range", body=body)
    return node is not None and [only_number(node.inputs[at]) for at in (0, 2)] == [0, 1]
