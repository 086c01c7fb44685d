"""Finds the best value so far, what belongs to it, and the last value where a condition holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.choices.best import Best, Chosen
from passes.carried.choices.hits import Hits
from passes.carried.common.in_branch import in_branch, may_fail_apart
from passes.carried.common.masks import neutral_value
from passes.carried.common.outside import made_twice
from passes.carried.common.selections import Selection, find_replacing, hoist
from passes.carried.pattern import FLOATS, Term, added, dependent_values
from passes.carried.totals.latest import Latest
from passes.graph.graphs import subgraphs, with_subgraphs
from passes.graph.made import made_by, operands, skip_identities
from passes.graph.scopes import Scope
from passes.numbers.integer_reads import INTEGERS
from passes.reading.counts import OPPOSITES
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["find_best", "find_chosen"]

_BETTER = {
    "Greater": ("Max", True),
    "GreaterOrEqual": ("Max", False),
    "Less": ("Min", True),
    "LessOrEqual": ("Min", False),
}
"""For each comparison of a new value with the old one: what wins, and whether a tie keeps it."""

_TURNED = {
    "Greater": "Less",
    "Less": "Greater",
    "GreaterOrEqual": "LessOrEqual",
    "LessOrEqual": "GreaterOrEqual",
}


def find_best(carried: Carried, iteration: Iteration, typing: Typing) -> Best | Latest | None:
    """Return how a carried value keeps the best one, None if it does not."""
    selection = find_replacing(carried.next, carried.inner, iteration.body)
    if selection is None:
        return None
    same = made_twice(Scope((iteration.body, *selection.branches)))
    chosen = same.get(selection.chosen, selection.chosen)
    selection = dataclasses.replace(selection, chosen=skip_identities(chosen))
    dependent = dependent_values(iteration.body, carried.inner)
    if selection.chosen in dependent or not _is_of(selection.chosen, iteration.body):
        return None
    node = made_by(selection.condition, *_BETTER, body=iteration.body)
    if node is None:
        return None
    one, other = (skip_identities(same.get(v, v)) for v in map(skip_identities, operands(node)))
    op_type = node.op_type
    if one is carried.inner:
        one, other, op_type = other, one, _TURNED[op_type]
    dtype = typing.dtype(carried.initial)
    if one is not selection.chosen or other is not carried.inner or dtype not in _TYPES:
        return None
    if selection.is_turned:
        op_type = OPPOSITES[op_type]
    extreme, takes_first = _BETTER[op_type]
    term = Term(selection.chosen)
    name = "best so far (maximum)" if extreme == "Max" else "best so far (minimum)"
    if selection.is_turned and dtype in FLOATS:  # a NaN is taken, and whatever follows it
        return None if selection.weighs else Latest(carried, (term,), extreme, dtype, name)
    if selection.weighs and not takes_first:
        return None
    is_whole = selection.is_whole or typing.dims(carried.initial) == ()
    hits = Hits(carried, term, extreme, takes_first, dtype, is_whole, weighs=selection.weighs)
    return Best(carried, (term,), hits, name, weighs=selection.weighs)


_TYPES = FLOATS | INTEGERS


def find_chosen(
    carried: Carried,
    iteration: Iteration,
    best: list[tuple[Selection, Best]],
    typing: Typing,
) -> Chosen | None:
    """Return which iteration's value a carried value takes, None if that is not known.

    Args:
        carried: The carried value.
        iteration: The Loop or Scan.
        best: The best values so far of the same Loop, and how each is chosen.
        typing: The proven typing; it gains what is copied out of branches.
    """
    selection = find_replacing(carried.next, carried.inner, iteration.body)
    if selection is None:
        return None
    scope = Scope((iteration.body, *selection.branches))
    dependent = dependent_values(scope, carried.inner)
    if selection.chosen in dependent:
        return None
    (chosen,), nodes, pairs = hoist([selection.chosen], selection.branches)
    may_fail = may_fail_apart(pairs, typing)
    if may_fail:
        nodes, pairs = _taken(carried, selection, chosen, nodes, pairs, typing), []
        chosen = nodes[-1].outputs[0]
    rows, speculated = Term(chosen), tuple(pairs)
    condition = skip_identities(selection.condition)
    for known, one in best:
        is_same = skip_identities(known.condition) is condition
        is_same = is_same and known.is_turned == selection.is_turned
        if not may_fail and is_same and one.carried is not carried:
            name = "value of the best so far"
            return Chosen(
                carried,
                (one.hits.term, rows),
                one.hits,
                name,
                selection.weighs,
                nodes=tuple(nodes),
                speculated=speculated,
            )
    if condition in dependent:
        return None
    term = Term(selection.condition)
    if selection.is_turned:
        nodes.append(added("Not", [selection.condition]))
        term = Term(nodes[-1].outputs[0])
    hits = Hits(None, term, None, False, ir.DataType.BOOL, selection.is_whole)
    return Chosen(
        carried,
        (term, rows),
        hits,
        "last value where a condition holds",
        selection.weighs,
        nodes=tuple(nodes),
        speculated=speculated,
    )


def _taken(
    carried: Carried,
    selection: Selection,
    chosen: ir.Value,
    copies: Sequence[ir.Node],
    pairs: Sequence[tuple[ir.Node, ir.Node]],
    typing: Typing,
) -> list[ir.Node]:
    """Return nodes; the last one is an If that computes a row only where it is taken."""
    dtype, is_scalar = typing.dtype(carried.initial), typing.dims(carried.initial) == ()
    assert dtype is not None
    family = "Or" if dtype == ir.DataType.BOOL else "Add"
    none, beside = neutral_value(carried.initial, family, dtype, is_scalar=is_scalar)
    turned = selection.is_turned
    return [
        *beside,
        in_branch(selection, chosen, copies, none, pairs, typing, is_turned=turned),
    ]


def _is_of(value: ir.Value, body: ir.Graph) -> bool:
    """Whether a value is known outside of the branches of an If of a body."""
    node = value.producer()
    return node is None or node.graph is body or not _is_inside(node, body)


def _is_inside(node: ir.Node, body: ir.Graph) -> bool:
    graphs = (inner for outer in body for _, inner in subgraphs(outer))
    return any(node.graph is graph for inner in graphs for graph in with_subgraphs(inner))
