"""Several rows that an iteration adds to a tensor or a sequence, each under conditions of its own.

``if a: if b: acc += [p, q]  else: acc += [r]`` computes the rows ``[p, q, r]`` of each iteration,
and keeps them by the flags ``[a and b, a and b, a and not b]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.common.in_branch import may_fail_apart
from passes.carried.common.masks import flag_of
from passes.carried.common.selections import find_selection, hoist
from passes.carried.joined import same_dims
from passes.carried.lists.added_rows import row_behind
from passes.carried.lists.filters import Filter
from passes.carried.pattern import Term, added, added_constant, added_integers, dependent_values
from passes.graph.made import skip_identities
from passes.graph.scopes import Scope
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["find_several_rows"]

_MOST = 8
"""More rows of one iteration are not told apart."""


@dataclasses.dataclass(frozen=True)
class _Row:
    """A row, and the conditions under which it is added, each with whether its opposite counts."""

    value: ir.Value
    conditions: tuple[tuple[ir.Value, bool], ...]
    is_sequence: bool


def find_several_rows(carried: Carried, iteration: Iteration, typing: Typing) -> Filter | None:
    """Return the rows that a carried value gains at its end; None if it is anything else."""
    found = _gained(carried, carried.next, (iteration.body,), ())
    if found is None or not found[0] or len(found[0]) > _MOST:
        return None
    rows, graphs = found
    conditions = list(dict.fromkeys(c for row in rows for c, _ in row.conditions))
    values = [row.value for row in rows]
    dependent = dependent_values(Scope(graphs), carried.inner)
    if not dependent.isdisjoint([*conditions, *values]) or len({r.is_sequence for r in rows}) > 1:
        return None
    first, dims = values[0], [typing.dims(value) for value in values[1:]]
    if len(rows) > 1 and not all(same_dims(typing, first, d) for d in (typing.dims(first), *dims)):
        return None
    outer, nodes, pairs = hoist([*values, *conditions], graphs[1:])
    if may_fail_apart(pairs, typing):
        return None
    flags = dict(zip(conditions, outer[len(values) :], strict=True))
    row, row_nodes = _side_by_side(outer[: len(values)])
    flag, flag_nodes = _flags(rows, flags)
    terms = (Term(row, "concatenated"), Term(flag, "concatenated"))
    made = (*nodes, *row_nodes, *flag_nodes)
    return Filter(carried, terms, 0, rows[0].is_sequence, False, made, tuple(pairs))


def _gained(
    carried: Carried,
    value: ir.Value,
    graphs: tuple[ir.Graph, ...],
    conditions: tuple[tuple[ir.Value, bool], ...],
) -> tuple[list[_Row], tuple[ir.Graph, ...]] | None:
    """Return the rows that a value has more than the carried one, and the branches met."""
    rows: list[_Row] = []
    value = skip_identities(value)
    while value is not carried.inner and len(rows) <= _MOST:
        one = row_behind(value, graphs, carried)
        if one is not None:
            value, row, is_sequence = one
            rows.insert(0, _Row(row, conditions, is_sequence))
            continue
        mask = find_selection(value, Scope(graphs))
        if mask is None or not mask.branches:
            return None
        inner: list[_Row] = []
        graphs = (*graphs, *(graph for graph in mask.branches if graph not in graphs))
        for side, is_turned in ((mask.chosen, False), (mask.other, True)):
            under = (*conditions, (mask.condition, is_turned))
            found = _gained(carried, side, graphs, under)
            if found is None:
                return None
            inner += found[0]
            graphs = found[1]
        return inner + rows, graphs
    return rows, graphs


def _side_by_side(values: Sequence[ir.Value]) -> tuple[ir.Value, list[ir.Node]]:
    """Return values as the rows of one, and the nodes that make it."""
    axes = added_integers(0)
    parts = [added("Unsqueeze", [value, axes.outputs[0]]) for value in values]
    whole = added("Concat", [part.outputs[0] for part in parts], {"axis": 0})
    return whole.outputs[0], [axes, *parts, whole]


def _flags(
    rows: Sequence[_Row], outer: dict[ir.Value, ir.Value]
) -> tuple[ir.Value, list[ir.Node]]:
    """Return whether each row is kept, ``bool[rows]``, and the nodes that compute it."""
    nodes: list[ir.Node] = []
    flags = []
    for row in rows:
        true = added_constant(np.array(True))
        nodes.append(true)
        flag = true.outputs[0]
        for condition, is_turned in row.conditions:
            one, beside = flag_of(outer[condition], is_turned=is_turned)
            both = added("And", [flag, one])
            nodes += [*beside, both]
            flag = both.outputs[0]
        flags.append(flag)
    whole, made = _side_by_side(flags)
    return whole, [*nodes, *made]
