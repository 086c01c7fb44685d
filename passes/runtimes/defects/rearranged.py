"""Operators that onnxruntime gets wrong when it moves others through them, or copies rows."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, makers
from passes.graph.made import only_number, operand, operands, optional_operand
from passes.runtimes.beside import TAKEN_AWAY
from passes.runtimes.defects.reshapes import from_front
from passes.runtimes.types import Types

__all__ = [
    "gathered_one_by_one",
    "is_clipped_behind_a_relu",
    "is_inverse_of_a_constant",
    "is_normalized_behind_a_cast",
    "is_of_some_axes",
    "is_scaled_from_the_left",
    "of_all_axes",
    "of_what_is_kept",
    "reads_rows_of_text",
    "reciprocal",
    "scaled_from_the_right",
]


def reads_rows_of_text(node: ir.Node, types: Types) -> bool:
    """Whether a Gather copies rows of strings: onnxruntime copies the first of each row only."""
    data, axis = operand(node, 0), node.attributes.get_int("axis", 0)
    if types.dtype(data) != ir.DataType.STRING:
        return False
    rank = types.rank(data)
    if rank is None:
        return axis == 0
    front = from_front([axis], rank)
    return front is not None and front[0] < rank - 1


def gathered_one_by_one(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """GatherND of the axis, which is brought to the front and back."""
    data, places = operands(node)
    rank, count = types.rank(data), types.rank(places)
    axis = node.attributes.get_int("axis", 0)
    if count is None or (rank is None and axis):
        return None
    if types.dtype(places) != ir.DataType.INT64:  # GatherND has no other
        places = builder.op("Cast", [places], {"to": ir.DataType.INT64})
    index = builder.op("Unsqueeze", [places, builder.ints(count)])
    if rank is None or not axis % rank:
        return [builder.op("GatherND", [data, index])]
    axis %= rank
    front = builder.op("Transpose", [data], {"perm": [axis, *_others(rank, axis)]})
    found = builder.op("GatherND", [front, index])
    order = [*range(count, count + axis), *range(count), *range(count + axis, rank + count - 1)]
    return [builder.op("Transpose", [found], {"perm": order})]


def _others(rank: int, axis: int) -> list[int]:
    return [i for i in range(rank) if i != axis]


def is_of_some_axes(node: ir.Node, types: Types) -> bool:
    """Whether a Pad or a CenterCropPad names its axes, beside a Transpose.

    onnxruntime moves a Transpose through it as if its numbers were those of all axes.
    """
    graph = node.graph
    assert graph is not None
    return _named_axes(node) is not None and any(n.op_type == "Transpose" for n in graph)


def of_all_axes(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The numbers of all axes in the place of those of a few."""
    rank, axes = types.rank(operand(node, 0)), _named_axes(node)
    front = axes if rank is None or axes is None else from_front(axes, rank)
    if front is None:
        return None
    if node.op_type == "CenterCropPad":
        return _shaped_along_all(node, front, builder)
    if rank is None:
        return _padded_by(node, _scattered(node, front, builder), builder)
    return _padded_along_all(node, front, rank, builder)


def _named_axes(node: ir.Node) -> list[int] | None:
    if node.op_type == "CenterCropPad":
        axes = node.attributes.get_ints("axes")
        return None if axes is None else list(axes)
    known = constant_value(optional_operand(node, 3))
    return None if known is None else [int(axis) for axis in known.reshape(-1)]


def _padded_along_all(
    node: ir.Node, axes: list[int], rank: int, builder: Builder
) -> list[ir.Value]:
    """Pad by the given amounts along some axes, and by 0 along the others."""
    amounts = node.inputs[1]
    known = constant_value(amounts)
    if known is not None:
        full = np.zeros((2, rank), np.int64)
        full[:, axes] = known.reshape(2, -1)
        amounts = builder.ints(*full.reshape(-1).tolist())
    else:
        places = np.full((2, rank), 2 * len(axes), np.int64)
        places[:, axes] = np.arange(2 * len(axes)).reshape(2, -1)
        with_zero = builder.op("Concat", [amounts, builder.ints(0)], {"axis": 0})
        where = builder.ints(*places.reshape(-1).tolist())
        amounts = builder.op("Gather", [with_zero, where], {"axis": 0})
    return _padded_by(node, amounts, builder)


