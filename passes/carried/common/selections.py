"""Choices between two values: Where and If, and what the branches compute, outside of them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import onnx_ir as ir

from passes.carried.pattern import added, dependent_values
from passes.graph.builder import unnamed
from passes.graph.graphs import reads_of
from passes.graph.if_outputs import branches_of
from passes.graph.made import either_order, made_by, operand, operands, skip_identities
from passes.graph.node_copies import copy_node, copy_of
from passes.graph.scopes import Scope

__all__ = ["BranchReader", "Selection", "find_replacing", "find_selection", "hoist"]


@dataclasses.dataclass(frozen=True)
class Selection:
    """One of two values.

    Attributes:
        condition: Which: a boolean of any shape for a Where, of one element for an If.
        chosen: What is taken where it is true.
        other: What is taken where it is false.
        is_whole: Whether it takes one or the other as a whole.
        branches: The graphs of an If in which the values are computed; none of a Where.
        weighs: Whether what is not taken is multiplied by 0 and added, so that an infinity or a
            NaN of it spoils the sum.
        is_turned: Whether ``chosen`` is taken where the condition is false.
    """

    condition: ir.Value
    chosen: ir.Value
    other: ir.Value
    is_whole: bool = False
    branches: tuple[ir.Graph, ...] = ()
    weighs: bool = False
    is_turned: bool = False


class BranchReader:
    """Reads what a carried value becomes in a body, and in the branches that it looks into.

    Attributes:
        inner: The carried value at the start of an iteration.
        branches: The branches of Ifs that were entered, outer ones first.
        dependent: What depends on the carried value, in the body and in these branches.
        nodes: What was written beside the body.
    """

    def __init__(self, inner: ir.Value, body: ir.Graph) -> None:
        self.inner = inner
        self.branches: list[ir.Graph] = []
        self.dependent = dependent_values(body, inner)
        self.nodes: list[ir.Node] = []
        self._body = body

    @property
    def scope(self) -> Scope:
        """The body, and these branches."""
        return Scope((self._body, *self.branches))

    def enter(self, selection: Selection) -> None:
        """Look into the branches of an If."""
        new = [graph for graph in selection.branches if graph not in self.branches]
        if new:
            self.branches += new
            self.dependent |= dependent_values(self.scope, self.inner)

    def made(self, op_type: str, *inputs: ir.Value) -> ir.Value:
        """Write a node and return its output."""
        self.nodes.append(added(op_type, inputs))
        return self.nodes[-1].outputs[0]


def find_replacing(value: ir.Value, inner: ir.Value, body: ir.Graph | Scope) -> Selection | None:
    """Return the choice between a new value, ``chosen``, and the carried one; None if none is.

    ``Not`` is taken off the condition, so that choices by one comparison have one condition.
    """
    found = find_selection(value, body, weighed=True)
    if found is not None and found.chosen is inner:
        found = dataclasses.replace(
            found, chosen=found.other, other=inner, branches=found.branches[::-1], is_turned=True
        )
    if found is None or found.other is not inner:
        return None
    while (turned := _negated(found.condition, body)) is not None:
        found = dataclasses.replace(found, condition=turned, is_turned=not found.is_turned)
    return found


def find_selection(
    value: ir.Value, body: ir.Graph | Scope, *, weighed: bool = False
) -> Selection | None:
    """Return which two values of a body a value is chosen from, None if it is not.

    Args:
        value: The value.
        body: The body.
        weighed: Whether a choice that weighs what is not taken is welcome.
    """
    value = skip_identities(value)
    node = made_by(value, "Add", "Where", "If", body=body)
    if node is None:
        return None
    if node.op_type == "Add":
        found = _find_weighed(node, body)
        return found if found is not None and (weighed or not found.weighs) else None
    inputs = operands(node)
    inputs[0] = _as_boolean(inputs[0])
    if node.op_type == "Where":
        return Selection(inputs[0], skip_identities(inputs[1]), skip_identities(inputs[2]))
    at = list(node.outputs).index(value)
    branches = tuple(branches_of(node))
    chosen, other = (skip_identities(branch.outputs[at]) for branch in branches)
    return Selection(inputs[0], chosen, other, is_whole=True, branches=branches)


def _as_boolean(flag: ir.Value) -> ir.Value:
    """Return the boolean that is cast to a number and back, as JAX writes it, or the flag."""
    back = made_by(flag, "Cast")
    there = None if back is None else made_by(operand(back, 0), "Cast")
    if there is None or there.attributes.get_int("to", 0) == int(ir.DataType.STRING):
        return flag
    given = operand(there, 0)
    return given if made_by(given, *_COMPARES) is not None else flag


_COMPARES = (
    "And",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Not",
    "Or",
    "Xor",
)
"""Operators that yield booleans."""


def _find_weighed(node: ir.Node, body: ir.Graph | Scope) -> Selection | None:
    """Return the choice that ``Cast(c) * a + Cast(Not(c)) * b`` makes, as tf2onnx writes it."""
    products = [_products(v, body) for v in operands(node)]
    for one, other in (products, products[::-1]):
        for (flag, chosen, dtype), (turned, left, _) in itertools.product(one, other):
            if _negated(turned, body) is flag:
                weighs = dtype not in (ir.DataType.INT32, ir.DataType.INT64)
                return Selection(flag, chosen, left, weighs=weighs)
    return None


def _products(value: ir.Value, body: ir.Graph | Scope) -> list[tuple[ir.Value, ir.Value, int]]:
    """Return what is cast, what it is multiplied by, and its type then, in either order.

    A flag that is cast, and not multiplied, is 1 where it is true: it stands for that 1 itself.
    """
    node = made_by(value, "Mul", body=body)
    found = []
    alone = [] if made_by(value, "Cast", body=body) is None else [(value, value)]
    for weight, other in [*either_order(node), *alone]:
        cast = made_by(weight, "Cast", body=body)
        if cast is not None:
            flag = skip_identities(operand(cast, 0))
            dtype = cast.attributes.get_int("to", 0)
            found.append((flag, skip_identities(other), dtype))
    return found


def _negated(value: ir.Value, body: ir.Graph | Scope) -> ir.Value | None:
    """Return the boolean whose opposite a value is."""
    node = made_by(value, "Not", body=body)
    return None if node is None else skip_identities(operand(node, 0))


def hoist(
    values: Sequence[ir.Value],
    branches: Sequence[ir.Graph],
    instead: Mapping[ir.Value, ir.Value] = MappingProxyType({}),
) -> tuple[list[ir.Value], list[ir.Node], list[tuple[ir.Node, ir.Node]]]:
    """Copy what computes some values inside of branches.

    Args:
        values: Values of a body, or of the branches of an If in it.
        branches: The branches.
        instead: What takes the place of some values, which are not copied.

    Returns:
        The values as they are known outside; the copies, in order; and pairs of a copy and the
        node that it is made of, which ran under a condition.
    """
    needed: set[ir.Node] = set()
    known = dict(instead)
    pending = list(values)
    while pending:
        value = pending.pop()
        node = None if value in known else value.producer()
        if node is None or node.graph not in branches or node in needed:
            continue
        needed.add(node)
        pending += reads_of(node)
    constants, copies = _constants(branches, {*values, *(v for n in needed for v in reads_of(n))})
    copies |= known
    pairs = [
        (copy_node(node, copies), node) for graph in branches for node in graph if node in needed
    ]
    made = [copy_of(copies, value) for value in values]
    return made, [*constants, *(copy for copy, _ in pairs)], pairs


def _constants(
    branches: Sequence[ir.Graph], read: Collection[ir.Value]
) -> tuple[list[ir.Node], dict[ir.Value, ir.Value | None]]:
    """Return Constants for the initializers of branches that are read, and what each is for."""
    given = [v for graph in branches for v in graph.initializers.values() if v in read]
    tensors = [v.const_value for v in given if v.const_value is not None]
    nodes = [added("Constant", [], {"value": unnamed(tensor)}) for tensor in tensors]
    return nodes, {v: node.outputs[0] for v, node in zip(given, nodes, strict=True)}
