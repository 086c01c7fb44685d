"""Two Loops in each other that are one: ``for i: for j: s = f(s, i, j)`` with as many j for all i.

The one Loop runs ``n * m`` times: with 2 and 3 iterations these are 6, and iteration 4 is that of
``i = 4 / 3`` and ``j = 4 % 3``. What the outer Loop computes beside the inner one is computed in
each of them, so that it has to be little.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.common.in_branch import may_fail
from passes.carried.pattern import added, added_constant, dependent_values
from passes.graph.drafts import note
from passes.graph.graphs import constant_value, is_operator, reads_of, subgraphs, walk_nodes
from passes.graph.made import made_by, skip_identities
from passes.graph.node_copies import copy_nodes, copy_of, copy_value
from passes.numbers.evaluate import Evaluator
from passes.numbers.number_order import is_nonnegative
from passes.raising.flattened import Flattened
from passes.reading.iterations import Carried, Iteration, read_iteration
from passes.typing import Typing, Typings
from passes.typing.value_types import ValueType

__all__ = ["flattened"]

_READS = frozenset({"Constant", "Gather", "Identity", "Shape", "Size", "Slice"})
_NUMBERS = frozenset(
    {"Add", "Cast", "Ceil", "Concat", "Div", "Floor", "Max", "Min", "Mod", "Mul", "Neg", "Squeeze"}
    | {"Sub", "Unsqueeze"}
)
_MOST = 16
"""Of so many numbers at most the outer Loop may compute something by itself."""


def flattened(node: ir.Node, typings: Typings, paths: dict[ir.Node, str]) -> Flattened | None:
    """Return the one Loop that two are, None where they are not.

    Args:
        node: The outer Loop.
        typings: Both typings; they gain what is new.
        paths: Names nodes; it gains the new ones.
    """
    outer = _counted(node)
    within = [] if outer is None else [one for one in outer.body if any(subgraphs(one))]
    inner = _counted(within[0]) if len(within) == 1 else None
    if outer is None or inner is None or outer.trips is None or inner.trips is None:
        return None
    proven, through = typings.proven, _through(outer, inner)
    beside = [one for one in outer.body if one is not inner.node]
    if through is None or not all(_is_little(one, proven) for one in beside):
        return None
    if not {proven.rank(outer.trips), proven.rank(inner.trips)} <= {0, 1}:
        return None
    ahead, names = _ahead(inner.trips, outer), [v.name for v in _initializers(outer, inner)]
    if len(set(names)) < len(names):
        return None
    if ahead is None or any(may_fail(one, proven) for one in ahead):
        return None
    values: dict[ir.Value, ir.Value | None] = {
        one.inner: one.initial for one in outer.states if one.inner not in through
    }
    before = copy_nodes(ahead, values)
    typings.copy(values)
    counts = [outer.trips, copy_of(values, inner.trips)]
    numbers = [_at_least(0, value, proven, before) for value in counts]
    total = _made("Mul", numbers, before)
    share = _at_least(1, numbers[1], proven, before)  # onnxruntime fails at 0, of no numbers too
    body, made = _body(outer, inner, through, share)
    given = [total, node.inputs[1], *(one.initial for one in outer.states)]
    loop = ir.Node("", "Loop", given, [ir.AttrGraph("body", body)], num_outputs=len(node.outputs))
    note(loop)
    loop.meta.update(node.meta)
    loop.name = node.name
    typings.copy(made.values)
    for scalar in (*made.numbers, *(out for one in before[len(ahead) :] for out in one.outputs)):
        typings.declared.set(scalar, _INTEGER)
        proven.set(scalar, _INTEGER)
    typings.copy(dict(zip(node.outputs, loop.outputs, strict=True)))
    new = walk_nodes([*before, loop])
    paths |= {each: paths[made.copies.get(each, node)] for each in new}
    return Flattened(node, loop, before)


_INTEGER = ValueType(ir.TensorType(ir.DataType.INT64), ())


@dataclasses.dataclass
class _Content:
    """What a new body consists of: values of the old ones, nodes, and new numbers."""

    values: dict[ir.Value, ir.Value | None]
    copies: dict[ir.Node, ir.Node]
    numbers: list[ir.Value]


def _counted(node: ir.Node) -> Iteration | None:
    """Return a Loop that a count alone ends, and that carries all that it yields."""
    found = read_iteration(node) if is_operator(node, "Loop") else None
    if found is None or found.collected or found.next_goes_on is None:
        return None
    after = skip_identities(found.next_goes_on)
    is_endless = after is found.goes_on or _is_true(after)
    return found if is_endless and (found.condition is None or _is_true(found.condition)) else None


def _is_true(value: ir.Value) -> bool:
    known = constant_value(skip_identities(value))
    return known is not None and bool(known.all())


def _through(outer: Iteration, inner: Iteration) -> dict[ir.Value, Carried] | None:
    """Return for each carried value the one of the inner Loop that it goes through.

    Left out are those that stay as they are. None where something else becomes of one, where the
    outer Loop reads one, or where none is a list: what is written or summed in two Loops is read
    in each of them, by places that are known to differ.
    """
    found: dict[ir.Value, Carried] = {}
    for state in outer.states:
        if skip_identities(state.next) is state.inner:
            continue
        own = [one for one in inner.states if one.result is state.next]
        if len(own) != 1 or own[0].initial is not state.inner or any(own[0].result.uses()):
            return None
        if any(use.node is not inner.node for use in state.inner.uses()):
            return None
        found[state.inner] = own[0]
    taken = list(found.values())
    others = (one for one in inner.states if one not in taken)
    are_lists = any(made_by(one.next, "SequenceInsert") for one in taken)
    return found if are_lists and all(_stays(one) for one in others) else None


def _stays(state: Carried) -> bool:
    """Whether a carried value of an inner Loop stays as it is, and nothing reads it behind."""
    return skip_identities(state.next) is state.inner and not any(state.result.uses())


def _is_little(node: ir.Node, typing: Typing) -> bool:
    """Whether a node reads something, or computes a few numbers."""
    if is_operator(node, _READS):
        return True
    dims = [typing.static_dims(value) for value in node.outputs]
    is_small = all(own is not None and math.prod(own) <= _MOST for own in dims)
    return is_operator(node, _NUMBERS) and is_small


def _ahead(trips: ir.Value, outer: Iteration) -> list[ir.Node] | None:
    """Return the nodes of a body that compute a number which is one in all iterations."""
    body = outer.body
    moving = [v for v in body.inputs if v not in {s.inner for s in outer.states if _keeps(s)}]
    if trips in dependent_values(body, *moving):
        return None
    needed, found = {trips}, list[ir.Node]()
    for node in reversed(list(body)):
        if not needed.isdisjoint(node.outputs):
            found.insert(0, node)
            needed.update(reads_of(node))
    own = {*body.initializers.values(), *moving}  # a body may read their Shape
    return None if own & needed else found


def _keeps(state: Carried) -> bool:
    return skip_identities(state.next) is state.inner


def _at_least(least: int, value: ir.Value, typing: Typing, nodes: list[ir.Node]) -> ir.Value:
    """Record a number of iterations as that or more, of rank 0."""
    number = Evaluator(typing, frozenset()).number(value)
    if typing.rank(value) != 0:
        value = _made("Squeeze", [value], nodes)
    if number is not None and is_nonnegative(number - least):
        return value
    limit = added_constant(np.array(least, np.int64))
    nodes.append(limit)
    return _made("Max", [value, limit.outputs[0]], nodes)


def _initializers(outer: Iteration, inner: Iteration) -> list[ir.Value]:
    return [v for one in (outer, inner) for v in one.body.initializers.values()]


def _pairs(copies: Iterable[ir.Node], nodes: Iterable[ir.Node]) -> dict[ir.Node, ir.Node]:
    """Return for each copy, and what is inside of it, what it is a copy of."""
    return dict(zip(walk_nodes(copies), walk_nodes(nodes), strict=True))


def _made(op_type: str, values: Sequence[ir.Value], nodes: list[ir.Node]) -> ir.Value:
    """Record a node, and return its output."""
    node = added(op_type, values)
    nodes.append(node)
    return node.outputs[0]


def _body(
    outer: Iteration, inner: Iteration, through: Mapping[ir.Value, Carried], count: ir.Value
) -> tuple[ir.Graph, _Content]:
    """Return the body of the one Loop, and what it consists of.

    Args:
        outer: The outer Loop.
        inner: The inner Loop.
        through: See `_through`.
        count: How often the inner Loop runs, 1 if it does not.
    """
    assert outer.number is not None
    assert inner.number is not None
    assert outer.goes_on is not None
    assert inner.goes_on is not None
    inputs = [copy_value(v) for v in outer.body.inputs]
    number, goes_on, *states = inputs
    nodes: list[ir.Node] = []
    i, j = (_made(op_type, [number, count], nodes) for op_type in ("Div", "Mod"))
    values: dict[ir.Value, ir.Value | None] = {
        outer.number: i,
        outer.goes_on: goes_on,
        inner.goes_on: goes_on,
        **{one.inner: own for one, own in zip(outer.states, states, strict=True)},
    }
    initializers = _initializers(outer, inner)
    values |= {value: copy_value(value) for value in initializers}
    before = [node for node in outer.body if node is not inner.node]
    copied = copy_nodes(before, values)
    for one in inner.states:
        given = next((state for state, own in through.items() if own is one), one.initial)
        values[one.inner] = copy_of(values, given)
    values[inner.number] = j
    copied += copy_nodes(inner.body, values)
    nodes += copied
    ends = [
        copy_of(values, through[one.inner].next if one.inner in through else one.inner)
        for one in outer.states
    ]
    outputs = [_made("Identity", [value], nodes) for value in (goes_on, *ends)]
    known = dict(
        zip([outer.body.outputs[0], *(one.next for one in outer.states)], outputs, strict=True)
    )
    body = ir.Graph(
        inputs,
        outputs,
        nodes=nodes,
        initializers=[copy_of(values, value) for value in initializers],
        name=outer.body.name,
    )
    pairs: dict[ir.Value, ir.Value | None] = {**values, outer.number: number, **known}
    copies = _pairs(copied, [*before, *inner.body])
    return body, _Content(pairs, copies, [i, j])
