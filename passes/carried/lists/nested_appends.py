"""Rows that a Loop in the body adds to a list: ``for i: for j: acc.append(f(i, j))``.

The inner Loop gives its rows as one tensor instead, ``[n_i, *s]``, and those of all iterations are
joined: with 2 and 3 rows there are 5, which become the elements of the list.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.common.in_branch import may_fail, may_fail_apart
from passes.carried.common.masks import flag_of
from passes.carried.common.selections import find_selection, hoist
from passes.carried.lists.added_rows import row_behind
from passes.carried.lists.filters import Filter
from passes.carried.pattern import Term, added, dependent_values
from passes.graph.drafts import note
from passes.graph.graphs import is_operator, name_of
from passes.graph.made import made_by, operand, skip_identities
from passes.graph.node_copies import copy_nodes, copy_of, copy_value
from passes.numbers.number_order import is_nonnegative
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried, Iteration, read_iteration
from passes.reading.nodes import is_same_work
from passes.typing.value_types import Typing

__all__ = ["find_nested_append"]


@dataclasses.dataclass(frozen=True)
class _Gain:
    """What an iteration of an inner Loop adds to a list.

    Attributes:
        node: What adds it: an append, or an If, one branch of which appends.
        values: The row, and the flag that says whether it is added, if there is one.
        nodes: What computes both of what the body computes; they stand in no graph.
        speculated: Those of them that stood in a branch, each with the node that it is a copy of.
        is_sequence: Whether the list is a sequence.
    """

    node: ir.Node
    values: tuple[ir.Value, ...]
    nodes: tuple[ir.Node, ...]
    speculated: tuple[tuple[ir.Node, ir.Node], ...]
    is_sequence: bool


def find_nested_append(carried: Carried, facts: LoopFacts, typing: Typing) -> Filter | None:
    """Return the rows that an inner Loop adds to a carried value, None if it is anything else."""
    iteration = facts.iteration
    node = made_by(carried.next, "Loop", body=iteration.body)
    inner = None if node is None else read_iteration(node)
    through = None if inner is None else _through(inner, carried)
    if inner is None or through is None:
        return None
    gain = _gain(inner, through) or _gain_of_some(inner, through)
    if gain is None or not _has_one_shape(gain.values[0], gain, typing):
        return None
    if any(_may_fail(copy, old, inner, facts, typing) for copy, old in gain.speculated):
        return None
    values: dict[ir.Value, ir.Value | None] = {}
    ahead = _own_rows([*inner.body, *gain.nodes], iteration, inner)
    pairs = list(zip(copy_nodes(ahead, values), ahead, strict=True))
    if may_fail_apart(pairs, typing):
        values, pairs = {}, []
    if any(copy in ahead and not pairs for copy, _ in gain.speculated):
        return None
    loop = _collecting(inner, through, gain, values)
    count = len(gain.values)
    terms = tuple(Term(value, "concatenated") for value in loop.outputs[-count:])
    nodes = (*(copy for copy, _ in pairs), loop)
    return Filter(carried, terms, 0, gain.is_sequence, False, nodes=nodes, speculated=tuple(pairs))


def _gain(inner: Iteration, through: Carried) -> _Gain | None:
    """Return the row that every iteration of an inner Loop adds."""
    found = row_behind(through.next, (inner.body,), through)
    grown = skip_identities(through.next)
    insert = grown.producer()
    if found is None or found[0] is not through.inner or insert is None:
        return None
    if dependent_values(inner.body, through.inner) != {through.inner, grown}:
        return None
    if any(use.node is not insert for value in (through.inner, grown) for use in value.uses()):
        return None
    return _Gain(insert, (found[1],), (), (), found[2])


def _gain_of_some(inner: Iteration, through: Carried) -> _Gain | None:
    """Return the row that some iterations of an inner Loop add, in one branch of an If."""
    grown = skip_identities(through.next)
    mask, choice = find_selection(grown, inner.body), grown.producer()
    if mask is None or choice is None or not mask.branches or len(choice.outputs) != 1:
        return None
    dependent = dependent_values(inner.body, through.inner)
    if through.inner not in (mask.chosen, mask.other) or dependent != {through.inner, grown}:
        return None
    is_turned = mask.chosen is through.inner
    value = mask.other if is_turned else mask.chosen
    found = row_behind(value, (inner.body, *mask.branches), through)
    if found is None or found[0] is not through.inner:
        return None
    asked = {use.node.graph for use in through.inner.uses()}
    if not asked <= set(mask.branches) or any(True for _ in grown.uses()):
        return None
    (row,), nodes, speculated = hoist([found[1]], mask.branches)
    flag, beside = flag_of(mask.condition, is_turned=is_turned)
    for node in (*nodes, *beside):
        if not node.meta:
            node.meta.update(choice.meta)  # its path
    return _Gain(choice, (row, flag), (*nodes, *beside), tuple(speculated), found[2])


def _may_fail(
    copy: ir.Node, old: ir.Node, inner: Iteration, facts: LoopFacts, typing: Typing
) -> bool:
    """Whether a node of a branch may fail in iterations of an inner Loop that do not take it.

    Rows that the number of the outer iteration names are looked at later.
    """
    if any(is_same_work(copy, node) for node in inner.body):
        return False
    if not is_operator(copy, "Gather"):
        return may_fail(old, typing)
    if copy.attributes.get_int("axis", 0) != 0:
        return may_fail_apart([(copy, old)], typing)
    tensor, index = operand(copy, 0), operand(copy, 1)
    if index is facts.iteration.number:
        return False
    rows = facts.evaluator.dimension(tensor, 0)
    trips = None if inner.trips is None else facts.evaluator.number(inner.trips)
    if index is not inner.number or rows is None or trips is None:
        return may_fail_apart([(copy, old)], typing)
    return not is_nonnegative(rows - trips)


def _own_rows(nodes: Sequence[ir.Node], iteration: Iteration, inner: Iteration) -> list[ir.Node]:
    """Return what an inner Loop reads by the number of the outer iteration.

    Args:
        nodes: The nodes of its body, and those that are added to it.
        iteration: The outer Loop.
        inner: The inner Loop.
    """
    own = {value for node in nodes for value in node.outputs}
    return [
        node
        for node in nodes
        if is_operator(node, "Gather")
        and operand(node, 1) is iteration.number
        and operand(node, 0) not in inner.body.inputs
        and operand(node, 0) not in own
    ]


def _through(inner: Iteration, carried: Carried) -> Carried | None:
    """Return the state of an inner Loop that a carried value goes through."""
    value = skip_identities(carried.next)
    for state in inner.states:
        if state.result is value and skip_identities(state.initial) is carried.inner:
            return dataclasses.replace(state, initial=carried.initial)
    return None


def _has_one_shape(row: ir.Value, gain: _Gain, typing: Typing) -> bool:
    """Whether a row has one shape in all iterations, by proof."""
    for copy, old in gain.speculated:
        for new, known in zip(copy.outputs, old.outputs, strict=True):
            typing.set(new, typing[known])
    dims = typing.dims(row)
    return dims is not None and all(map(typing.is_same_number, dims))


def _collecting(
    inner: Iteration, through: Carried, gain: _Gain, values: dict[ir.Value, ir.Value | None]
) -> ir.Node:
    """Return a copy of a Loop that collects a row instead of carrying what it is added to.

    Args:
        inner: The Loop.
        through: What it adds the row to.
        gain: The row.
        values: What is computed in front of the Loop; gains what is copied.
    """
    body, known = inner.body, set(values)
    inputs = [v for v in body.inputs if v is not through.inner]
    values.update({v: copy_value(v) for v in (*inputs, *body.initializers.values())})
    given = (*(n for n in body if n is not gain.node), *gain.nodes)
    nodes = copy_nodes((n for n in given if known.isdisjoint(n.outputs)), values)
    rows = [added("Identity", [copy_of(values, value)]) for value in gain.values]
    for node in rows:
        node.meta.update(gain.node.meta)  # its path
    kept = [v for v in body.outputs if v is not through.next]
    graph = ir.Graph(
        [copy_of(values, v) for v in inputs],
        [*(copy_of(values, v) for v in kept), *(node.outputs[0] for node in rows)],
        nodes=[*nodes, *rows],
        initializers=[copy_of(values, v) for v in body.initializers.values()],
        name=body.name,
    )
    at = 2 + [state.inner for state in inner.states].index(through.inner)
    read = [v for i, v in enumerate(inner.node.inputs) if i != at]
    attribute = ir.AttrGraph("body", graph)
    count = len(inner.node.outputs) - 1 + len(rows)
    made = ir.Node("", "Loop", read, [attribute], num_outputs=count)
    for number, value in enumerate(made.outputs):
        value.name = f"{name_of(gain.values[0])}/Loop/{number}"
    made.meta.update(inner.node.meta)
    note(made)
    return made
