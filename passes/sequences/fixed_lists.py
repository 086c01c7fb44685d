"""Lists that a Loop carries with one number of elements of one shape, as tensors of rows.

``kept[i % 3] = v`` of a list of three rows ``[4]`` is a write to a tensor ``[3, 4]``, and
``kept.append(v); kept.pop(0)`` joins a row to all but the first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

import onnx_ir as ir

from passes.carried.joined import same_dims
from passes.carried.lists.joined_elements import first_elements
from passes.graph.builder import END, Builder, tensor_value
from passes.graph.graphs import captured_values, constant_value, is_operator, subgraphs
from passes.graph.made import made_by, operand, operands
from passes.graph.opsets import to_opset_form
from passes.loops.forms import SPLITTABLE
from passes.sequences.carried import note_tensors
from passes.sequences.element_shapes import is_like_elements
from passes.sequences.fixed_elements import place_of
from passes.typing.value_types import Typing

__all__ = ["become_rows"]


_Step: TypeAlias = Callable[[Builder, ir.Value], ir.Value]
"""Records what a node makes of the rows that it reads."""


@dataclasses.dataclass
class _Plan:
    """What each node of a body makes of a list.

    Attributes:
        lengths: How many elements each list has.
        steps: What each node makes of the rows of the list that it reads.
        open: For a list that lacks an element: at which place, as long as nothing else reads it.
        drops: Whether a node takes an element out.
    """

    lengths: dict[ir.Value, int]
    steps: dict[ir.Node, _Step] = dataclasses.field(default_factory=dict)
    open: dict[ir.Value, ir.Value] = dataclasses.field(default_factory=dict)
    drops: bool = False


def become_rows(node: ir.Node, state: int, typing: Typing, opset: int) -> bool:
    """Carry the rows of a list in its place, if it has as many in each iteration.

    Args:
        node: A Loop.
        state: A position among its states.
        typing: The proven typing.
        opset: Version of ONNX's operators.

    Returns:
        Whether the list was replaced.
    """
    body = node.attributes["body"].as_graph()
    initial, result = operand(node, 2 + state), node.outputs[state]
    first = first_elements(initial)
    dtype, dims = (typing.dtype(first[0]), typing.dims(first[0])) if first else (None, None)
    if not first or dtype is None or dims is None:
        return False
    if not all(typing.dtype(v) == dtype and same_dims(typing, v, dims) for v in first):
        return False
    is_read = bool(result.uses()) or result.is_graph_output()
    if is_read and dtype not in SPLITTABLE:
        return False
    plan = _planned(node, state, len(first), first[0], typing)
    if plan is None:
        return False
    shape = [len(first), *dims]
    rows = tensor_value(f"{body.inputs[2 + state].name}/rows", dtype, shape)
    last = _write(body, plan, body.inputs[2 + state], rows, body.outputs[1 + state], opset)
    last.type, last.shape = rows.type, rows.shape
    body.inputs[2 + state], body.outputs[1 + state] = rows, last
    for one in reversed(list(plan.steps)):
        body.remove(one, safe=True)
    builder = Builder.at(node)
    single = [builder.op("Unsqueeze", [v, builder.ints(0)]) for v in first]
    whole = builder.op("Concat", single, {"axis": 0})
    _insert(node, builder, opset)
    node.replace_input_with(2 + state, whole)
    result.type, result.shape = rows.type, rows.shape
    if is_read:
        _split(node, result, opset)
    note_tensors(node)
    return True


def _planned(
    node: ir.Node, state: int, count: int, first: ir.Value, typing: Typing
) -> _Plan | None:
    """Return what the nodes of a body make of a list; None if it does not keep its length."""
    body = node.attributes["body"].as_graph()
    plan = _Plan({body.inputs[2 + state]: count})
    for one in body:
        known = [v for v in one.inputs if v in plan.lengths]
        inner = [v for _, graph in subgraphs(one) for v in captured_values(graph)]
        if any(v in plan.lengths for v in inner) or len(known) > 1:
            return None
        if known and not (one.inputs[0] is known[0] and _enter(one, plan, node, first, typing)):
            return None
    ends = [v for v in body.outputs if v in plan.lengths]
    is_whole = ends == [body.outputs[1 + state]] and plan.lengths[ends[0]] == count
    return plan if is_whole and plan.drops and not plan.open else None


def _enter(node: ir.Node, plan: _Plan, loop: ir.Node, first: ir.Value, typing: Typing) -> bool:
    """Enter what a node makes of a list; False where that is not known."""
    given, (length, output) = operands(node), (plan.lengths[operand(node, 0)], node.outputs[0])
    place = plan.open.get(given[0])
    if place is not None:
        del plan.open[given[0]]
        is_same = is_operator(node, "SequenceInsert") and given[2:] == [place]
        if (
            not is_same
            or len(given[0].uses()) > 1
            or not is_like_elements(given[1], plan.lengths, first, typing)
        ):
            return False
        plan.lengths[output] = length + 1
        is_long = typing.dtype(place) == ir.DataType.INT64
        plan.steps[node] = lambda b, rows: _set(b, rows, place, given[1], is_long=is_long)
        return True
    if is_operator(node, "Identity"):
        plan.lengths[output], plan.steps[node] = length, lambda _, rows: rows
        return True
    if is_operator(node, "SequenceErase"):
        return _enter_erase(node, plan, loop)
    if is_operator(node, "SequenceInsert"):
        at = place_of(given[2:], length, length)
        if at not in (0, length) or not is_like_elements(given[1], plan.lengths, first, typing):
            return False
        plan.lengths[output], first_is_new = length + 1, at < length
        plan.steps[node] = lambda b, rows: _joined(b, rows, given[1], in_front=first_is_new)
        return True
    step = _reading_rows(node, length, typing.dims(first), typing)
    if step is not None:
        plan.steps[node] = step
    return step is not None


def _enter_erase(node: ir.Node, plan: _Plan, loop: ir.Node) -> bool:
    given, output = operands(node), node.outputs[0]
    length = plan.lengths[given[0]]
    at = place_of(given[1:], length - 1, length)
    plan.drops, plan.lengths[output] = True, length - 1
    if at is None and _is_counted(given[1], loop, plan):
        plan.open[output], plan.steps[node] = given[1], lambda _, rows: rows
        return True
    if at is None or at not in (0, length - 1):
        return False
    plan.steps[node] = lambda builder, rows: _without_end(builder, rows, at)
    return True


def _is_counted(place: ir.Value, loop: ir.Node, plan: _Plan) -> bool:
    """Whether a number is 0 or more: taken modulo a constant, or a counter that always is."""
    body, made = loop.attributes["body"].as_graph(), made_by(place, "Mod")
    if made is None and place in body.inputs[2:]:
        at = list(body.inputs).index(place)
        begin = constant_value(loop.inputs[at])
        made = made_by(body.outputs[at - 1], "Mod")
        made = made if begin is not None and begin.size == 1 and begin.item() >= 0 else None
    if made is None or made.attributes.get_int("fmod") == 1:
        return False
    asked = made_by(operand(made, 1), "SequenceLength")
    if asked is not None:
        return plan.lengths.get(operand(asked, 0), 0) > 0
    size = constant_value(made.inputs[1])
    return size is not None and bool((size > 0).all())


def _set(
    builder: Builder, rows: ir.Value, place: ir.Value, value: ir.Value, *, is_long: bool
) -> ir.Value:
    number = place if is_long else builder.op("Cast", [place], {"to": ir.DataType.INT64})
    at = builder.op("Unsqueeze", [number, builder.ints(0)])
    return builder.op("ScatterND", [rows, at, value])


def _without_end(builder: Builder, rows: ir.Value, at: int) -> ir.Value:
    """Record rows without the first one, or without those from a place on."""
    return _part(builder, rows, 0, at) if at else _part(builder, rows, 1, END)


def _joined(builder: Builder, rows: ir.Value, value: ir.Value, *, in_front: bool) -> ir.Value:
    row = builder.op("Unsqueeze", [value, builder.ints(0)])
    return builder.op("Concat", [row, rows] if in_front else [rows, row], {"axis": 0})


def _part(builder: Builder, rows: ir.Value, start: int, end: int) -> ir.Value:
    bounds = [builder.ints(number) for number in (start, end, 0)]
    return builder.op("Slice", [rows, *bounds])


def _write(
    body: ir.Graph, plan: _Plan, inner: ir.Value, rows: ir.Value, last: ir.Value, opset: int
) -> ir.Value:
    """Record all steps in front of the nodes that they stand for; return the rows at the end."""
    found = {inner: rows}
    for node, step in plan.steps.items():
        builder = Builder.at(node)
        value, old = step(builder, found[operand(node, 0)]), node.outputs[0]
        _insert(node, builder, opset)
        if old in plan.lengths:
            found[old] = value
            continue
        value.name, old.name = old.name, None
        value.type, value.shape = old.type, old.shape
        old.replace_all_uses_with(value, replace_graph_outputs=True)
    return found[last]


def _insert(node: ir.Node, builder: Builder, opset: int) -> None:
    to_opset_form(builder.nodes, opset)
    assert node.graph is not None
    node.graph.insert_before(node, builder.nodes)


def _split(node: ir.Node, result: ir.Value, opset: int) -> None:
    """Let the rows that a Loop yields be a list again for all that reads it."""
    builder = Builder.at(node)
    list_ = builder.op("SplitToSequence", [result], {"axis": 0, "keepdims": 0})
    list_.name, result.name = result.name, f"{result.name}/rows"
    list_.type = ir.SequenceType(ir.TensorType(result.dtype or ir.DataType.UNDEFINED))
    result.replace_all_uses_with(list_, replace_graph_outputs=True)
    builder.nodes[-1].replace_input_with(0, result)
    to_opset_form(builder.nodes, opset)
    assert node.graph is not None
    node.graph.insert_after(node, builder.nodes)


def _reading_rows(
    node: ir.Node, length: int, dims: Sequence[int | str | None] | None, typing: Typing
) -> _Step | None:
    """Return how what a node reads of a list is read of its rows; None if it is not known.

    Args:
        node: What reads the list.
        length: How many elements the list has.
        dims: Their dimensions.
        typing: The proven typing.
    """
    if is_operator(node, "SequenceLength"):
        return lambda builder, _: builder.scalar(length)
    if is_operator(node, "SequenceAt"):
        place = operand(node, 1)
        is_scalar = typing.rank(place) == 0
        return (lambda b, rows: b.op("Gather", [rows, place], {"axis": 0})) if is_scalar else None
    if dims is None or not is_operator(node, "ConcatFromSequence"):
        return None
    axis = node.attributes.get_int("axis", 0)
    if node.attributes.get_int("new_axis", 0):
        axis %= len(dims) + 1
        perm = [*range(1, axis + 1), 0, *range(axis + 1, len(dims) + 1)]
        return lambda builder, rows: builder.op("Transpose", [rows], {"perm": perm})
    rest = [dim for dim in dims[1:] if isinstance(dim, int) and dim]
    if axis or not dims or len(rest) < len(dims) - 1:
        return None
    return lambda builder, rows: builder.op("Reshape", [rows, builder.ints(-1, *rest)])
