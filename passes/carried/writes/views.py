"""Carried tensors that an iteration writes to in another form, and puts back into their own.

``t = Transpose(s); t[i] = v; s = Transpose(t)`` carries the transpose as well, which is written to
in plain ways. What is written behind an inner Loop that pastes tiles, or adds to rows, looks so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.carried.common.row_reads import needed_for
from passes.carried.common.wrapped import Wrapped
from passes.carried.joined import Joined
from passes.carried.pattern import ASK_SHAPE, Pattern
from passes.graph.builder import Builder
from passes.graph.graphs import is_operator, subgraphs
from passes.graph.made import made_by, operand, skip_identities
from passes.graph.node_copies import copy_nodes
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing, ValueType

__all__ = ["Viewed", "find_viewed"]

Find = Callable[[Carried, LoopFacts, Typing], Pattern | None]


@dataclasses.dataclass(frozen=True)
class Viewed(Wrapped):
    """A carried tensor that is written to in another form.

    Attributes:
        form: What is written to the other form.
        steps: The nodes of the body that make that form, in order.
        views: Those of them that change the form itself: Transposes and Reshapes.
    """

    steps: tuple[ir.Node, ...]
    views: tuple[ir.Node, ...]
    keeps_shape = "as it is made"

    def write(self, joined: Joined) -> ir.Value:
        """Record the writes to the other form, and what puts it back."""
        builder, own = joined.builder, self.carried.initial
        values: dict[ir.Value, ir.Value | None] = {self.carried.inner: own}
        builder.nodes.extend(copy_nodes(self.steps, values))
        initial = values[self.views[-1].outputs[0]]
        assert initial is not None
        made = self.begun(joined, initial).write(joined)
        for view in reversed(self.views):
            before = values.get(operand(view, 0), operand(view, 0))
            assert before is not None
            made = _back(builder, view, made, before)
        return made


def _back(builder: Builder, view: ir.Node, made: ir.Value, before: ir.Value) -> ir.Value:
    """Record a tensor in the form that it had in front of a view."""
    if view.op_type == "Reshape":
        return builder.op("Reshape", [made, builder.op("Shape", [before])], {"allowzero": 1})
    order = list(view.attributes.get_ints("perm", []))
    inverse = [order.index(axis) for axis in range(len(order))]
    return builder.op("Transpose", [made], {"perm": inverse})


def find_viewed(carried: Carried, facts: LoopFacts, typing: Typing, find: Find) -> Viewed | None:
    """Return what is written to another form of a carried tensor, None if there is no such form.

    Args:
        carried: The carried tensor.
        facts: The Loop or Scan.
        typing: The proven typing; it gains the other form.
        find: Finds the writes to it.
    """
    backs, value = [], skip_identities(carried.next)
    while (node := made_by(value, "Transpose", "Reshape", body=facts.scope)) is not None:
        backs.append(node)
        value = skip_identities(operand(node, 0))
    for count in range(1, len(backs) + 1):
        written = skip_identities(operand(backs[count - 1], 0))
        views = _views(written, backs[:count], carried, facts)
        found = None if views is None else _found(carried, facts, typing, find, views, written)
        if found is not None:
            return found
    return None


def _views(
    written: ir.Value, backs: Sequence[ir.Node], carried: Carried, facts: LoopFacts
) -> list[ir.Node] | None:
    """Return the nodes that make the form that is written to; others put it back."""
    scatter = made_by(written, "ScatterND", "ScatterElements", body=facts.scope)
    if scatter is None:
        return None
    views: list[ir.Node] = []
    value = skip_identities(operand(scatter, 0))
    for back in reversed(backs):
        node = made_by(value, back.op_type, body=facts.scope)
        if node is None or not _undoes(back, node):
            return None
        views.insert(0, node)
        value = skip_identities(operand(node, 0))
    return views if value is carried.inner else None


def _undoes(back: ir.Node, view: ir.Node) -> bool:
    """Whether a node gives what another made its old form; what it is given has its shape."""
    if view.op_type == "Transpose":
        one, other = (list(n.attributes.get_ints("perm", [])) for n in (back, view))
        return bool(one) and [one[axis] for axis in other] == list(range(len(other)))
    shape = made_by(back.inputs[1], "Shape")
    if shape is None or shape.attributes:
        return False
    return skip_identities(operand(shape, 0)) is skip_identities(operand(view, 0))


def _found(
    carried: Carried,
    facts: LoopFacts,
    typing: Typing,
    find: Find,
    views: Sequence[ir.Node],
    written: ir.Value,
) -> Viewed | None:
    """Return the pattern of what is written to a form, with what makes that form."""
    form = views[-1].outputs[0]
    steps = needed_for([form], facts.iteration.body)
    if not _asks_shape_alone(steps, views, carried, facts):
        return None
    initial = ir.Value(name=f"{carried.inner.name}.form")
    typing.set(initial, _type_of(form, carried, views, typing))
    pattern = find(Carried(form, initial, written, carried.result), facts, typing)
    if pattern is None:
        return None
    how = (pattern, tuple(steps), tuple(views))
    return Viewed(carried, pattern.terms, *how, nodes=pattern.nodes, speculated=pattern.speculated)


def _asks_shape_alone(
    steps: Sequence[ir.Node], views: Sequence[ir.Node], carried: Carried, facts: LoopFacts
) -> bool:
    """Whether a form depends on a carried tensor and on what is the same in all iterations."""
    others = facts.inside - {value for node in steps for value in node.outputs}
    whole = {carried.inner}
    for node in steps:
        read = {v for v in node.inputs if v is not None}
        if any(True for _ in subgraphs(node)) or not (read - whole).isdisjoint(others):
            return False
        is_whole = node in views or is_operator(node, "Identity")
        if is_whole and node.inputs[0] in whole:
            whole.add(node.outputs[0])
            read.discard(node.inputs[0])
        if not is_operator(node, ASK_SHAPE) and not read.isdisjoint(whole):
            return False
    return True


def _type_of(
    form: ir.Value, carried: Carried, views: Sequence[ir.Node], typing: Typing
) -> ValueType:
    """Return what is proven of the form of the initial value."""
    known = typing[form]
    dims = typing.dims(carried.initial)
    for view in views:
        if view.op_type != "Transpose" or dims is None:
            return ValueType(typing[carried.initial].type, known.dims)
        dims = tuple(dims[axis] for axis in view.attributes.get_ints("perm", []))
    return ValueType(typing[carried.initial].type, dims)
