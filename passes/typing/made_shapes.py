"""Shapes that a node makes of dimensions that are not all numbers.

ONNX's inference cancels no unknown dimension: ``[1, L, 32]`` that becomes ``[1, L, -1, 8]`` has 4
heads. Below opset 13 it follows no number through an Unsqueeze, as exporters put shapes together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TypeAlias

import onnx
import onnx_ir as ir

from passes.graph.graphs import name_of
from passes.graph.made import operands
from passes.numbers.folding import Folder
from passes.numbers.integers import Dim, Linear
from passes.numbers.number_order import sole_atom
from passes.typing.stand_ins import stand_in_shaped

__all__ = ["MAKERS", "show_made_shape"]

MAKERS = ("ConstantOfShape", "Expand", "Reshape")
"""Operators that make a shape of numbers."""

Place: TypeAlias = tuple[ir.Value, int]
"""A tensor, and an axis of it."""
Dimension: TypeAlias = int | str | None


@dataclasses.dataclass(frozen=True)
class _Made:
    """What is known of the dimensions that are made.

    Attributes:
        sizes: Each dimension, None where it is not a known number.
        places: A tensor and the axis of it that has the same size, None where none is known.
    """

    sizes: Sequence[int | None]
    places: Sequence[Place | None]


def show_made_shape(node: ir.Node, proto: onnx.NodeProto, folder: Folder) -> bool:
    """Let inference know the dimensions that a node makes, for inference only.

    Args:
        node: A node.
        proto: The same for inference.
        folder: Knows what inference has found so far.

    Returns:
        Whether more is known of them now.
    """
    if proto.domain or node.op_type not in MAKERS:
        return False
    found = _READ[node.op_type](node, folder)
    if found is None or not found.sizes or not _tells_more(found, node.outputs[0], folder):
        return False
    places = [None if one is None else (name_of(one[0]), one[1]) for one in found.places]
    stand_in_shaped(proto, found.sizes, places)
    return True


def _tells_more(found: _Made, output: ir.Value, folder: Folder) -> bool:
    """Whether a dimension is found that inference does not know, or takes for another."""
    dims = folder.dims(output)
    if dims is None:
        return True
    for at, (size, place) in enumerate(zip(found.sizes, found.places, strict=True)):
        if size is not None and not isinstance(dims[at], int):
            return True
        if place is not None and not _is_alike(dims[at], folder.dims(place[0]), place[1]):
            return True
    return False


def _is_alike(dim: Dimension, others: Sequence[Dimension] | None, axis: int) -> bool:
    """Whether a dimension has the name or number of another one, which may have none."""
    other = None if others is None else others[axis]
    return other is None or dim == other


def _filled(node: ir.Node, folder: Folder) -> _Made | None:
    """Return the dimensions of a ConstantOfShape; None where nothing is known of them."""
    numbers = folder.of(node.inputs[0])
    if numbers is None:
        return None
    return _Made([n.number for n in numbers], [_place(n) for n in numbers])


def _place(number: Linear) -> Place | None:
    """Return where a number stands that is a dimension."""
    atom = sole_atom(number)
    return (atom.tensor, atom.axis) if isinstance(atom, Dim) else None


def _reshaped(node: ir.Node, folder: Folder) -> _Made | None:
    """Return what is known of the dimensions of a Reshape."""
    found = _cancelled(node, folder)
    if found is None and folder.dims(node.outputs[0]) is None:
        return _counted(node, folder)
    return found


def _counted(node: ir.Node, folder: Folder) -> _Made:
    """Return how many dimensions are asked for, and their numbers where they are constants."""
    numbers, counted = folder.of(node.inputs[1]), folder.dims(node.inputs[1])
    sizes = [n.number for n in numbers or ()]
    if numbers is None:
        count = counted[0] if counted is not None and len(counted) == 1 else None
        sizes = [None] * count if isinstance(count, int) else []
    return _Made([n if n is not None and n > 0 else None for n in sizes], [None] * len(sizes))


def _cancelled(node: ir.Node, folder: Folder) -> _Made | None:
    """Return the dimensions where what the others leave is a number; None where it is not."""
    data, numbers = operands(node)[0], folder.of(node.inputs[1])
    rank = folder.rank(data)
    sides = [folder.dimension(data, axis) for axis in range(rank or 0)]
    opened = [at for at, n in enumerate(numbers or ()) if n.number == -1]
    if rank is None or numbers is None or len(opened) != 1 or any(n.number == 0 for n in numbers):
        return None
    left = [axis for axis, side in enumerate(sides) if side is None or side.number is None]
    places: list[Place | None] = [None] * len(numbers)
    for at, number in enumerate(numbers):
        if number.number is None:
            axis = next((a for a in left if folder.is_dimension(number, data, a)), None)
            if axis is None:
                return None
            places[at] = (data, axis)
            left.remove(axis)
    total = math.prod(
        side.number for side in sides if side is not None and side.number is not None
    )
    by = math.prod(n.number for n in numbers if n.number not in (None, -1))
    if left or not by or total % by:
        return None
    sizes = [n.number for n in numbers]
    sizes[opened[0]] = total // by
    return _Made(sizes, places)


def _expanded(node: ir.Node, folder: Folder) -> _Made | None:
    """Return the dimensions of what is broadcast to a shape; None where nothing is known of it."""
    data = operands(node)[0]
    numbers, dims = folder.of(node.inputs[1]), folder.dims(data)
    if numbers is None or dims is None:
        return None
    count = max(len(numbers), len(dims))
    sizes: list[int | None] = []
    places: list[Place | None] = []
    for at in range(count):
        axis, place = at - count + len(dims), at - count + len(numbers)
        dim = dims[axis] if axis >= 0 else 1
        number = numbers[place] if place >= 0 else Linear(1)
        size = number.number if dim == 1 or (number.number or 0) > 1 else None
        if isinstance(dim, int) and dim > 1:
            size = dim
        sizes.append(size)
        if size is not None:
            places.append(None)
        elif number.number == 1 or (axis >= 0 and folder.is_dimension(number, data, axis)):
            places.append((data, axis))
        else:
            places.append(_place(number) if dim == 1 else None)
    return _Made(sizes, places)


_READ = {"ConstantOfShape": _filled, "Expand": _expanded, "Reshape": _reshaped}
