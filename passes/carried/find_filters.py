"""Finds rows that some iterations add to a tensor or a sequence; see `passes.carried.filters`.

An iteration adds a row, or one branch of an If does, or both branches do, each its own.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.appends import (
    unsqueezed,
)
from passes.carried.filters import Filter
from passes.carried.in_branch import in_branch, may_fail_apart
from passes.carried.masks import flag_of
from passes.carried.pattern import (
    Term,
    added,
    dependent_values,
    path_through,
)
from passes.carried.selections import Selection, find_selection, hoist
from passes.graph.made import made_by, only_number, operand, operands, skip_identities
from passes.graph.scopes import Scope
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing, ValueType

__all__ = ["find_filter", "row_behind"]


def find_filter(carried: Carried, iteration: Iteration, typing: Typing) -> Filter | None:
    """Return which rows a carried value gains; None if an iteration does anything else with it."""
    body = iteration.body
    value = skip_identities(carried.next)
    mask = find_selection(value, body)
    if mask is None:
        return _of_all(carried, value, body)
    if not mask.branches or mask.condition in dependent_values(body, carried.inner):
        return None
    if carried.inner in (mask.chosen, mask.other):
        return _of_some(carried, mask, body, typing)
    return _of_either(carried, mask, body, typing)


@dataclasses.dataclass(frozen=True)
class _Added:
    """The row that a branch, or each iteration, adds, at which end, and whether to a sequence."""

    row: ir.Value
    axis: int
    is_reversed: bool
    is_sequence: bool


def _added(carried: Carried, value: ir.Value, graphs: list[ir.Graph]) -> _Added | None:
    """Return what a value has more than the carried one, None if it is anything else."""
    dependent = {v for g in graphs for v in dependent_values(g, carried.inner)}
    node = made_by(value, body=Scope(tuple(graphs)))
    path = None if node is None else path_through(node, dependent)
    if node is None or path is None:
        return None
    found = _inserted(node, carried) or _joined(node, path, carried, graphs)
    return None if found is None else _Added(*found, node.op_type == "SequenceInsert")


def row_behind(
    value: ir.Value, graphs: tuple[ir.Graph, ...], carried: Carried
) -> tuple[ir.Value, ir.Value, bool] | None:
    """Return what a value was before a row was added behind it, and the row; None if none was.

    Args:
        value: A tensor or a sequence.
        graphs: The body, and branches in it.
        carried: The value that it began as.

    Returns:
        What it was, the row, and whether it is a sequence.
    """
    node = made_by(value, "Concat", "SequenceInsert", body=Scope(graphs))
    if node is None:
        return None
    own = dataclasses.replace(carried, inner=skip_identities(operand(node, 0)))
    found = _added(own, value, list(graphs))
    if found is None or found.is_reversed or found.axis:
        return None
    return own.inner, found.row, found.is_sequence


def _of_all(carried: Carried, value: ir.Value, body: ir.Graph) -> Filter | None:
    """Return what every iteration adds to a sequence, or in front of a tensor."""
    found = _added(carried, value, [body])
    if found is None or not (found.is_reversed or found.is_sequence):
        return None
    terms = (Term(found.row, "stacked", found.axis),)
    return Filter(carried, terms, found.axis, found.is_sequence, found.is_reversed)


def _of_some(carried: Carried, mask: Selection, body: ir.Graph, typing: Typing) -> Filter | None:
    """Return what one branch of an If adds, where the other one adds nothing."""
    is_turned = mask.chosen is carried.inner
    value = mask.other if is_turned else mask.chosen
    found = _added(carried, value, [body, *mask.branches])
    if found is None:
        return None
    axis = found.axis
    (row,), nodes, speculated = hoist([found.row], mask.branches)
    none = _no_rows(carried, found.row, axis, typing) if may_fail_apart(speculated, typing) else []
    if none:
        axes = _constant(np.array([axis], np.int64))
        grown = added("Unsqueeze", [row, axes.outputs[0]])
        rows, copies = grown.outputs[0], [*nodes, axes, grown]
        made = in_branch(
            mask, rows, copies, none[-1].outputs[0], speculated, typing, is_turned=is_turned
        )
        terms = [Term(made.outputs[0], "concatenated", axis)]
        nodes, speculated = [*none, made], []
    else:
        flag, beside = flag_of(mask.condition, is_turned=is_turned)
        terms = [Term(row, "stacked", axis), Term(flag)]
        nodes += beside
    how = (axis, found.is_sequence, found.is_reversed)
    return Filter(carried, tuple(terms), *how, tuple(nodes), tuple(speculated))


def _of_either(carried: Carried, mask: Selection, body: ir.Graph, typing: Typing) -> Filter | None:
    """Return what both branches of an If add at one place: the row is what an If yields."""
    sides = [_added(carried, v, [body, *mask.branches]) for v in (mask.chosen, mask.other)]
    one, other = sides
    if one is None or other is None:
        return None
    if dataclasses.replace(one, row=other.row) != other:
        return None
    (row,), copies, pairs = hoist([one.row], mask.branches)
    (other_row,), other_copies, other_pairs = hoist([other.row], mask.branches)
    made = in_branch(
        mask, row, copies, other_row, [*pairs, *other_pairs], typing, other_copies=other_copies
    )
    typing.set(made.outputs[0], _of_both(typing[one.row], typing[other.row]))
    terms = (Term(made.outputs[0], "stacked", one.axis),)
    return Filter(carried, terms, one.axis, one.is_sequence, one.is_reversed, (made,))


def _of_both(one: ValueType, other: ValueType) -> ValueType:
    """Return what is known of a value that is one of two."""
    type_ = one.type if one.type == other.type else None
    if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
        return ValueType(type_, None)
    pairs = zip(one.dims, other.dims, strict=True)
    return ValueType(type_, tuple(a if a == b else None for a, b in pairs))


def _no_rows(carried: Carried, row: ir.Value, axis: int, typing: Typing) -> list[ir.Node]:
    """Return nodes; the last one yields no rows. None at all if their shape is not known.

    They are like those that the tensor, or the sequence, starts with.
    """
    start = made_by(carried.initial, "SequenceConstruct")
    first = axes = _constant(np.array([axis], np.int64))
    whole = carried.initial
    if typing.is_sequence(carried.initial):
        if start is None:
            return _no_known_rows(row, typing)
        first = added("Unsqueeze", [operand(start, 0), axes.outputs[0]])
        whole = first.outputs[0]
    zero = _constant(np.array([0], np.int64))
    bounds = [zero.outputs[0], zero.outputs[0], axes.outputs[0]]
    made = [axes] if first is axes else [axes, first]
    return [*made, zero, added("Slice", [whole, *bounds])]


def _no_known_rows(row: ir.Value, typing: Typing) -> list[ir.Node]:
    dims, dtype = typing.dims(row), typing.dtype(row)
    if dtype is None or dims is None:
        return []
    sizes = [d for d in dims if isinstance(d, int)]
    if len(sizes) < len(dims):
        return []
    return [_constant(np.zeros([0, *sizes], dtype.numpy()))]


def _constant(array: np.ndarray) -> ir.Node:
    return added("Constant", [], {"value": ir.tensor(array)})


_STARTS = ("SequenceEmpty", "SequenceConstruct")


def _inserted(node: ir.Node, carried: Carried) -> tuple[ir.Value, int, bool] | None:
    """Return what a node inserts into a sequence that is known, and whether in front."""
    if node.op_type != "SequenceInsert" or made_by(carried.initial, *_STARTS) is None:
        return None
    sequence, element, *position = operands(node)
    if skip_identities(sequence) is not carried.inner:
        return None
    if not position:
        return element, 0, False
    return (element, 0, True) if only_number(position[0]) == 0 else None


def _joined(
    node: ir.Node, path: tuple[int, list[ir.Value]], carried: Carried, graphs: list[ir.Graph]
) -> tuple[ir.Value, int, bool] | None:
    """Return the row that a Concat joins to a carried tensor, the axis, and whether in front."""
    at, others = path
    if node.op_type != "Concat" or len(others) != 1:
        return None
    if skip_identities(operand(node, at)) is not carried.inner:
        return None
    axis = node.attributes.get_int("axis", 0)
    part = skip_identities(others[0])
    row = next((r for g in graphs if (r := unsqueezed(part, g, axis)) is not None), None)
    return None if row is None or axis < 0 else (row, axis, at == 1)
