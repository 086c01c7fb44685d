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

__all__ = ["SeveralRows", "find_rows_behind", "find_several_rows", "side_by_side"]

_MOST = 8
"""More rows of one iteration are not told apart."""


@dataclasses.dataclass(frozen=True)
class _Row:
    """A row, and the conditions under which it is added, each with whether its opposite counts."""

    value: ir.Value
    conditions: tuple[tuple[ir.Value, bool], ...]
    is_sequence: bool


@dataclasses.dataclass(frozen=True)
class SeveralRows:
    """The rows that an iteration adds at the end of a carried value, in their order.

    Attributes:
        carried: Where that stands.
        given: The rows, in the branches that add them.
        values: The rows as they are known outside of these.
        flags: Whether each is added; none where all are in every iteration.
        is_sequence: Whether it is a sequence.
        nodes: What computes the rows and flags beside the body.
        speculated: The nodes of branches that the map runs in all iterations.
    """

    carried: Carried
    given: tuple[ir.Value, ...]
    values: tuple[ir.Value, ...]
    flags: tuple[ir.Value, ...]
    is_sequence: bool
    nodes: tuple[ir.Node, ...]
    speculated: tuple[tuple[ir.Node, ir.Node], ...]


def find_rows_behind(carried: Carried, iteration: Iteration, typing: Typing) -> SeveralRows | None:
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
    outer, nodes, pairs = hoist([*values, *conditions], graphs[1:])
    if may_fail_apart(pairs, typing):
        return None
    known = dict(zip(conditions, outer[len(values) :], strict=True))
    flags, flag_nodes = _flags(rows, known) if conditions else ([], [])
    return SeveralRows(
        carried,
        tuple(values),
        tuple(outer[: len(values)]),
        tuple(flags),
        rows[0].is_sequence,
        (*nodes, *flag_nodes),
        tuple(pairs),
    )


def find_several_rows(found: SeveralRows | None, typing: Typing) -> Filter | None:
    """Return rows of one shape that an iteration adds, each if its flag is set.

    Args:
        found: What an iteration adds.
        typing: The proven typing.
    """
    if found is None:
        return None
    first, *others = (typing.dims(value) for value in found.given)
    if others and not all(same_dims(typing, found.given[0], d) for d in (first, *others)):
        return None
    row, row_nodes = side_by_side(found.values)
    terms, nodes = [Term(row, "concatenated")], [*found.nodes, *row_nodes]
    if found.flags:
        flag, flag_nodes = side_by_side(found.flags)
        terms.append(Term(flag, "concatenated"))
        nodes += flag_nodes
    return Filter(
        found.carried,
        tuple(terms),
        0,
        found.is_sequence,
        False,
        nodes=tuple(nodes),
        speculated=found.speculated,
    )


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


def side_by_side(values: Sequence[ir.Value]) -> tuple[ir.Value, list[ir.Node]]:
    """Return values as the rows of one, and the nodes that make it."""
    axes = added_integers(0)
    parts = [added("Unsqueeze", [value, axes.outputs[0]]) for value in values]
    whole = added("Concat", [part.outputs[0] for part in parts], {"axis": 0})
    return whole.outputs[0], [axes, *parts, whole]


def _flags(
    rows: Sequence[_Row], outer: dict[ir.Value, ir.Value]
) -> tuple[list[ir.Value], list[ir.Node]]:
    """Return whether each row is added, and the nodes that compute it."""
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
    return flags, nodes
