"""Numbers of a shape that a Range counts to, as the Size of a vector.

onnxruntime picks one number of a shape on the host. The Size of a vector is such a number by
itself: Range reads it where Size leaves it, and no node is left between the two.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.batching.operators import Operators
from passes.device.shape_parts import axes_of
from passes.device.shape_vectors import made_of
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import made_by, operand
from passes.runtimes.defects.reshapes import comes_from_a_shape
from passes.typing import Typing
from passes.typing.value_types import ValueType

__all__ = ["PICKED", "Dimension", "counted", "dimension_of", "left_over", "ranged"]

_LAST = 2**63 - 1
_ONE = ((), (1,))
"""Shapes of one number that leave a vector of one as it is."""
PICKED = frozenset({"Gather", "Squeeze"})
"""The operators that make a scalar of a shape."""


@dataclasses.dataclass(frozen=True)
class Dimension:
    """One dimension of a tensor.

    Attributes:
        tensor: The tensor.
        axis: Which of its axes, counted from the front.
        is_vector: Whether the tensor has no other.
    """

    tensor: ir.Value
    axis: int
    is_vector: bool

    def is_sure(self) -> bool:
        """Return whether onnxruntime infers the right Size of the vector, if it is one."""
        return not (self.is_vector and comes_from_a_shape(self.tensor))

    def vector(self, ops: Operators) -> ir.Value:
        """Return a vector with so many elements."""
        if self.is_vector:
            return self.tensor
        return made_of(ops.shape(self.tensor, self.axis, self.axis + 1), ops)


def dimension_of(node: ir.Node, typing: Typing) -> Dimension | None:
    """Return the dimension that a node yields alone, as a vector or scalar.

    Args:
        node: A node, None is returned for any but Shape and `PICKED`.
        typing: The types of values.
    """
    is_picked = is_operator(node, PICKED)
    shape = made_by(node.inputs[0], "Shape") if is_picked else node
    rank = typing.rank(operand(shape, 0)) if is_operator(shape, "Shape") else None
    if shape is None or rank is None:
        return None
    axes, at = axes_of(shape, rank), 0
    if is_operator(node, "Gather"):
        index = constant_value(node.inputs[1])
        if index is None or index.ndim or not -len(axes) <= int(index) < len(axes):
            return None
        at = int(index)
    elif len(axes) != 1:
        return None
    return Dimension(operand(shape, 0), axes[at], rank == 1)


def counted(node: ir.Node, typing: Typing, ops: Operators) -> ir.Value | None:
    """Return the vector whose number of elements a node picks as a scalar, None for no such.

    Args:
        node: A node of one of `PICKED`.
        typing: The types of values.
        ops: Records a vector for a dimension that none has.
    """
    found = dimension_of(node, typing)
    if found is None or not found.is_sure():
        return None
    takes = found.is_vector or _is_only_counted_to(node.outputs[0])
    return found.vector(ops) if takes else None


def left_over(most: ir.Node, typing: Typing, ops: Operators) -> list[ir.Value] | None:
    """Return how many elements are left of a vector without its first ones, as their shape.

    Of a vector of 5 elements, ``Max([0], Shape(v) - 1)`` is ``[4]``.

    Args:
        most: A Max.
        typing: The types of values; it gains the vector.
        ops: Records it.
    """
    if len(most.inputs) != 2:
        return None
    for bound, rest in (most.inputs, reversed(most.inputs)):
        known, added = constant_value(bound), made_by(rest, "Add")
        if known is None or known.shape not in _ONE or known.any() or added is None:
            continue
        shape, less = made_by(added.inputs[0], "Shape"), constant_value(added.inputs[1])
        found = None if shape is None else dimension_of(shape, typing)
        if found is None or less is None or less.shape not in _ONE or less.item() > 0:
            continue
        is_text = typing.dtype(found.tensor) == ir.DataType.STRING
        if found.is_vector and found.is_sure() and not is_text:
            bounds = [ops.ints(-int(less.item())), ops.ints(_LAST), ops.ints(0)]
            shorter = ops.op("Slice", [found.tensor, *bounds])
            shorter.type = typing[found.tensor].type
            typing.set(shorter, ValueType(shorter.type, (None,)))
            return [ops.shape(shorter, 0)]
    return None


def _is_only_counted_to(number: ir.Value) -> bool:
    """Whether Ranges alone read a number, or one that is a constant more."""
    return not number.is_graph_output() and all(
        is_operator(use.node, "Range") or _hands_on(use.node) or _is_only_the_end(use.node)
        for use in number.uses()
    )


def _hands_on(node: ir.Node) -> bool:
    """Whether Ranges alone read a number behind a node that hands it on; sizes are int64."""
    is_cast = is_operator(node, "Cast") and node.attributes.get_int("to") == ir.DataType.INT64
    takes = is_cast or is_operator(node, "Identity")
    return takes and _is_only_counted_to(node.outputs[0])


def _is_only_the_end(node: ir.Node) -> bool:
    """Whether Ranges that have a form alone read the result of a node."""
    (output, *_) = node.outputs
    uses = list(output.uses())
    return not output.is_graph_output() and all(
        use.idx == 1 and is_operator(use.node, "Range") and _bounds(use.node) is not None
        for use in uses
    )


def _bounds(node: ir.Node) -> tuple[int, ir.Value, int, int] | None:
    """Return the start of a Range, the number and constant that make its end, and its step.

    The step is 1 where the constant is added, and the constant itself where it is a factor.
    """
    start, step = constant_value(node.inputs[0]), constant_value(node.inputs[2])
    made = made_by(node.inputs[1], "Add", "Mul")
    if start is None or step is None or made is None or start.dtype != np.int64:
        return None
    for number, other in (made.inputs, reversed(made.inputs)):
        known = constant_value(other)
        if number is not None and known is not None and known.size == 1:
            first, constant, by = int(start), int(known.item()), int(step)
            if made.op_type == "Mul":
                return (0, number, 0, by) if (first, by) == (0, constant) and by > 0 else None
            is_near = by == 1 and constant - first in (0, 1)
            return (first, number, constant, 1) if is_near else None
    return None


def ranged(node: ir.Node, typing: Typing, ops: Operators) -> list[ir.Value] | None:
    """Return a Range to a size and a constant more: one to the size, moved on the device.

    ``Range(1, n + 1)`` of ``n = 2`` is ``[0, 1] + 1``; ``Range(0, n + 1)`` is ``[0]`` and that;
    ``Range(0, n * 3, 3)`` is ``[0, 1] * 3``.
    """
    bounds = _bounds(node)
    if bounds is None or made_by(bounds[1], "Size") is None:
        return None
    first, number, end, step = bounds
    builder = ops.builder
    numbers = ops.arange(number)
    if step != 1:
        numbers = ops.op("Mul", [numbers, builder.scalar(step)])
    if end:
        numbers = ops.op("Add", [numbers, builder.scalar(end)])
    if end > first:
        numbers = ops.op("Concat", [ops.ints(first), numbers], {"axis": 0})
    return [numbers]
