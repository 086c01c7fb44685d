"""Rows that a Loop in the body adds to a list: ``for i: for j: acc.append(f(i, j))``.

The inner Loop gives its rows as one tensor instead, ``[n_i, *s]``, and those of all iterations are
joined: with 2 and 3 rows there are 5, which become the elements of the list.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.filters import Filter, row_behind
from passes.carried.in_branch import may_fail_apart
from passes.carried.pattern import Term, added, dependent_values
from passes.graph.drafts import note
from passes.graph.graphs import is_operator, name_of
from passes.graph.made import made_by, operand, skip_identities
from passes.graph.node_copies import copy_nodes, copy_of, copy_value
from passes.reading.iterations import Carried, Iteration, read_iteration
from passes.typing.value_types import Typing

__all__ = ["find_nested_append"]


def find_nested_append(carried: Carried, iteration: Iteration, typing: Typing) -> Filter | None:
    """Return the rows that an inner Loop adds to a carried value, None if it is anything else."""
    node = made_by(carried.next, "Loop", body=iteration.body)
    inner = None if node is None else read_iteration(node)
    through = None if inner is None else _through(inner, carried)
    if inner is None or through is None:
        return None
    found = row_behind(through.next, (inner.body,), through)
    if found is None or found[0] is not through.inner or not _has_one_shape(found[1], typing):
        return None
    _, row, is_sequence = found
    grown = skip_identities(through.next)
    insert = grown.producer()
    if insert is None or dependent_values(inner.body, through.inner) != {through.inner, grown}:
        return None
    if any(use.node is not insert for value in (through.inner, grown) for use in value.uses()):
        return None
    values: dict[ir.Value, ir.Value | None] = {}
    ahead = _own_rows(inner.body, iteration)
    pairs = list(zip(copy_nodes(ahead, values), ahead, strict=True))
    if may_fail_apart(pairs, typing):
        values, pairs = {}, []
    loop = _collecting(inner, through, insert, row, values)
    terms, nodes = (Term(loop.outputs[-1], "concatenated"),), (*(copy for copy, _ in pairs), loop)
    return Filter(carried, terms, 0, is_sequence, False, nodes, tuple(pairs))


def _own_rows(inner: ir.Graph, iteration: Iteration) -> list[ir.Node]:
    """Return what an inner Loop reads by the number of the outer iteration."""
    return [
        node
        for node in inner
        if is_operator(node, "Gather")
        and operand(node, 1) is iteration.number
        and operand(node, 0) not in inner.inputs
        and getattr(operand(node, 0).producer(), "graph", None) is not inner
    ]


def _through(inner: Iteration, carried: Carried) -> Carried | None:
    """Return the state of an inner Loop that a carried value goes through."""
    value = skip_identities(carried.next)
    for state in inner.states:
        if state.result is value and skip_identities(state.initial) is carried.inner:
            return dataclasses.replace(state, initial=carried.initial)
    return None


def _has_one_shape(row: ir.Value, typing: Typing) -> bool:
    """Whether a row has one shape in all iterations, by proof."""
    dims = typing.dims(row)
    return dims is not None and all(map(typing.is_same_number, dims))


def _collecting(
    inner: Iteration,
    through: Carried,
    insert: ir.Node,
    row: ir.Value,
    values: dict[ir.Value, ir.Value | None],
) -> ir.Node:
    """Return a copy of a Loop that collects a row instead of carrying what it is added to.

    Args:
        inner: The Loop.
        through: What it adds the row to.
        insert: The node that adds it.
        row: The row.
        values: What is computed in front of the Loop; gains what is copied.
    """
    body, known = inner.body, set(values)
    inputs = [v for v in body.inputs if v is not through.inner]
    values.update({v: copy_value(v) for v in (*inputs, *body.initializers.values())})
    left = (n for n in body if n is not insert and known.isdisjoint(n.outputs))
    nodes = copy_nodes(left, values)
    nodes.append(added("Identity", [copy_of(values, row)]))
    nodes[-1].meta.update(insert.meta)  # its path
    kept = [v for v in body.outputs if v is not through.next]
    graph = ir.Graph(
        [copy_of(values, v) for v in inputs],
        [*(copy_of(values, v) for v in kept), nodes[-1].outputs[0]],
        nodes=nodes,
        initializers=[copy_of(values, v) for v in body.initializers.values()],
        name=body.name,
    )
    at = 2 + [state.inner for state in inner.states].index(through.inner)
    given = [v for i, v in enumerate(inner.node.inputs) if i != at]
    attribute = ir.AttrGraph("body", graph)
    made = ir.Node("", "Loop", given, [attribute], num_outputs=len(inner.node.outputs))
    for number, value in enumerate(made.outputs):
        value.name = f"{name_of(row)}/Loop/{number}"
    made.meta.update(inner.node.meta)
    note(made)
    return made
