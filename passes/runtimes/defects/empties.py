"""Operators that onnxruntime gets wrong where an operand has no elements."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import END, Builder
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import either_order, made_by, only_number, operand, operands
from passes.runtimes.defects.reshapes import from_front, kept_apart
from passes.runtimes.types import Types

__all__ = [
    "computed_shape",
    "cut_after",
    "cut_to_nothing",
    "from_the_front",
    "has_negative_axes",
    "is_expanded_to_nothing",
    "is_normalization_of_nothing",
    "is_shape_replaced",
]


def has_negative_axes(node: ir.Node, types: Types) -> bool:
    """Whether a reduction is along an axis that counts from the back."""
    axes = _axes(node)
    return axes is not None and bool((axes < 0).any()) and types.may_be_empty(operand(node, 0))


def from_the_front(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The axes as they count from the front."""
    data, axes = operand(node, 0), _axes(node)
    rank = types.rank(data)
    front = None if axes is None or rank is None else from_front(axes, rank)
    if front is None or not types.is_rank_kept(data):
        return None
    attributes = dict(node.attributes)
    inputs = list(node.inputs)
    if len(inputs) > 1:
        inputs[1] = builder.ints(*front)
    elif "axes" in attributes:
        attributes["axes"] = ir.AttrInt64s("axes", front)
    else:
        attributes["axis"] = ir.AttrInt64("axis", front[0])
    return [builder.op(node.op_type, inputs, attributes)]


def _axes(node: ir.Node) -> np.ndarray | None:
    """Return the written axes of a reduction, of ArgMax or of ArgMin; None if there are none."""
    if len(node.inputs) > 1:
        return constant_value(node.inputs[1])
    axes = node.attributes.get_ints("axes")
    if axes is None and "axis" in node.attributes:
        axes = [node.attributes["axis"].as_int()]
    return None if axes is None else np.array(axes, np.int64)


def is_shape_replaced(node: ir.Node, types: Types) -> bool:
    """Whether onnxruntime writes -1 for the one dimension of a target that is computed.

    A -1 cannot be resolved where the tensor has no elements.
    """
    data, target = operands(node)
    joined = made_by(target, "Concat")
    if joined is None or node.attributes.get_int("allowzero"):
        return False
    if all(constant_value(part) is not None for part in joined.inputs):
        return False
    return types.may_be_empty(data)


def computed_shape(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The target behind nodes that change nothing."""
    data, target = operands(node)
    return [builder.op("Reshape", [data, kept_apart(builder, target)], node.attributes)]


def is_normalization_of_nothing(node: ir.Node, types: Types) -> bool:
    """Whether there may be no pixels to normalize, which ends the process."""
    data = operand(node, 0)
    if types.rank(data) is None or not types.may_be_empty(data, slice(2, None)):
        return False
    padded = made_by(data, "Pad")
    amounts = None if padded is None else made_by(operand(padded, 1), "Concat")
    return amounts is None or made_by(amounts.inputs[-1], "Cast") is None


def cut_after(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """A pixel along each axis that has none, and the result without it."""
    data = operand(node, 0)
    rank = types.rank(data)
    if rank is None:
        return None
    shape = builder.op("Shape", [data])
    sizes = builder.op("Slice", [shape, builder.ints(2), builder.ints(rank)])
    is_none = builder.op("Equal", [sizes, builder.ints(0)])
    more = builder.op("Cast", [is_none], {"to": ir.DataType.INT64})
    zeros = builder.ints(*[0] * (rank + 2))
    amounts = builder.op("Concat", [zeros, more], {"axis": 0})
    padded = builder.op("Pad", [data, amounts])
    result = builder.op(node.op_type, [padded, *node.inputs[1:]], node.attributes)
    return [builder.op("Slice", [result, builder.ints(*[0] * rank), shape])]


def is_expanded_to_nothing(node: ir.Node, types: Types) -> bool:
    """Whether a shape that a runtime may compute ahead has, or could have, a dimension of 0.

    onnxruntime takes an Expand from 1 to a constant 0 for one that changes nothing.
    """
    target = operand(node, 1)
    if not _is_settled(target, types):
        return False
    known = types.known(target)
    if known is not None:
        return bool((known == 0).any())
    return not _is_without_zero(target) and types.may_be_empty(node.outputs[0])


def cut_to_nothing(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """One element along each axis for which the shape has a 0, and the result without it."""
    data, target = operands(node)
    dims = types.dims(target)
    if dims is None or not isinstance(length := dims[0], int):
        return None
    zero, one, largest = (builder.scalar(n) for n in (0, 1, END))
    is_zero = builder.op("Equal", [target, zero])
    wide = builder.op("Expand", [data, builder.op("Where", [is_zero, one, target])])
    ends = builder.op("Where", [is_zero, zero, largest])
    starts, axes = builder.ints(*[0] * length), builder.ints(*range(-length, 0))
    return [builder.op("Slice", [wide, starts, ends, axes])]


def _is_without_zero(target: ir.Value) -> bool:
    """Whether another number stands for each 0 of a value, as `cut_to_nothing` writes it."""
    where = made_by(target, "Where")
    if where is None or not only_number(where.inputs[1]):
        return False
    whole = operand(where, 2)
    asked = either_order(made_by(where.inputs[0], "Equal"))
    return any(value is whole and only_number(other) == 0 for value, other in asked)


def _is_settled(value: ir.Value, types: Types) -> bool:
    """Whether a value hangs on constants and on known dimensions only.

    Which dimensions are known is asked last, since the types of the whole model say so.
    """
    pending, shapes = [value], list[ir.Node]()
    seen: set[ir.Node] = set()
    while pending or shapes:
        if not pending:
            shape = shapes.pop()
            if not types.has_static_shape(shape):
                pending += operands(shape)
            continue
        one = pending.pop()
        node = one.producer()
        if node is None:
            if constant_value(one) is None:
                return False
        elif node not in seen:
            seen.add(node)
            if is_operator(node, ("Shape", "Size")):
                shapes.append(node)
            else:
                pending += operands(node)
    return True
