"""Shapes that a Concat puts together, and what they are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from passes.batching.operators import Operators
from passes.device.shape_parts import axes_of
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import operand
from passes.typing import Typing

__all__ = ["ShapePart", "ShapeVector", "made_of"]


_NO = ir.tensor(np.array([False]))


def made_of(shape: ir.Value, ops: Operators) -> ir.Value:
    """Record a tensor of a shape, for what reads the shape alone."""
    made = ops.op("ConstantOfShape", [shape], {"value": _NO})
    made.type = ir.TensorType(ir.DataType.BOOL)
    return made


def _vector_of(part: ir.Value | None, typing: Typing) -> ir.Value | None:
    """Return the tensor of one axis whose shape a value is, None where it is something else."""
    node = None if part is None else part.producer()
    if not is_operator(node, "Shape") or _length(part, typing) != 1:
        return None
    whole = operand(node, 0)
    return whole if typing.rank(whole) == 1 else None


def _length(value: ir.Value | None, typing: Typing) -> int | None:
    """Return how many numbers a vector holds, None where that is not known."""
    if value is None:
        return None
    node = value.producer()
    if is_operator(node, "Shape"):
        rank = typing.rank(operand(node, 0))
        if rank is None:
            return None
        return len(axes_of(node, rank))
    dims = typing.static_dims(value)
    return dims[0] if dims is not None and len(dims) == 1 else None


def _known(value: ir.Value, typing: Typing) -> np.ndarray | None:
    """Return the numbers of a vector where they are known."""
    node = value.producer()
    if not is_operator(node, "Shape"):
        return constant_value(value)
    dims = typing.dims(operand(node, 0))
    if dims is None:
        return None
    part = [dims[axis] for axis in axes_of(node, len(dims))]
    numbers = [dim for dim in part if isinstance(dim, int)]
    return np.array(numbers, np.int64) if len(numbers) == len(part) else None


@dataclasses.dataclass(frozen=True)
class ShapePart:
    """Consecutive numbers of a shape.

    Attributes:
        value: A vector.
        axes: Where they stand.
        constant: What they are, if that is known.
        vector: The tensor of one axis whose shape it is, if it is of one.
    """

    value: ir.Value
    axes: tuple[int, ...]
    constant: np.ndarray | None
    vector: ir.Value | None


def _are_sizes(part: ShapePart, tensor: ir.Value, typing: Typing) -> bool:
    """Whether a tensor is proven to have the dimensions of a part, at the axes of the part."""
    shape, own = part.value.producer(), typing.dims(tensor) or ()
    if not is_operator(shape, "Shape") or part.axes[-1] >= len(own):
        return False
    read = operand(shape, 0)
    dims = typing.dims(read) or ()
    return all(
        (read is tensor and axis == at)
        or (dims[axis] == own[at] and typing.is_one_number(own[at]))
        for axis, at in zip(axes_of(shape, len(dims)), part.axes, strict=True)
    )


@dataclasses.dataclass(frozen=True)
class ShapeVector:
    """A shape that is put together.

    Attributes:
        rank: How many numbers it holds.
        parts: What it is made of, without parts that hold nothing.
    """

    rank: int
    parts: tuple[ShapePart, ...]

    @staticmethod
    def read(value: ir.Value | None, typing: Typing) -> ShapeVector | None:
        """Return the parts of a Concat, None where their number is not known."""
        node = None if value is None else value.producer()
        if not is_operator(node, "Concat"):
            return None
        rank, parts = 0, list[ShapePart]()
        for one in node.inputs:
            length = _length(one, typing)
            if one is None or length is None:
                return None
            axes = tuple(range(rank, rank + length))
            if length:
                parts.append(ShapePart(one, axes, _known(one, typing), _vector_of(one, typing)))
            rank += length
        return ShapeVector(rank, tuple(parts))

    def is_read(self) -> bool:
        """Return whether all parts that are not constant are read off tensors."""
        return all(is_operator(part.value.producer(), "Shape") for part in self.open())

    def open(self) -> list[ShapePart]:
        """Return the parts that are not constant."""
        return [part for part in self.parts if part.constant is None]

    def numbers(self) -> list[int]:
        """Return the numbers that are known, in order."""
        return [int(n) for part in self.parts if part.constant is not None for n in part.constant]

    def by_own_sizes(self, node: ir.Node, typing: Typing) -> list[int] | None:
        """Return the numbers, with 0 for each dimension that the operand of a Reshape has there.

        None where it does not have one of them.
        """
        given, sizes = operand(node, 0), list[int]()
        for part in self.parts:
            if part.constant is None and not _are_sizes(part, given, typing):
                return None
            known = part.constant if part.constant is not None else [0] * len(part.axes)
            sizes += map(int, known)
        no_size = node.attributes.get_int("allowzero", 0) and 0 in self.numbers()
        return None if no_size else sizes

    def others(self, part: ShapePart) -> list[int]:
        """Return the axes that a part does not name."""
        return [axis for axis in range(self.rank) if axis not in part.axes]

    def viewed(self, part: ShapePart, ops: Operators) -> ir.Value:
        """Record the shape that has 1 for all but the dimensions of a part."""
        held = part.vector
        if held is None:
            held = made_of(part.value, ops)
        return ops.shape(ops.unsqueeze(held, self.others(part)), 0)

    def fixed(self, known: Mapping[int, int]) -> list[int]:
        """Return the shape that has 1 for all but the axes whose numbers are given."""
        return [known.get(axis, 1) for axis in range(self.rank)]

    def known(self) -> dict[int, int]:
        """Return the numbers that are known, by their axes."""
        axes = (axis for part in self.parts if part.constant is not None for axis in part.axes)
        return dict(zip(axes, self.numbers(), strict=True))
