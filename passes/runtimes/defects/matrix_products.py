"""Products of matrices that onnxruntime gets wrong: of nothing, or fused with a Transpose."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, makers
from passes.graph.made import either_order, made_by, operands
from passes.runtimes.beside import TAKEN_AWAY
from passes.runtimes.types import Types

__all__ = [
    "by_a_matrix",
    "is_by_a_vector",
    "is_fused_with_transpose",
    "is_left_short",
    "is_of_halves",
    "is_transposed_by_a_vector",
    "left_as_long",
    "of_kept_halves",
    "untransposed",
]


def is_by_a_vector(node: ir.Node, types: Types) -> bool:
    """Whether a product has a vector on its right, and on its left maybe no rows."""
    left, right = operands(node)
    if types.rank(right) != 1:
        return False
    rank = types.rank(left)
    return rank is not None and rank > 1 and types.may_be_empty(left)


def by_a_matrix(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The vector as a matrix of one column."""
    left, right = operands(node)
    known = constant_value(right)
    if known is not None:
        column = builder.constant(known[:, np.newaxis])
    else:
        column = builder.op("Unsqueeze", [right, builder.ints(1)])
    if right.type is not None and right.shape is not None:
        column.type, column.shape = right.type, ir.Shape([*right.shape, 1])
    product = builder.op("MatMul", [left, column])
    rank = types.rank(left)
    return [builder.op("Squeeze", [product, builder.ints(-1 if rank is None else rank - 1)])]


def is_left_short(node: ir.Node, types: Types) -> bool:
    """Whether the right side of a product has batch axes, perhaps of size 0, and the left none."""
    left, right = operands(node)
    rank = types.rank(right)
    if rank is None or rank < 3:
        return False
    own = types.rank(left)
    return own is not None and own < rank and types.may_be_empty(right, slice(-2))


def left_as_long(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The left side with as many axes; each has size 0 where the axis of the right side has."""
    left, right = operands(node)
    rank, own = types.rank(right), types.rank(left)
    assert rank is not None and own is not None
    if own == 1:
        left = builder.op("Unsqueeze", [left, builder.ints(0)])
    more = rank - max(own, 2)
    axes = builder.ints(*range(more))
    wide = builder.op("Unsqueeze", [left, axes])
    ends = builder.shape(right, 0, more)
    cut = builder.op("Slice", [wide, builder.ints(*[0] * more), ends, axes])
    product = builder.op("MatMul", [cut, right])
    return [builder.op("Squeeze", [product, builder.ints(rank - 2)]) if own == 1 else product]


def is_fused_with_transpose(node: ir.Node, types: Types) -> bool:
    """Whether onnxruntime makes one operator of a product and the Transpose on its left.

    That operator fails where the left side has no samples and the right has fewer axes.
    """
    left, right = operands(node)
    if not _is_transposed(left) or not _is_fused(left, types):
        return False
    rank, other = types.rank(left), types.rank(right)
    if rank is None or other is None or rank <= max(other, 2):
        return False
    return types.may_be_empty(left)


def _is_fused(value: ir.Value, types: Types) -> bool:
    """Whether a product of some numbers may be fused, which those of integers are not."""
    dtype = types.dtype(value)
    return dtype is None or dtype.is_floating_point()


def is_transposed_by_a_vector(node: ir.Node, types: Types) -> bool:
    """Whether onnxruntime makes one operator of a Transpose and its product by a vector.

    That operator multiplies the wrong numbers. It moves a Transpose behind most other operators
    before, where another one asks for that, but not behind the node of `untransposed`.
    """
    left, right = operands(node)
    if types.rank(right) != 1 or not _is_fused(left, types) or _is_apart(left):
        return False
    return any(maker.op_type == "Transpose" for maker in makers(left))


def _is_apart(value: ir.Value) -> bool:
    """Whether a value stands behind the node that `untransposed` puts there."""
    made = made_by(value, "Max")
    return made is not None and len(made.inputs) == 1


def is_of_halves(node: ir.Node, types: Types) -> bool:
    """Whether a matrix or a vector meets a Transpose that moves the first of several axes.

    Of float16, or of what was cast, onnxruntime ends the process on such a product.
    """
    return any(_ends_the_process(*pair, types) for pair in either_order(node))


def _ends_the_process(moved: ir.Value, other: ir.Value, types: Types) -> bool:
    found = list(makers(moved, TAKEN_AWAY))
    transposes = [maker for maker in found if maker.op_type == "Transpose"]
    if not transposes or types.rank(other) not in (None, 1, 2):
        return False
    if types.dtype(moved) != ir.DataType.FLOAT16 and not any(m.op_type == "Cast" for m in found):
        return False
    return any(_moves_the_first(maker, types) for maker in transposes)


def _moves_the_first(node: ir.Node, types: Types) -> bool:
    """Whether a Transpose of three axes or more, as far as is known, moves the first one."""
    perm = node.attributes.get_ints("perm")
    if perm is None:
        return types.rank(node.outputs[0]) not in (0, 1, 2)
    return len(perm) > 2 and bool(perm[0])


def of_kept_halves(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The product, with a node that changes nothing behind each Transpose."""
    pairs = either_order(node)
    given = [builder.op("Max", [a]) if _ends_the_process(a, b, types) else a for a, b in pairs]
    return [builder.op("MatMul", given)]


def _is_transposed(value: ir.Value) -> bool:
    """Whether a value is a Transpose, or one behind nodes that onnxruntime may take away.

    It takes away what multiplies by 1, adds 0, casts to the same type or moves nothing, and fuses
    a product by a number with the MatMul.
    """
    return any(maker.op_type == "Transpose" for maker in makers(value, TAKEN_AWAY))


def untransposed(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The left side behind a node that changes nothing, and that onnxruntime leaves."""
    left, right = operands(node)
    return [builder.op("MatMul", [builder.op("Max", [left]), right])]
