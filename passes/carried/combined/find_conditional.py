"""Finds writes under a condition: an If with one branch that writes to what is carried.

A branch that may fail elsewhere stays in an If, which yields places and rows:
``if n_i > 0: out[i] = f(x_i)`` writes one row to one place, or no rows to no places.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.combined.conditional import Conditional
from passes.carried.combined.steps import in_steps
from passes.carried.common.in_branch import may_fail_apart
from passes.carried.common.masks import flag_of
from passes.carried.common.outside import known_outside
from passes.carried.common.row_shapes import rows_for_shape
from passes.carried.common.selections import Selection, find_selection, hoist
from passes.carried.pattern import (
    Pattern,
    Term,
    added,
    added_constant,
    added_integers,
    dependent_values,
)
from passes.carried.ranges.own_rows import OwnRows
from passes.carried.writes.writes import Write
from passes.graph.builder import Builder
from passes.graph.graphs import is_operator, reads_of, subgraphs
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["Find", "find_conditional", "reread"]


def branched_write(
    done: Write,
    named: int,
    mask: Selection,
    copies: Sequence[ir.Node],
    typing: Typing,
    *,
    is_turned: bool,
) -> tuple[tuple[Term, ...], list[ir.Node]] | None:
    """Return the places and the rows of those iterations that write, and their nodes, or None.

    Args:
        done: What is written; its terms are known outside of the branch.
        named: Along how many axes its places are named.
        mask: Says when.
        copies: What computes the terms, and what may fail among them.
        typing: The proven typing.
        is_turned: Whether it is written where the condition is false.
    """
    dtype = typing.dtype(done.carried.initial)
    index_type = typing.dtype(done.terms[0].value) or ir.DataType.INT64
    if dtype is None:
        return None
    none = _no_rows(done, named, dtype, typing)
    if none is None:
        return None
    outside = [node for node in copies if _reads_shape(node, done.carried.inner)]

    def taken(builder: Builder) -> list[ir.Value]:
        builder.nodes.extend(node for node in copies if node not in outside)
        return [_rows(builder, term) for term in done.terms]

    def left(builder: Builder) -> list[ir.Value]:
        places = builder.constant(np.zeros([0, named], index_type.numpy()))
        builder.nodes.extend(none)
        return [places, none[-1].outputs[0]]

    names = ("else_branch", "then_branch") if is_turned else ("then_branch", "else_branch")
    graphs = [Builder("branch").subgraph(n, [], w) for n, w in (("taken", taken), ("left", left))]
    made = added("If", [mask.condition], dict(zip(names, graphs, strict=True)), outputs=2)
    terms = tuple(Term(value, "concatenated") for value in made.outputs)
    return terms, [*outside, made]


def _reads_shape(node: ir.Node, inner: ir.Value) -> bool:
    """Whether a node reads nothing but the shape of a tensor."""
    return is_operator(node, "Shape") and node.inputs[0] is inner


def _rows(builder: Builder, term: Term) -> ir.Value:
    """Record what a term gives as rows."""
    if term.kind == "concatenated":
        return term.value
    return builder.op("Unsqueeze", [term.value, builder.ints(0)])


def _no_rows(done: Write, named: int, dtype: ir.DataType, typing: Typing) -> list[ir.Node] | None:
    """Return nodes that cannot fail and end with one that yields no rows; None if none do."""
    initial = done.carried.initial
    dims = typing.dims(initial)
    if dims is None:
        return None
    sizes = [d for d in dims[named:] if isinstance(d, int)]
    if len(sizes) == len(dims) - named:
        return [added_constant(np.zeros([0, *sizes], dtype.numpy()))]
    if named > 1:
        return None
    zero = added_constant(np.array([0], np.int64))
    bounds = [zero.outputs[0]] * 3
    return [zero, added("Slice", [initial, *bounds])]


Find = Callable[[Carried, LoopFacts, Typing], Pattern | None]


def find_conditional(
    carried: Carried, facts: LoopFacts, typing: Typing, find: Find
) -> Pattern | None:
    """Return what some iterations write to a carried tensor; None if that is not all.

    Args:
        carried: The carried tensor.
        facts: The Loop or Scan.
        typing: The proven typing; it gains what is copied out of branches.
        find: Finds what a value was written with.
    """
    mask = find_selection(carried.next, facts.scope)
    if mask is None or mask.condition in dependent_values(facts.scope, carried.inner):
        return None
    if not mask.branches and typing.dims(mask.condition) != ():
        return None
    sides = [side for side in _sides(mask) if side[0] is not carried.inner]
    inside = dataclasses.replace(facts, branches=(*facts.branches, *mask.branches))
    parts: list[Pattern] = []
    for value, is_turned in sides:
        done = find(dataclasses.replace(carried, next=value), inside, typing)
        if done is None or any(node.op_type == "If" for node in done.nodes):
            return None  # such an If would run where the branch around it does not
        parts.append(_under(done, mask, facts, typing, is_turned=is_turned))
    return parts[0] if len(parts) == 1 else in_steps(parts)


def _sides(mask: Selection) -> list[tuple[ir.Value, bool]]:
    """Return both values, and whether each is taken where the condition is false."""
    return [(mask.chosen, False), (mask.other, True)]


def _under(
    done: Pattern, mask: Selection, facts: LoopFacts, typing: Typing, *, is_turned: bool
) -> Pattern:
    """Return a pattern as what only some iterations do, with what computes it in all of them."""
    read = [term.value for term in done.terms]
    read += [v for node in done.nodes for v in reads_of(node)]
    zeros, instead = rows_for_shape(
        mask.branches, done.carried.inner, done.carried.initial, typing
    )
    instead |= dict.fromkeys(done.between, done.carried.inner)
    instead = known_outside(mask.branches, facts.scope) | instead
    values, copies, pairs = hoist(read, mask.branches, instead)
    _enter(pairs, facts, typing)
    outside = {old: new for old, new in zip(read, values, strict=True) if old is not new}
    for node in done.nodes:
        reread(node, outside)
    terms = [dataclasses.replace(t, value=outside.get(t.value, t.value)) for t in done.terms]
    if may_fail_apart(pairs, typing) and isinstance(done, Write) and done.named is not None:
        at_hand = dataclasses.replace(done, terms=tuple(terms))
        made = branched_write(
            at_hand, done.named, mask, (*zeros, *copies, *done.nodes), typing, is_turned=is_turned
        )
        if made is not None:
            return Conditional(done.carried, made[0], done, False, nodes=tuple(made[1]))
    flag, beside = flag_of(mask.condition, is_turned=is_turned)
    terms, limits = _limited(terms, flag)
    terms.append(Term(flag))
    nodes = (*zeros, *copies, *done.nodes, *beside, *limits)
    speculated = (*pairs, *done.speculated)
    if isinstance(done, OwnRows):
        return done.under(tuple(terms), nodes, speculated)
    return Conditional(done.carried, tuple(terms), done, True, nodes=nodes, speculated=speculated)


def _enter(pairs: Iterable[tuple[ir.Node, ir.Node]], facts: LoopFacts, typing: Typing) -> None:
    """Enter what is known of nodes for their copies."""
    for copy, node in pairs:
        for new, old in zip(copy.outputs, node.outputs, strict=True):
            typing.set(new, typing[old])
            facts.evaluator.known[new] = facts.evaluator.of(old)


def reread(node: ir.Node, values: Mapping[ir.Value, ir.Value]) -> None:
    """Let a node, and those in its graphs, read other values."""
    for at, value in enumerate(node.inputs):
        if value is not None and value in values:
            node.replace_input_with(at, values[value])
    for _, graph in subgraphs(node):
        for inner in graph:
            reread(inner, values)


def _limited(terms: Sequence[Term], flag: ir.Value) -> tuple[list[Term], list[ir.Node]]:
    """Return the terms, without rows in iterations whose flag is false."""
    found, nodes = [], []
    for term in terms:
        if term.kind == "concatenated":
            made = _cut(term, flag)
            nodes += made
            term = dataclasses.replace(term, value=made[-1].outputs[0])
        found.append(term)
    return found, nodes


def _cut(term: Term, flag: ir.Value) -> list[ir.Node]:
    """Return nodes; the last one yields all rows of a value, or none."""
    axis, none = added_integers(term.axis), added_integers(0)
    shape = added("Shape", [term.value])
    count = added("Gather", [shape.outputs[0], axis.outputs[0]], {"axis": 0})
    end = added("Where", [flag, count.outputs[0], none.outputs[0]])
    bounds = [node.outputs[0] for node in (none, end, axis)]
    return [axis, none, shape, count, end, added("Slice", [term.value, *bounds])]
