"""A list that is only joined, in copies of a body: the tensor of what it holds so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from passes.graph.graphs import captured_values, is_operator, subgraphs, walk_nodes
from passes.reading.iterations import Carried, Iteration
from passes.sequence_operators import SEQUENCE_OPERATORS
from passes.typing import Typing

__all__ = ["axis_of_joins", "become_tensors"]


def axis_of_joins(
    iteration: Iteration, state: Carried, joins: Sequence[ir.Node], typing: Typing
) -> int | None:
    """Return along which axis a list may be joined piece by piece; None where it may not be.

    It begins with an element, the body only appends to it, and holds no other list.

    Args:
        iteration: The Loop.
        state: The list.
        joins: The ConcatFromSequences that read it.
        typing: The declared typing.
    """
    axes = {join.attributes.get_int("axis", 0) for join in joins}
    begins_with_one = is_operator(
        state.initial.producer(), ("SequenceConstruct", "SequenceInsert")
    )
    others = [one.inner for one in iteration.states if one is not state]
    outside = [*others, *captured_values(iteration.body)]
    if (
        len(axes) != 1
        or any(join.attributes.get_int("new_axis", 0) for join in joins)
        or not begins_with_one
        or any(typing.is_sequence(value) for value in outside)
        or not all(_appends(node) for node in walk_nodes(iteration.body))
    ):
        return None
    return axes.pop()


def _appends(node: ir.Node) -> bool:
    """Whether a node of the body appends to a list, or does nothing with one."""
    if is_operator(node, "SequenceInsert"):
        return len(node.inputs) == 2
    is_branch = is_operator(node, "If") or not subgraphs(node)
    return is_branch and not is_operator(node, SEQUENCE_OPERATORS)


def become_tensors(nodes: Iterable[ir.Node], axis: int) -> None:
    """Let nodes join to a tensor what they append to a list, the nodes of branches included."""
    for node in walk_nodes(nodes):
        if is_operator(node, "SequenceInsert"):
            node.op_type = "Concat"
            node.attributes.add(ir.AttrInt64("axis", axis))
        for value in node.outputs:
            if isinstance(value.type, ir.SequenceType):
                value.type, value.shape = ir.TensorType(value.type.dtype), None
