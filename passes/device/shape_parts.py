"""Parts of a shape that one Shape yields, so that no node has to pick or join them on the host."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.operators import Operators
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import made_by, operand, shaped
from passes.typing import Typing

__all__ = [
    "SHAPE_PARTS",
    "axes_of",
    "before_transpose",
    "joined_parts",
    "may_be_part",
    "part_of_shape",
]

SHAPE_PARTS = frozenset({"Gather", "Slice", "Unsqueeze"})
"""The operators that pick a part of a vector."""
_PARTS = 15
"""The first opset in which Shape yields a part."""


def may_be_part(node: ir.Node) -> bool:
    """Whether a node reads a shape, or what is picked of one; its types are not asked for."""
    before = None if node.inputs[0] is None else node.inputs[0].producer()
    if before is not None and node.op_type == "Unsqueeze" and before.op_type == "Gather":
        return shaped(before.inputs[0]) is not None
    return shaped(node.inputs[0]) is not None


def part_of_shape(node: ir.Node, typing: Typing, ops: Operators) -> list[ir.Value] | None:
    """Return the part of a shape that a node picks; None where it picks something else.

    Args:
        node: A node of one of `SHAPE_PARTS`.
        typing: The types of values.
        ops: Records the new node.
    """
    if ops.opset < _PARTS:
        return None
    match node.op_type:
        case "Unsqueeze":
            found = _dimension(operand(node, 0), typing)
        case "Gather":
            found = _bounds_of_index(node, typing, rank=1)
        case _:
            found = _bounds_of_slice(node, typing)
    if found is None:
        return None
    whole, start, end = found
    return [ops.shape(whole, start, end)]


def _dimension(value: ir.Value, typing: Typing) -> tuple[ir.Value, int, int] | None:
    """Return the tensor and the bounds of a single dimension, a scalar."""
    node = value.producer()
    if not is_operator(node, "Gather"):
        return None
    return _bounds_of_index(node, typing, rank=0)


def _bounds_of_index(
    node: ir.Node, typing: Typing, *, rank: int
) -> tuple[ir.Value, int, int] | None:
    """Return the tensor, and the bounds of the dimension that a Gather picks of its shape."""
    whole, index = shaped(node.inputs[0]), constant_value(node.inputs[1])
    dims = None if whole is None else typing.dims(whole)
    if whole is None or dims is None or index is None or index.ndim != rank or index.size != 1:
        return None
    at = int(index.reshape(-1)[0])
    at += len(dims) if at < 0 else 0
    return (whole, at, at + 1) if 0 <= at < len(dims) else None


def _bounds_of_slice(node: ir.Node, typing: Typing) -> tuple[ir.Value, int, int] | None:
    """Return the tensor, and the bounds of the dimensions that a Slice cuts out of its shape."""
    whole = shaped(node.inputs[0])
    dims = None if whole is None else typing.dims(whole)
    if whole is None or dims is None or len(node.inputs) < 3:
        return None
    bounds = [constant_value(value) for value in node.inputs[1:]]
    if any(b is None or b.size != 1 for b in bounds):
        return None
    start, end, *more = (int(b.reshape(-1)[0]) for b in bounds if b is not None)
    axis, step = [*more, *(0, 1)[len(more) :]]
    if axis not in (0, -1) or step != 1:
        return None
    first, last, _ = slice(start, end).indices(len(dims))
    return (whole, first, max(first, last))


def joined_parts(node: ir.Node, typing: Typing, ops: Operators) -> list[ir.Value] | None:
    """Return consecutive parts of one shape, which a Concat joins, as the one part that they are.

    Args:
        node: The Concat.
        typing: The types of values.
        ops: Records the new node.
    """
    makers = [made_by(value, "Shape") for value in node.inputs]
    shapes = [maker for maker in makers if maker is not None]
    tensor = operand(shapes[0], 0) if shapes else None
    rank = None if tensor is None else typing.rank(tensor)
    if tensor is None or rank is None or len(shapes) != len(makers):
        return None
    parts = [axes_of(shape, rank) for shape in shapes]
    axes = [axis for part in parts for axis in part]
    whole = range(axes[0], axes[0] + len(axes)) if axes else range(0)
    if axes != list(whole) or any(shape.inputs[0] is not tensor for shape in shapes):
        return None
    return [ops.shape(tensor, whole.start, whole.stop)]


def before_transpose(node: ir.Node, _: Typing, ops: Operators) -> list[ir.Value] | None:
    """Return a part of the shape of what a Transpose reads, where it stands there in one piece.

    onnxruntime moves a Transpose behind what picks of its shape by a node on the host.

    Args:
        node: A Shape.
        _: The types of values.
        ops: Records the new node.
    """
    moved = made_by(node.inputs[0], "Transpose")
    order = None if moved is None else moved.attributes.get_ints("perm")
    if moved is None or not order:
        return None
    axes = [order[axis] for axis in axes_of(node, len(order))]
    whole = range(axes[0], axes[0] + len(axes)) if axes else range(0)
    return [ops.shape(operand(moved, 0), whole.start, whole.stop)] if axes == list(whole) else None


def axes_of(shape: ir.Node, rank: int) -> range:
    """Return the axes whose sizes a Shape yields.

    Args:
        shape: The node.
        rank: The number of axes of the tensor that it reads.
    """
    start, end = shape.attributes.get_int("start", 0), shape.attributes.get_int("end", rank)
    return range(rank)[start:end]
