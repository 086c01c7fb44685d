"""Shapes and axes: operators that onnxruntime makes one of where they do not follow.

And a Reshape that is there to fail, which other runtimes let pass, or refuse.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, makers
from passes.graph.made import (
    either_order,
    made_by,
    operand,
    operands,
    optional_operand,
    shaped,
    skip_identities,
)
from passes.runtimes.types import Types
from passes.typing import Typing

__all__ = [
    "behind_a_negation",
    "comes_from_a_shape",
    "counted",
    "failing_by_a_product",
    "fails_by_its_size",
    "flags_counted",
    "from_front",
    "is_by_a_reshape",
    "is_cut_by_several",
    "is_of_a_shape",
    "is_to_sizes_of_unknown_number",
    "kept_apart",
    "to_so_many_sizes",
    "with_its_axis",
]


_MERGED = ("Identity", "Reshape", "Squeeze", "Unsqueeze")
_FOLLOWED = (
    *("Add", "Cast", "Concat", "Div", "Gather", "Identity", "Mul", "Reshape"),
    *("Size", "Slice", "Squeeze", "Sub", "Unsqueeze"),
)


def is_by_a_reshape(node: ir.Node, types: Types) -> bool:
    """Whether the target, or the axes, of a node come from a Reshape.

    onnxruntime makes one node of both, as if the first yielded what the second reshapes.
    """
    given = operands(node)[1:]
    return any(maker.op_type == "Reshape" for value in given for maker in makers(value, _MERGED))


def behind_a_negation(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same by a target that no Reshape yields."""
    data, target = operands(node)
    return [builder.op(node.op_type, [data, kept_apart(builder, target)], node.attributes)]


def is_of_a_shape(node: ir.Node, types: Types) -> bool:
    """Whether a node counts numbers that come from a shape.

    Where onnxruntime knows the numbers it takes their product for how many they are.
    """
    numbers = operand(node, 0)
    return comes_from_a_shape(numbers) and types.rank(numbers) != 0


def comes_from_a_shape(numbers: ir.Value) -> bool:
    """Whether onnxruntime may know numbers because a shape is among what they are made of."""
    return any(maker.op_type == "Shape" for maker in makers(numbers, _FOLLOWED))


def counted(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The size of the only axis, or the product of the sizes of all."""
    numbers = operand(node, 0)
    shape = builder.op("Shape", [numbers])
    if types.rank(numbers) == 1:
        return [builder.op("Squeeze", [shape, builder.ints(0)])]
    return [builder.op("ReduceProd", [shape], {"keepdims": 0})]


def is_to_sizes_of_unknown_number(node: ir.Node, types: Types) -> bool:
    """Whether a Resize may be refused since nothing says how many sizes it is given."""
    sizes = _sizes(node)
    if sizes is None or constant_value(sizes) is not None or made_by(sizes, "Reshape"):
        return False
    dims = types.dims(sizes)
    is_known = dims is not None and all(isinstance(dim, int) for dim in dims)
    return _count(node, types) is not None and (not is_known or types.is_inside(node))


def to_so_many_sizes(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same by sizes of a number that is said: one for each axis."""
    sizes, count = _sizes(node), _count(node, types)
    assert sizes is not None and count is not None
    said = builder.op("Reshape", [sizes, builder.ints(count)])
    return [builder.op("Resize", [*node.inputs[:3], said], node.attributes)]


def _sizes(node: ir.Node) -> ir.Value | None:
    return node.inputs[3] if len(node.inputs) > 3 else None


def _count(node: ir.Node, types: Types) -> int | None:
    """Return how many axes a Resize changes."""
    axes = node.attributes.get_ints("axes", None)
    return types.rank(operand(node, 0)) if axes is None else len(axes)


def kept_apart(builder: Builder, target: ir.Value) -> ir.Value:
    """Record nodes that change no number, and that onnxruntime does not see through."""
    return builder.op("Neg", [builder.op("Neg", [target])])


def from_front(axes: Iterable[int], rank: int) -> list[int] | None:
    """Return axes as they count from the front.

    Args:
        axes: Axes; a negative one counts from the back.
        rank: How many axes there are.

    Returns:
        None if there is no such axis, which is an error that no other form may take away.
    """
    known = [int(axis) for axis in axes]
    if not all(-rank <= axis < rank for axis in known):
        return None
    return [axis % rank for axis in known]


def is_cut_by_several(node: ir.Node, types: Types) -> bool:
    """Whether slices of several rows are to lose their axis, which ONNX does not ask for.

    It ignores ``keepdims`` where sizes are given. Slices of one row are left alone: onnxruntime
    takes their axis away, and the rank of what reads them may be by that.
    """
    size = constant_value(optional_operand(node, 1))
    if size is None or size.ndim or node.attributes.get_int("keepdims", 1):
        return False
    return bool(size != 1)


def with_its_axis(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The slices with their axis, as ONNX has them."""
    left = {name: a for name, a in node.attributes.items() if name != "keepdims"}
    return [builder.op("SplitToSequence", node.inputs, left)]


_NUMBERS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64})


def fails_by_its_size(node: ir.Node, types: Types) -> bool:
    """Whether n numbers are reshaped to n and as many more as flags are set: an error, or nothing.

    `passes.batching.packed.checks` writes it. OpenVINO goes on with the numbers as they are; tract
    loads no model with a Reshape to a size that only numbers tell.
    """
    return flags_counted(node, types) is not None and types.dtype(operand(node, 0)) in _NUMBERS


def flags_counted(node: ir.Node, types: Types | Typing) -> ir.Value | None:
    """Return the number of flags that are added to the size of a vector, None for no such node."""
    numbers = operand(node, 0)
    if types.rank(numbers) != 1:
        return None
    for size, more in either_order(made_by(operand(node, 1), "Add")):
        dims = types.dims(more)
        is_one = dims is not None and all(dim == 1 for dim in dims)
        if shaped(size) is skip_identities(numbers) and is_one and _counts_flags(more, types):
            return more
    return None


def _counts_flags(value: ir.Value, types: Types | Typing) -> bool:
    total = made_by(value, "ReduceSum")
    cast = None if total is None else made_by(operand(total, 0), "Cast")
    return cast is not None and types.dtype(operand(cast, 0)) == ir.DataType.BOOL


def failing_by_a_product(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The numbers less 0: the first product of two rows of numbers from 0 on.

    The rows are ``[0]`` and ``[0, 1]`` where no flag is set, otherwise they have three and four
    numbers, five and six, or more, and cannot be multiplied.
    """
    more, numbers = flags_counted(node, types), operand(node, 0)
    dtype = types.dtype(numbers)
    assert more is not None and dtype is not None
    twice = builder.op("Mul", [builder.op("Squeeze", [more]), builder.scalar(2)])
    row, longer = (
        builder.arange(builder.op("Add", [twice, builder.scalar(count)])) for count in (1, 2)
    )
    product = builder.op("Mul", [row, longer])
    zero = builder.op("Gather", [product, builder.scalar(0)])
    if dtype != ir.DataType.INT64:
        zero = builder.op("Cast", [zero], {"to": int(dtype)})
    return [builder.op("Sub", [numbers, zero])]
