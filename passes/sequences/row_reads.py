"""What is read of a list, read of the tensor that holds its elements as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.typing.value_types import Typing

__all__ = ["Step", "reading_rows"]

Step: TypeAlias = Callable[[Builder, ir.Value], ir.Value]
"""Records what a node makes of the rows that it reads."""


def reading_rows(
    node: ir.Node, length: int, dims: Sequence[int | str | None] | None, typing: Typing
) -> Step | None:
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
