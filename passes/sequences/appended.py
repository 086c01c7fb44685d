"""Finds the sequences that a Loop carries only to append to them."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.graph.made import operand, operands

__all__ = ["Append", "find_append"]


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
