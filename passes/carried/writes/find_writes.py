"""Finds what a carried tensor is written with at an index of the iteration."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Literal

import onnx_ir as ir

from passes.carried.common.uniform import one_number
from passes.carried.pattern import ASK_SHAPE, FLOATS, Term, dependent_values
from passes.carried.places.coordinate_ranges import own_coordinate, own_span
from passes.carried.places.counted_places import names_new_places
from passes.carried.places.shared_coordinates import Reach, shared_coordinate
from passes.carried.places.slice_writes import SliceWrite, find_slice_write
from passes.carried.writes.read_back import find_elements_back, find_read_back
from passes.carried.writes.writes import Write, is_distinct
from passes.graph.made import made_by, operand, operands, shaped, skip_identities
from passes.graph.scopes import Scope
from passes.numbers.integers import ITERATION, Linear
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried

__all__ = ["SCATTERS", "find_write", "placed_terms", "scattered_terms"]

SCATTERS = frozenset({"ScatterND", "ScatterElements"})


def find_write(carried: Carried, facts: LoopFacts, dtype: ir.DataType | None) -> Write | None:
    """Return what a carried tensor is written with, None if that is not all that changes it."""
    body = facts.scope
    added = _added_scatter(carried, body)
    node = added or made_by(carried.next, *SCATTERS, body=body)
    if node is None:
        return None
    data, indices, updates = operands(node)
    if added is None and skip_identities(data) is not carried.inner:
        return None
    dependent = dependent_values(body, carried.inner)
    reduction = node.attributes.get_string("reduction", "none")
    if added is not None:
        reduction = "add"
    elif node.op_type == "ScatterND" and reduction == "none":
        placed = find_slice_write(node, carried, facts)
        if placed is not None and _is_apart(placed, node, facts):
            return _placed(carried, node, placed, dependent, dtype)
    nodes: tuple[ir.Node, ...] = ()
    if updates in dependent and reduction == "none":
        joins = (
            find_read_back(node, carried.inner, facts)
            if node.op_type == "ScatterND"
            else find_elements_back(node, carried.inner, body, facts.evaluator, dtype)
        )
        if joins is None:
            return None
        updates, reduction, nodes = joins.updates, joins.reduction, joins.nodes
    own: Reach | None = None
    if reduction == "none":
        own = _own_places(node, facts)
        if own is None:
            return None
    rounds = reduction in ("add", "mul") and dtype in FLOATS
    axis = node.attributes.get_int("axis", 0)
    if node.op_type == "ScatterND":
        terms = scattered_terms(node, updates, facts)
    else:
        terms = (Term(indices, "concatenated", axis), Term(updates, "concatenated", axis))
    index, width, along = (None, 1, None) if own is None else (own.first, own.width, own.axis)
    return Write(carried, terms, node, index, reduction, rounds, width, along, nodes=nodes)


def _own_places(node: ir.Node, facts: LoopFacts) -> Reach | None:
    """Return the places along an axis that an iteration has for its own, if there are any."""
    indices, evaluator = operand(node, 1), facts.evaluator
    is_listed = node.op_type == "ScatterND"
    axis = 0 if is_listed else node.attributes.get_int("axis", 0)
    index, own = one_number(indices, evaluator), None
    if index is not None:
        own = Reach(index, 1, axis)
    elif is_listed:
        own = shared_coordinate(indices, evaluator) or own_coordinate(indices, evaluator)
    else:
        span = own_span(indices, evaluator)
        own = None if span is None else dataclasses.replace(span, axis=axis)
    return own if own is not None and _may_be_distinct(own.first, own.width, facts) else None


def _may_be_distinct(index: Linear, width: int, facts: LoopFacts) -> bool:
    """Whether no two iterations have one place, as far as the number of iterations is known."""
    trips = facts.iteration.trips
    bound = None if trips is None else facts.evaluator.number(trips)
    if bound is None and index.coefficient(ITERATION) < 0:
        return True
    return is_distinct(index, width, Linear(0) if bound is None else bound)


def _is_apart(placed: SliceWrite, node: ir.Node, facts: LoopFacts) -> bool:
    """Whether two iterations may write in any order, if what is known of the places holds."""
    if placed.reduction != "none":
        return True
    if placed.index is not None:
        return _may_be_distinct(placed.index, placed.width, facts)
    return any(names_new_places(point, node, facts) for point in placed.points)


def _placed(
    carried: Carried,
    node: ir.Node,
    placed: SliceWrite,
    dependent: Collection[ir.Value],
    dtype: ir.DataType | None,
) -> Write | None:
    """Return what is written to a grid of places, None if it depends on what was written."""
    terms = placed_terms(placed, dependent)
    if terms is None:
        return None
    rounds = placed.reduction in ("add", "mul") and dtype in FLOATS
    index = placed.index if placed.reduction == "none" else None
    how = (placed.reduction, rounds, placed.width, placed.axis, placed.named)
    return Write(carried, terms, node, index, *how, nodes=placed.nodes)


def placed_terms(placed: SliceWrite, dependent: Collection[ir.Value]) -> tuple[Term, ...] | None:
    """Return the places and the rows of a grid, None if they depend on what was written.

    Args:
        placed: What an iteration writes.
        dependent: The values that depend on what was written.
    """
    readers = (one for one in placed.nodes if one.op_type not in ASK_SHAPE)
    read = {v for one in readers for v in one.inputs if v is not None}
    if not (read | {placed.indices, placed.updates}).isdisjoint(dependent):
        return None
    is_cell = placed.named is not None and placed.kind == "stacked"
    values = (placed.indices, placed.updates)
    return tuple(Term(value, placed.kind, is_alike=is_cell) for value in values)


def scattered_terms(node: ir.Node, updates: ir.Value, facts: LoopFacts) -> tuple[Term, ...]:
    """Return the places and the rows of a ScatterND.

    Args:
        node: The node.
        updates: What it writes, or what that is computed of.
        facts: The Loop or Scan.
    """
    indices = operand(node, 1)
    is_list = facts.evaluator.rank(indices) == 2
    kind: Literal["stacked", "concatenated"] = "concatenated" if is_list else "stacked"
    return Term(indices, kind), Term(updates, kind)


def _added_scatter(carried: Carried, body: ir.Graph | Scope) -> ir.Node | None:
    """Return what scatters onto zeros of the shape of a carried value, and is added to it.

    TorchScript's exporter writes index_add so. No two updates of one iteration may go to one
    place, as ScatterElements has no order; so to add them is the same.
    """
    add = made_by(carried.next, "Add", body=body)
    given = [] if add is None else [skip_identities(v) for v in operands(add)]
    others = [v for v in given if v is not carried.inner]
    scatter = made_by(others[0], *SCATTERS, body=body) if len(others) == 1 else None
    if scatter is None or scatter.attributes.get_string("reduction", "none") != "none":
        return None
    zeros = made_by(scatter.inputs[0], "ConstantOfShape", body=body)
    if zeros is None or shaped(zeros.inputs[0], body) is not carried.inner:
        return None
    filled = zeros.attributes.get("value")
    is_zero = filled is None or not filled.as_tensor().numpy().any()
    return scatter if is_zero else None
