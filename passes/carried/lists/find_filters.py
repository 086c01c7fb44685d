"""Finds rows that some iterations add to a tensor or a sequence, see `lists.filters`.

An iteration adds a row, or one branch of an If does, or both branches do, each its own.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.common.in_branch import in_branch, may_fail_apart
from passes.carried.common.masks import flag_of
from passes.carried.common.selections import Selection, find_selection, hoist
from passes.carried.lists.added_rows import Added, added_row, dependent_in
from passes.carried.lists.filters import Filter
from passes.carried.lists.joined_elements import first_elements
from passes.carried.pattern import Term, added, added_constant, dependent_values
from passes.graph.made import skip_identities
from passes.graph.scopes import Scope
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing, ValueType

__all__ = ["find_filter"]


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


def _of_all(carried: Carried, value: ir.Value, body: ir.Graph) -> Filter | None:
    """Return what every iteration adds to a sequence, or in front of a tensor."""
    found = added_row(carried, value, [body])
    if found is None or not (found.is_reversed or found.is_sequence):
        return None
    terms = (Term(found.row, "stacked", found.axis),)
    return Filter(carried, terms, found.axis, found.is_sequence, found.is_reversed)


def _of_some(carried: Carried, mask: Selection, body: ir.Graph, typing: Typing) -> Filter | None:
    """Return what one branch of an If adds, where the other one adds nothing."""
    is_turned = mask.chosen is carried.inner
    value = mask.other if is_turned else mask.chosen
    found = added_row(carried, value, [body, *mask.branches])
    if found is None:
        return None
    axis = found.axis
    (row,), nodes, speculated = hoist([found.row], mask.branches)
    none = _no_rows(carried, found.row, axis, typing) if may_fail_apart(speculated, typing) else []
    if none:
        axes = added_constant(np.array([axis], np.int64))
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
    return Filter(carried, tuple(terms), *how, nodes=tuple(nodes), speculated=tuple(speculated))


def _of_either(carried: Carried, mask: Selection, body: ir.Graph, typing: Typing) -> Filter | None:
    """Return what both branches of an If add at one place: the row is what an If yields."""
    found = _row_of_either(carried, mask, [body], typing)
    if found is None:
        return None
    one, (made,) = found.added, found.nodes
    terms = (Term(one.row, "stacked", one.axis),)
    return Filter(carried, terms, one.axis, one.is_sequence, one.is_reversed, nodes=(made,))


@dataclasses.dataclass(frozen=True)
class _RowOutside:
    """A row as it is known outside of the branches that add it.

    Attributes:
        added: The row, and where it comes.
        type: Its type.
        nodes: What computes it.
        pairs: Those nodes that are copies, each with the node that it is a copy of.
    """

    added: Added
    type: ValueType
    nodes: list[ir.Node]
    pairs: list[tuple[ir.Node, ir.Node]]


def _row_of_either(
    carried: Carried, mask: Selection, graphs: list[ir.Graph], typing: Typing
) -> _RowOutside | None:
    """Return the row that both branches of an If add, each its own; the node is an If."""
    inside = [*graphs, *mask.branches]
    one, other = (_row_in(carried, v, inside, typing) for v in (mask.chosen, mask.other))
    if one is None or other is None:
        return None
    if dataclasses.replace(one.added, row=other.added.row) != other.added:
        return None
    pairs = [*one.pairs, *other.pairs]
    rows = one.added.row, other.added.row
    made = in_branch(mask, rows[0], one.nodes, rows[1], pairs, typing, other_copies=other.nodes)
    type_ = one.type.agreed(other.type)
    typing.set(made.outputs[0], type_)
    return _RowOutside(dataclasses.replace(one.added, row=made.outputs[0]), type_, [made], [])


def _row_in(
    carried: Carried, value: ir.Value, graphs: list[ir.Graph], typing: Typing
) -> _RowOutside | None:
    """Return the row that a value in a branch has more, itself or by an If in the branch."""
    branches = graphs[1:]
    mask = find_selection(value, Scope(tuple(graphs)))
    if mask is None:
        found = added_row(carried, value, graphs)
        if found is None:
            return None
        (row,), copies, pairs = hoist([found.row], branches)
        return _RowOutside(dataclasses.replace(found, row=row), typing[found.row], copies, pairs)
    if not mask.branches or mask.condition in dependent_in(carried, graphs):
        return None
    (condition,), copies, pairs = hoist([mask.condition], branches)
    mask = dataclasses.replace(mask, condition=condition)
    nested = _row_of_either(carried, mask, graphs, typing)
    if nested is None:
        return None
    return dataclasses.replace(nested, nodes=[*copies, *nested.nodes], pairs=pairs)


def _no_rows(carried: Carried, row: ir.Value, axis: int, typing: Typing) -> list[ir.Node]:
    """Return nodes; the last one yields no rows. None at all if their shape is not known.

    They are like those that the tensor, or the sequence, starts with.
    """
    first = axes = added_constant(np.array([axis], np.int64))
    whole = carried.initial
    if typing.is_sequence(carried.initial):
        elements = first_elements(whole)
        if not elements:
            return _no_known_rows(row, typing)
        first = added("Unsqueeze", [elements[0], axes.outputs[0]])
        whole = first.outputs[0]
    zero = added_constant(np.array([0], np.int64))
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
    return [added_constant(np.zeros([0, *sizes], dtype.numpy()))]