def _padded_by(node: ir.Node, amounts: ir.Value | None, builder: Builder) -> list[ir.Value]:
    fill = [value for value in node.inputs[2:3] if value is not None]
    return [builder.op("Pad", [node.inputs[0], amounts, *fill], node.attributes)]


def _scattered(node: ir.Node, axes: list[int], builder: Builder) -> ir.Value:
    """Return the amounts of all axes; their number is known at run time only.

    Of rank ``r`` the amounts of axis ``a`` are numbers ``a`` and ``a + r``, those of axis ``-a``
    are numbers ``-a - r`` and ``-a`` from the back. The zeros come of the shape itself: what
    computes with shapes alone stays on the host as a whole.
    """
    data, amounts = operands(node)[:2]
    shape = builder.op("Shape", [data])
    rank = builder.op("Shape", [shape])
    shifts = [-(axis < 0) for axis in axes]
    moved = builder.op("Mul", [rank, builder.ints(*shifts, *(shift + 1 for shift in shifts))])
    places = builder.op("Add", [builder.ints(*axes, *axes), moved])
    both = builder.op("Concat", [shape, shape], {"axis": 0})
    none = builder.op("Mul", [both, builder.ints(0)])
    return builder.op("ScatterElements", [none, places, amounts], {"axis": 0})


def _shaped_along_all(node: ir.Node, axes: list[int], builder: Builder) -> list[ir.Value]:
    """Crop and pad some axes to their sizes, and the others to the sizes that they have."""
    data, sizes = operands(node)
    wide = builder.op("Cast", [sizes], {"to": ir.DataType.INT64})
    own = builder.op("Shape", [data])
    target = builder.op("ScatterElements", [own, builder.ints(*axes), wide], {"axis": 0})
    return [builder.op("CenterCropPad", [data, target])]


def is_scaled_from_the_left(node: ir.Node, types: Types) -> bool:
    """Whether a normalized vector is the second operand of a product or a sum.

    onnxruntime makes one operator of the normalization, and takes for its scale, or its bias, the
    last operand that is a vector.
    """
    left, right = operands(node)
    if not _is_normalized(right) or _is_normalized(left):
        return False
    return types.rank(right) in (1, None)


def _is_normalized(value: ir.Value) -> bool:
    return any(maker.op_type == "Sqrt" for maker in makers(value, ("Cast", "Div", "Mul")))


def scaled_from_the_right(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The operands in the other order."""
    return [builder.op(node.op_type, node.inputs[::-1])]


def is_normalized_behind_a_cast(node: ir.Node, types: Types) -> bool:
    """Whether the mean of what was cast is taken off it.

    onnxruntime makes one operator of the normalization, which reads what was not cast yet.
    """
    data = operand(node, 0)
    if not any(maker.op_type == "Cast" for maker in makers(data, TAKEN_AWAY)):
        return False
    means = {use.node for value in node.outputs for use in value.uses()}
    return any(one.op_type == "Sub" and data in one.inputs for one in means)


def is_clipped_behind_a_relu(node: ir.Node, types: Types) -> bool:
    """Whether a Clip follows a Relu, of a type that onnxruntime has no fused operator for.

    A Transpose between them is moved away first.
    """
    data = operand(node, 0)
    if types.dtype(data) in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        return False
    return any(maker.op_type == "Relu" for maker in makers(data, (*TAKEN_AWAY, "Transpose")))


def of_what_is_kept(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The node behind one that changes nothing, and that onnxruntime leaves."""
    data, *others = node.inputs
    return [builder.op(node.op_type, [builder.op("Max", [data]), *others], node.attributes)]


def is_inverse_of_a_constant(node: ir.Node, types: Types) -> bool:
    """Whether a node divides a constant 1.

    onnxruntime makes ``w / t`` of ``w * (1 / t)``, which are other bits.
    """
    one, other = operands(node)
    known = constant_value(one)
    if known is None or known.dtype.kind != "f" or only_number(one) != 1:
        return False
    rank = types.rank(other)
    return rank is not None and known.ndim <= rank


def reciprocal(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same by an operator of its own."""
    return [builder.op("Reciprocal", [node.inputs[1]])]
