"""What runtimes get wrong where an operand, or a constant, has no elements."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.runtimes.reshapes import from_front, kept_apart
from passes.runtimes.types import Types

__all__ = [
    "by_a_matrix",
    "computed_shape",
    "cut_after",
    "from_the_front",
    "has_negative_axes",
    "is_by_a_vector",
    "is_left_short",
    "is_normalization_of_nothing",
    "is_nothing",
    "is_shape_replaced",
    "left_as_long",
    "made_nothing",
    "nothing_by_a_node",
    "yields_nothing",
]


def has_negative_axes(node: ir.Node, types: Types) -> bool:
    """Whether a reduction is along an axis that counts from the back."""
    data = node.inputs[0]
    axes = _axes(node)
    if data is None or axes is None or not (axes < 0).any():
        return False
    return types.may_be_empty(data)


def from_the_front(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The axes as they count from the front."""
    data, axes = node.inputs[0], _axes(node)
    rank = None if data is None else types.rank(data)
    front = None if axes is None or rank is None else from_front(axes, rank)
    if front is None:
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


def is_by_a_vector(node: ir.Node, types: Types) -> bool:
    """Whether a product has a vector on its right, and rows that there may be none of."""
    left, right = node.inputs
    if left is None or right is None or types.rank(right) != 1:
        return False
    return (types.rank(left) or 0) > 1 and types.may_be_empty(left)


def by_a_matrix(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The vector as a matrix of one column."""
    left, right = node.inputs
    known = constant_value(right)
    if known is not None:
        column = builder.constant(known[:, np.newaxis])
    else:
        column = builder.op("Unsqueeze", [right, builder.ints(1)])
    if right is not None and right.type is not None and right.shape is not None:
        column.type, column.shape = right.type, ir.Shape([*right.shape, 1])
    product = builder.op("MatMul", [left, column])
    rank = None if left is None else types.rank(left)
    return [builder.op("Squeeze", [product, builder.ints(-1 if rank is None else rank - 1)])]


def is_left_short(node: ir.Node, types: Types) -> bool:
    """Whether the right side of a product has batch axes, perhaps of size 0, and the left none."""
    left, right = node.inputs
    rank = None if right is None else types.rank(right)
    if left is None or right is None or rank is None or rank < 3:
        return False
    return (types.rank(left) or rank) < rank and types.may_be_empty(right, slice(-2))


def left_as_long(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The left side with as many axes, each of which has size 0 where the right's has."""
    left, right = node.inputs
    assert left is not None and right is not None
    rank, own = types.rank(right), types.rank(left)
    assert rank is not None and own is not None
    if own == 1:
        left = builder.op("Unsqueeze", [left, builder.ints(0)])
    more = rank - max(own, 2)
    axes = builder.ints(*range(more))
    wide = builder.op("Unsqueeze", [left, axes])
    ends = builder.op("Slice", [builder.op("Shape", [right]), builder.ints(0), builder.ints(more)])
    cut = builder.op("Slice", [wide, builder.ints(*[0] * more), ends, axes])
    product = builder.op("MatMul", [cut, right])
    return [builder.op("Squeeze", [product, builder.ints(rank - 2)]) if own == 1 else product]


def is_shape_replaced(node: ir.Node, types: Types) -> bool:
    """Whether onnxruntime writes -1 for the one dimension of a target that is computed.

    A -1 cannot be resolved where the tensor has no elements.
    """
    data, target = node.inputs
    if data is None or target is None or node.attributes.get_int("allowzero"):
        return False
    producer = target.producer()
    while producer is not None and producer.op_type == "Identity":
        source = producer.inputs[0]
        producer = None if source is None else source.producer()
    if producer is None or producer.op_type != "Concat":
        return False
    if all(constant_value(part) is not None for part in producer.inputs):
        return False
    return types.may_be_empty(data)


def computed_shape(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The target behind nodes that change nothing."""
    data, target = node.inputs
    assert target is not None
    return [builder.op("Reshape", [data, kept_apart(builder, target)], node.attributes)]


def is_normalization_of_nothing(node: ir.Node, types: Types) -> bool:
    """Whether there may be no pixels to normalize, which ends the process."""
    data = node.inputs[0]
    if data is None or types.rank(data) is None or not types.may_be_empty(data, slice(2, None)):
        return False
    padded = data.producer()
    amounts = None if padded is None or padded.op_type != "Pad" else padded.inputs[1]
    joined = None if amounts is None else amounts.producer()
    if joined is None or joined.op_type != "Concat" or joined.inputs[-1] is None:
        return True
    last = joined.inputs[-1].producer()
    return last is None or last.op_type != "Cast"


def cut_after(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """A pixel along each axis that has none, and the result without it."""
    data = node.inputs[0]
    rank = None if data is None else types.rank(data)
    if rank is None or rank < 3:
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


def is_nothing(value: ir.Value | None) -> bool:
    """Whether a value is a constant of numbers without elements."""
    known = constant_value(value)
    return known is not None and not known.size and known.dtype.kind in "biuf"


def made_nothing(builder: Builder, value: ir.Value) -> ir.Value:
    """Return what a node makes in the place of a constant without elements."""
    known = constant_value(value)
    assert known is not None
    zero = {"value": ir.tensor(np.zeros(1, known.dtype))}
    return builder.op("ConstantOfShape", [builder.ints(*known.shape)], zero)


def yields_nothing(node: ir.Node, types: Types) -> bool:
    """Whether a Constant has no elements; OpenVINO forgets its shape, which an If then tells."""
    return is_nothing(node.outputs[0])


def nothing_by_a_node(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same by a ConstantOfShape."""
    return [made_nothing(builder, node.outputs[0])]
