"""Shapes that a Reshape or an Expand makes of dimensions that are not all numbers.

ONNX's inference cancels no unknown dimension: ``[1, L, 32]`` that becomes ``[1, L, -1, 8]`` has 4
heads. Below opset 13 it follows no number through an Unsqueeze, as exporters put shapes together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import onnx
import onnx_ir as ir

from passes.folding import Folder
from passes.graph.made import operands
from passes.typing.stand_ins import stand_in_shaped

__all__ = ["show_made_shape"]


@dataclasses.dataclass(frozen=True)
class _Made:
    """What is known of the dimensions that are made.

    Attributes:
        sizes: Each dimension, None where it is not known.
        axes: The axis of the data of the same size, None where there is none.
    """

    sizes: Sequence[int | None]
    axes: Sequence[int | None]


def show_made_shape(node: ir.Node, proto: onnx.NodeProto, folder: Folder) -> bool:
    """Let inference know the dimensions that a node makes, for inference only.

    Args:
        node: A node.
        proto: The same for inference.
        folder: Knows what inference has found so far.

    Returns:
        Whether more is known of them now.
    """
    if proto.domain or node.op_type not in ("Reshape", "Expand"):
        return False
    dims = folder.dims(node.outputs[0])
    found = _expanded(node, folder) if node.op_type == "Expand" else _reshaped(node, folder)
    if found is None and node.op_type == "Reshape" and dims is None:
        found = _counted(node, folder)
    if found is None or not found.sizes:
        return False
    if dims is not None and not any(
        size is not None and not isinstance(dim, int)
        for size, dim in zip(found.sizes, dims, strict=True)
    ):
        return False
    stand_in_shaped(proto, found.sizes, found.axes)
    return True


def _counted(node: ir.Node, folder: Folder) -> _Made:
    """Return how many dimensions are asked for, and their numbers where they are constants."""
    numbers, counted = folder.of(node.inputs[1]), folder.dims(node.inputs[1])
    sizes = [n.number for n in numbers or ()]
    if numbers is None:
        count = counted[0] if counted is not None and len(counted) == 1 else None
        sizes = [None] * count if isinstance(count, int) else []
    return _Made([n if n is not None and n > 0 else None for n in sizes], [None] * len(sizes))


def _reshaped(node: ir.Node, folder: Folder) -> _Made | None:
    """Return the dimensions where what the others leave is a number; None where it is not."""
    data, numbers = operands(node)[0], folder.of(node.inputs[1])
    rank = folder.rank(data)
    sides = [folder.dimension(data, axis) for axis in range(rank or 0)]
    opened = [at for at, n in enumerate(numbers or ()) if n.number == -1]
    if rank is None or numbers is None or len(opened) != 1 or any(n.number == 0 for n in numbers):
        return None
    left = [axis for axis, side in enumerate(sides) if side is None or side.number is None]
    axes: list[int | None] = [None] * len(numbers)
    for at, number in enumerate(numbers):
        if number.number is None:
            axis = next((a for a in left if folder.is_dimension(number, data, a)), None)
            if axis is None:
                return None
            axes[at] = axis
            left.remove(axis)
    total = math.prod(
        side.number for side in sides if side is not None and side.number is not None
    )
    by = math.prod(n.number for n in numbers if n.number not in (None, -1))
    if left or not by or total % by:
        return None
    sizes = [n.number for n in numbers]
    sizes[opened[0]] = total // by
    return _Made(sizes, axes)


def _expanded(node: ir.Node, folder: Folder) -> _Made | None:
    """Return the dimensions of what is broadcast to a shape; None where nothing is known of it."""
    numbers, dims = folder.of(node.inputs[1]), folder.dims(operands(node)[0])
    if numbers is None or dims is None:
        return None
    count = max(len(numbers), len(dims))
    sizes: list[int | None] = []
    axes: list[int | None] = []
    for at in range(count):
        axis, place = at - count + len(dims), at - count + len(numbers)
        dim = dims[axis] if axis >= 0 else 1
        number = numbers[place].number if place >= 0 else 1
        size = number if dim == 1 or (number is not None and number > 1) else None
        if isinstance(dim, int) and dim > 1:
            size = dim
        sizes.append(size)
        axes.append(axis if size is None and number == 1 else None)
    return _Made(sizes, axes)
