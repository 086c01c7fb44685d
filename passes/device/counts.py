"""Numbers of a shape that a Range counts to, as the Size of a vector.

onnxruntime picks one number of a shape on the host. The Size of a vector is such a number by
itself: Range reads it where Size leaves it, and no node is left between the two.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.batching.operators import Operators
from passes.device.shape_vectors import made_of, vector_of
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import made_by, operand
from passes.runtimes.reshapes import comes_from_a_shape
from passes.typing import Typing

__all__ = ["PICKED", "counted", "ranged"]

PICKED = frozenset({"Gather", "Squeeze"})
"""The operators that make a scalar of a shape."""


def counted(node: ir.Node, typing: Typing, ops: Operators) -> ir.Value | None:
    """Return the vector whose number of elements a node picks as a scalar, None for no such.

    Args:
        node: A node of one of `PICKED`.
        typing: The types of values.
        ops: Records a vector for a dimension that none has.
    """
    vector = vector_of(node.inputs[0], typing)
    if vector is not None and _picks_one(node, typing):
        # onnxruntime infers a wrong Size of numbers that it knows
        return None if comes_from_a_shape(vector) else vector
    picked = _picked(node, typing, ops) if _is_only_counted_to(node.outputs[0]) else None
    return None if picked is None else made_of(picked, ops)


def _picks_one(node: ir.Node, typing: Typing) -> bool:
    """Whether a node makes a scalar of a vector of one number."""
    if node.op_type == "Squeeze":
        return True
    index = constant_value(node.inputs[1])
    return index is not None and index.ndim == 0 and int(index) in (0, -1)


def _picked(node: ir.Node, typing: Typing, ops: Operators) -> ir.Value | None:
    """Return the one number of a shape that a node makes a scalar of, as a vector."""
    shape = made_by(node.inputs[0], "Shape")
    rank = None if shape is None else typing.rank(operand(shape, 0))
    if shape is None or rank is None:
        return None
    axes = range(rank)[shape.attributes.get_int("start", 0) : _end(shape)]
    if node.op_type == "Squeeze":
        return node.inputs[0] if len(axes) == 1 else None
    index = constant_value(node.inputs[1])
    if index is None or index.ndim or not -len(axes) <= int(index) < len(axes):
        return None
    axis = axes[int(index)]
    return ops.shape(operand(shape, 0), axis, axis + 1)


def _end(shape: ir.Node) -> int | None:
    return shape.attributes.get_int("end") if "end" in shape.attributes else None


def _is_only_counted_to(number: ir.Value) -> bool:
    """Whether Ranges alone read a number, or one that is a constant more."""
    uses = list(number.uses())
    return not number.is_graph_output() and all(
        is_operator(use.node, "Range") or _is_only_the_end(use.node) for use in uses
    )


def _is_only_the_end(node: ir.Node) -> bool:
    """Whether Ranges that have a form alone read the result of a node."""
    (output, *_) = node.outputs
    uses = list(output.uses())
    return not output.is_graph_output() and all(
        use.idx == 1 and is_operator(use.node, "Range") and _bounds(use.node) is not None
        for use in uses
    )


def _bounds(node: ir.Node) -> tuple[int, ir.Value, int] | None:
    """Return the start of a Range by ones, and the number and constant that make its end."""
    start, step = constant_value(node.inputs[0]), constant_value(node.inputs[2])
    added = made_by(node.inputs[1], "Add")
    if start is None or step is None or added is None or start.dtype != np.int64 or int(step) != 1:
        return None
    for number, other in (added.inputs, reversed(added.inputs)):
        more = constant_value(other)
        if number is not None and more is not None and more.size == 1:
            first, end = int(start), int(more.item())
            return (first, number, end) if end - first in (0, 1) else None
    return None


def ranged(node: ir.Node, typing: Typing, ops: Operators) -> list[ir.Value] | None:
    """Return a Range to a size and a constant more: one to the size, moved on the device.

    ``Range(1, n + 1)`` of ``n = 2`` is ``[0, 1] + 1``; ``Range(0, n + 1)`` is ``[0]`` and that.
    """
    bounds = _bounds(node)
    if bounds is None or made_by(bounds[1], "Size") is None:
        return None
    first, number, end = bounds
    builder = ops.builder
    numbers = ops.op("Range", [builder.scalar(0), number, builder.scalar(1)])
    if end:
        numbers = ops.op("Add", [numbers, builder.scalar(end)])
    if end > first:
        numbers = ops.op("Concat", [ops.ints(first), numbers], {"axis": 0})
    return [numbers]
