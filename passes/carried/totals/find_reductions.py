"""Finds carried sums, products, extremes and logical totals: ``acc = acc op f(x_i)``.

What they join may stand under a condition, in one branch or in both:
``s = s + a if c else s - b`` adds ``a`` or nothing, and subtracts nothing or ``b``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import onnx_ir as ir

from passes.carried.common.in_branch import in_branch, may_fail_apart
from passes.carried.common.masks import masked_terms, neutral_value
from passes.carried.common.ones import skip_factors_of_one
from passes.carried.common.selections import Selection, find_selection, hoist
from passes.carried.pattern import FLOATS, Term, dependent_values, path_through
from passes.carried.totals.reductions import FAMILIES, TYPES, Reduction
from passes.carried.totals.totals import are_counts
from passes.carried.totals.weighed import weighed_terms
from passes.graph.made import made_by, operand, skip_identities
from passes.graph.scopes import Scope
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["find_reduction"]


@dataclasses.dataclass(frozen=True)
class Part:
    """What is joined, outside of branches.

    Attributes:
        values: The values; they change no total where their condition does not hold.
        nodes: The nodes that compute them.
        speculated: See `passes.carried.pattern.Pattern`.
    """

    values: tuple[ir.Value, ...]
    nodes: tuple[ir.Node, ...] = ()
    speculated: tuple[tuple[ir.Node, ir.Node], ...] = ()


def changed_sides(mask: Selection, inner: ir.Value) -> list[tuple[ir.Value, bool]]:
    """Return the values of a choice that are not the carried one, and whether each is the other.

    Where both are others, a choice that weighs them is none between two totals.
    """
    sides = [(mask.chosen, False), (mask.other, True)]
    changed = [side for side in sides if side[0] is not inner]
    return [] if mask.weighs and len(changed) > 1 else changed


@dataclasses.dataclass(frozen=True)
class Masking:
    """How the terms of one side of a choice are joined.

    Attributes:
        mask: The choice.
        is_turned: Whether they are joined where the condition is false.
        family: The operator that joins two totals.
        dtype: The element type.
    """

    mask: Selection
    is_turned: bool
    family: str
    dtype: ir.DataType

    def part(self, terms: Sequence[ir.Value], carried: Carried, typing: Typing) -> Part:
        """Return terms that change no total where their condition does not hold."""
        values, nodes, speculated = hoist(terms, self.mask.branches)
        if len(values) == 1 and may_fail_apart(speculated, typing):
            is_scalar = typing.dims(carried.initial) == ()
            none, beside = neutral_value(
                carried.inner, self.family, self.dtype, is_scalar=is_scalar
            )
            taken = in_branch(
                self.mask, values[0], nodes, none, speculated, typing, is_turned=self.is_turned
            )
            return Part((taken.outputs[0],), (*beside, taken))
        if self.mask.weighs:
            values, nodes = weighed_terms(values, self.mask, self.dtype, is_turned=self.is_turned)
        else:
            values, masked = masked_terms(
                values, self.mask, self.is_turned, self.family, self.dtype
            )
            nodes = [*nodes, *masked]
        return Part(tuple(values), tuple(nodes), tuple(speculated))


_FAMILIES = {**FAMILIES, "Div": FAMILIES["Mul"]}
"""The same with a divisor, which is a factor turned over."""


def find_reduction(carried: Carried, iteration: Iteration, typing: Typing) -> Reduction | None:
    """Return what a carried value reduces, None if it is no reduction."""
    dtype = typing.dtype(carried.initial)
    dependent = dependent_values(iteration.body, carried.inner)
    value = skip_identities(carried.next)
    tail: list[tuple[ir.Node, _Joined]] = []
    mask = find_selection(value, iteration.body, weighed=True)
    if mask is None:
        behind, before = _behind(carried, dependent, iteration.body)
        mask = find_selection(before, iteration.body)
        tail, value = (tail, value) if mask is None else (behind, before)
    if mask is not None and mask.condition in dependent:
        return None
    graphs = [iteration.body, *(mask.branches if mask is not None else ())]
    for graph in graphs[1:]:
        dependent |= dependent_values(graph, *dependent)
    ends = [(value, False)] if mask is None else changed_sides(mask, carried.inner)
    scope = Scope(tuple(graphs))
    last = made_by(ends[0][0], *_FAMILIES, body=scope) if ends else None
    if dtype is None or last is None:
        return None
    family, name = _FAMILIES[last.op_type]
    if dtype not in TYPES[family]:
        return None
    if mask is not None and mask.weighs and (family != "Add" or dtype not in FLOATS):
        return None
    if any(_family_of(node) != family for node, _ in tail):
        return None
    parts = [Part(tuple(skip_identities(term) for _, found in tail for term, _ in found))]
    signs = [sign for _, found in tail for _, sign in found]
    for end, is_turned in ends:
        found = _chain(end, carried.inner, family, dependent, scope, typing)
        if not found:
            return None
        signs += [sign for _, sign in found]
        terms = [skip_identities(term) for term, _ in found]
        if mask is None:
            parts.append(Part(tuple(terms)))
        else:
            under = Masking(mask, is_turned, family, dtype)
            parts.append(under.part(terms, carried, typing))
    if family == "Mul" and -1 in signs and dtype not in FLOATS:
        return None
    values = [value for part in parts for value in part.values]
    return Reduction(
        carried,
        tuple(Term(value) for value in values),
        tuple(signs),
        family,
        f"carried {name}" + (" under a condition" if mask is not None else ""),
        dtype,
        nodes=tuple(node for part in parts for node in part.nodes),
        speculated=tuple(pair for part in parts for pair in part.speculated),
        weighs=mask is not None and mask.weighs,
        counts=are_counts(values, typing),
    )


_Joined = list[tuple[ir.Value, int]]
"""What is joined, each with its sign."""


def _behind(
    carried: Carried, dependent: Collection[ir.Value], body: ir.Graph
) -> tuple[list[tuple[ir.Node, _Joined]], ir.Value]:
    """Return what is joined behind all that a condition decides, and what it is joined to."""
    found: list[tuple[ir.Node, _Joined]] = []
    value, scope = skip_identities(carried.next), Scope((body,))
    while value is not carried.inner and (node := made_by(value, *_FAMILIES, body=scope)):
        link = _link(node, dependent)
        if link is None:
            break
        value, terms = link
        found.insert(0, (node, terms))
    return found, value


def _family_of(node: ir.Node) -> str:
    return _FAMILIES[node.op_type][0]


def _link(node: ir.Node, dependent: Collection[ir.Value]) -> tuple[ir.Value, _Joined] | None:
    """Return what a node joins to, and what it joins; None if that is subtracted or divides."""
    path = path_through(node, dependent)
    is_taken_back = node.op_type in ("Sub", "Div")
    if path is None or (is_taken_back and path[0] != 0):
        return None
    sign = -1 if is_taken_back else 1
    return skip_identities(operand(node, path[0])), [(term, sign) for term in path[1]]


def _chain(
    value: ir.Value,
    inner: ir.Value,
    family: str,
    dependent: Collection[ir.Value],
    scope: Scope,
    typing: Typing,
) -> _Joined | None:
    """Return what is joined to a carried value, each with its sign; None if it is more."""
    found: _Joined = []
    while (value := skip_factors_of_one(value, scope, typing)) is not inner:
        node = made_by(value, *_FAMILIES, body=scope)
        link = None if node is None or _family_of(node) != family else _link(node, dependent)
        if link is None:
            return None
        value, terms = link
        found[:0] = terms
    return found
