"""Carries what a Loop appends to a sequence as the tensor that it is joined to afterwards."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder, tensor_value
from passes.graph.graphs import is_operator
from passes.graph.made import operand, operands
from passes.graph.splice import remove_dead
from passes.sequences.known import KnownSequences
from passes.typing.value_types import Typing, are_numbers

__all__ = ["GROWS_KEY", "Append", "carry_joined", "find_append"]


@dataclasses.dataclass(frozen=True)
class Append:
    """A state of a Loop that gains one element at its end in each iteration.

    Attributes:
        state: Its position among the states.
        element: What is appended.
        insert: The SequenceInsert.
        first: The sequence that it starts with.
        result: What the Loop yields.
    """

    state: int
    element: ir.Value
    insert: ir.Node
    first: ir.Value
    result: ir.Value


def find_append(node: ir.Node, body: ir.Graph, state: int) -> Append | None:
    """Return how a body appends to a state; None if it does anything else with it."""
    first = operand(node, 2 + state)
    value = body.inputs[2 + state]
    insert = None
    while value is not body.outputs[1 + state]:
        users = list(value.uses())
        if len(users) != 1 or value.is_graph_output():
            return None
        user = users[0][0]
        if is_operator(user, "SequenceInsert") and insert is None and user.inputs[0] is value:
            insert = user
        elif not is_operator(user, "Identity"):
            return None
        value = user.outputs[0]
    if insert is None or value.uses() or list(body.outputs).count(value) != 1:
        return None
    _, element, *position = operands(insert)
    return None if position else Append(state, element, insert, first, node.outputs[state])


GROWS_KEY = "seqmap.grows"
"""Metadata of a Concat by which each iteration of a Loop copies what the ones before it made."""


def carry_joined(
    node: ir.Node, body: ir.Graph, append: Append, typing: Typing, known: KnownSequences
) -> bool:
    """Carry a tensor in the place of a sequence if only its concatenation is read.

    Each iteration copies the tensor, so this takes quadratic time: it is for consumers that
    accept no sequence at all. The sequence must begin with an element, or all dimensions but the
    one that grows must be known numbers, so that there is a tensor to begin with.

    Args:
        node: The Loop.
        body: Its body.
        append: The sequence that it carries, and what an iteration adds.
        typing: The proven typing.
        known: What is known of the sequences of the model.

    Returns:
        Whether the state was replaced.
    """
    users = [user for user, _ in append.result.uses()]
    axis = _one_axis(users)
    dtype, dims = typing.dtype(append.element), typing.dims(append.element)
    if axis is None or append.result.is_graph_output() or dtype is None:
        return False
    builder = Builder("Loop")
    parts = known[append.first]
    if parts is not None and parts.count:
        first = builder.op("ConcatFromSequence", [append.first], {"axis": axis})
    elif parts is not None and parts.count == 0:
        shape = _empty_shape(dims, axis)
        if shape is None:
            return False
        is_text = dtype == ir.DataType.STRING
        first = builder.constant(np.empty(shape, object if is_text else dtype.numpy()))
    else:
        return False
    assert node.graph is not None
    node.graph.insert_before(node, builder.nodes)
    unknown = None if dims is None else [None] * len(dims)
    carried = tensor_value(f"{append.insert.name or 'appended'}/joined", dtype, unknown)
    joined = ir.Node(
        "",
        "Concat",
        [carried, append.element],
        [ir.AttrInt64("axis", axis)],
        name=f"{append.insert.name or 'appended'}/Concat",
    )
    joined.metadata_props[GROWS_KEY] = ""
    joined.outputs[0].type, joined.outputs[0].shape = carried.type, carried.shape
    body.append(joined)
    body.outputs[1 + append.state] = joined.outputs[0]
    remove_dead([append.insert, *_behind(append.insert)])
    body.inputs[2 + append.state] = carried
    node.replace_input_with(2 + append.state, first)
    append.result.type, append.result.shape = carried.type, carried.shape
    result = _shaped(node, append.result, dims, axis)
    for user in users:
        _pass_on(user, result)
    return True


def _shaped(
    node: ir.Node, result: ir.Value, dims: tuple[int | str | None, ...] | None, axis: int
) -> ir.Value:
    """Tell the dimensions that are known of a result: inference forgets those of a state."""
    shape = _empty_shape(dims, axis)
    if shape is None or shape.count(0) > 1:
        return result
    shape[shape.index(0)] = -1
    builder = Builder.at(node)
    shaped = builder.op("Reshape", [result, builder.ints(*shape)])
    shaped.type = result.type
    assert node.graph is not None
    node.graph.insert_after(node, builder.nodes)
    return shaped


def _one_axis(users: list[ir.Node]) -> int | None:
    """Return the axis along which all users join a sequence."""
    axes = {
        user.attributes.get_int("axis")
        if is_operator(user, "ConcatFromSequence") and not user.attributes.get_int("new_axis", 0)
        else None
        for user in users
    }
    return axes.pop() if len(axes) == 1 else None


def _empty_shape(dims: tuple[int | str | None, ...] | None, axis: int) -> list[int] | None:
    """Return the shape of no elements joined; None if more than the joined axis is unknown."""
    if dims is None or not -len(dims) <= axis < len(dims):
        return None
    shape = [0 if i == axis % len(dims) else dim for i, dim in enumerate(dims)]
    return [dim for dim in shape if isinstance(dim, int)] if are_numbers(shape) else None


def _behind(node: ir.Node) -> list[ir.Node]:
    """Return the nodes that pass on what a node yields, the last one first."""
    found: list[ir.Node] = []
    while users := [user for user, _ in node.outputs[0].uses()]:
        node = users[0]
        found.insert(0, node)
    return found


def _pass_on(user: ir.Node, tensor: ir.Value) -> None:
    """Let a concatenation yield the tensor that is joined already."""
    old = user.outputs[0]
    if old.is_graph_output():
        copied = ir.Node("", "Identity", [tensor], name=f"{user.name}/Identity")
        assert user.graph is not None
        user.graph.insert_before(user, copied)
        tensor = copied.outputs[0]
        tensor.type, tensor.shape, tensor.name = old.type, old.shape, old.name
        old.name = None
    old.replace_all_uses_with(tensor, replace_graph_outputs=True)
    remove_dead([user])
