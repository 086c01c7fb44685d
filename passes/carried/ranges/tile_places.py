"""The places of tiles, numbered along all axes that their boxes lie along."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.joined import Joined
from passes.graph.builder import Builder

__all__ = ["Plane", "Side", "coordinates_of", "places_of", "turned_by", "turned_to_front"]

_INT64 = int(ir.DataType.INT64)


@dataclasses.dataclass(frozen=True)
class Side:
    """One side of a box.

    Attributes:
        axis: The axis that it lies along.
        span: How long it is; cut at the end of the axis.
        start: The term of its first position.
        end: The term of the first one behind it.
        is_counted: Whether all positions count from the start, and none is behind the end.
    """

    axis: int
    span: int
    start: int
    end: int
    is_counted: bool


class Plane:
    """A tensor as one row for each place along some axes.

    Attributes:
        order: The axes of the tensor, those in front.
        sizes: The dimensions of those axes, each ``[1]``.
        size: How many places there are, ``[1]``.
        rest: The dimensions of a row, if it has any.
        rows: The tensor, ``[size, *rest]``.
    """

    def __init__(self, builder: Builder, tensor: ir.Value, rank: int, axes: Sequence[int]) -> None:
        """Record the tensor in that form."""
        self._builder = builder
        self.order = turned_to_front(axes, rank)
        turned = turned_by(builder, tensor, self.order)
        self._shape = builder.op("Shape", [turned])
        count = len(axes)
        self.sizes = [
            builder.op("Slice", [self._shape, builder.ints(at), builder.ints(at + 1)])
            for at in range(count)
        ]
        self.rest = []
        if rank > count:
            bounds = [builder.ints(count), builder.ints(rank)]
            self.rest = [builder.op("Slice", [self._shape, *bounds])]
        self.size = self.sizes[0]
        for size in self.sizes[1:]:
            self.size = builder.op("Mul", [self.size, size])
        shape = builder.op("Concat", [self.size, *self.rest], {"axis": 0})
        self.rows = builder.op("Reshape", [turned, shape], {"allowzero": 1})

    def back(self, rows: ir.Value) -> ir.Value:
        """Record rows as a tensor again."""
        builder = self._builder
        turned = builder.op("Reshape", [rows, self._shape], {"allowzero": 1})
        inverse = [self.order.index(axis) for axis in range(len(self.order))]
        return turned_by(builder, turned, inverse)


def turned_to_front(axes: Sequence[int], rank: int) -> list[int]:
    """Return the axes of a tensor in an order that has some of them in front."""
    return [*axes, *(axis for axis in range(rank) if axis not in axes)]


def turned_by(builder: Builder, tensor: ir.Value, order: Sequence[int]) -> ir.Value:
    """Record a tensor with its axes in another order."""
    if list(order) == sorted(order):
        return tensor
    return builder.op("Transpose", [tensor], {"perm": list(order)})


def places_of(
    joined: Joined, sides: Sequence[Side], plane: Plane, *, is_within: bool
) -> tuple[ir.Value, ir.Value | None]:
    """Record the place of each position of each tile, and which of them lie in the tensor.

    Args:
        joined: Has the bounds of all tiles.
        sides: The sides.
        plane: The tensor.
        is_within: Whether a position that does not lie in it is an error.

    Returns:
        Two vectors of one length: the numbers of places, and booleans; None for these where all
        are to be taken.
    """
    builder = joined.builder
    (place, *others), inside = _grid(joined, sides, plane.sizes)
    for own, size in zip(others, plane.sizes[1:], strict=True):
        place = builder.op("Add", [builder.op("Mul", [place, size]), own])
    if is_within:
        place = builder.op("Where", [inside, place, plane.size])
    listed = builder.ints(-1)
    kept = None if is_within else builder.op("Reshape", [inside, listed])
    return builder.op("Reshape", [place, listed]), kept


def coordinates_of(
    joined: Joined, sides: Sequence[Side], tensor: ir.Value, *, is_within: bool
) -> tuple[ir.Value, ir.Value | None]:
    """Record where each position of each tile is, and which of them lie in the tensor.

    Args:
        joined: Has the bounds of all tiles.
        sides: The sides, along the first axes of the tensor.
        tensor: The tensor.
        is_within: Whether a position that does not lie in it is an error.

    Returns:
        Places, ``[m, sides]``, and booleans, ``[m]``; None where all are to be taken.
    """
    builder = joined.builder
    shape = builder.op("Shape", [tensor])
    sizes = [
        builder.op("Slice", [shape, builder.ints(at), builder.ints(at + 1)])
        for at in range(len(sides))
    ]
    grid, inside = _grid(joined, sides, sizes)
    if is_within and not all(side.is_counted for side in sides):
        grid[0] = builder.op("Where", [inside, grid[0], sizes[0]])
    places = builder.op("Concat", grid, {"axis": len(sides) + 1})
    places = builder.op("Reshape", [places, builder.ints(-1, len(sides))])
    return places, None if is_within else builder.op("Reshape", [inside, builder.ints(-1)])


def _grid(
    joined: Joined, sides: Sequence[Side], sizes: Sequence[ir.Value]
) -> tuple[list[ir.Value], ir.Value]:
    """Record the positions along each side, and which of all lie in the tensor.

    All are ``[n, *spans, 1]``, for ``n`` tiles.
    """
    builder = joined.builder
    spans = [side.span for side in sides]
    grid: list[ir.Value] = []
    flags: list[ir.Value] = []
    for at, (side, size) in enumerate(zip(sides, sizes, strict=True)):
        numbers = np.indices(spans)[at][..., np.newaxis]
        own, inside = _positions(joined, side, size, numbers)
        grid.append(own)
        flags.append(inside)
    return grid, functools.reduce(lambda a, b: builder.op("And", [a, b]), flags)


def _positions(
    joined: Joined, side: Side, size: ir.Value, numbers: np.ndarray
) -> tuple[ir.Value, ir.Value]:
    """Record the positions of all tiles along an axis, and which of them a Slice has."""
    builder, beside = joined.builder, numbers.ndim - 1
    grid, none = builder.constant(numbers.astype(np.int64)), builder.scalar(0)
    if side.is_counted:
        positions = builder.op("Add", [_listed(joined, side.start, beside), grid])
        return positions, builder.op("Less", [positions, size])
    start, end = (_bound(joined, at, size, beside) for at in (side.start, side.end))
    first = builder.op("Where", [builder.op("Less", [start, none]), none, start])
    positions = builder.op("Add", [first, grid])
    within = [builder.op("Less", [positions, limit]) for limit in (end, size)]
    return positions, builder.op("And", within)


def _bound(joined: Joined, at: int, size: ir.Value, beside: int) -> ir.Value:
    """Record a bound of all tiles, counted from the start, with so many axes of 1 behind it."""
    builder, rows = joined.builder, _listed(joined, at, beside)
    below = builder.op("Less", [rows, builder.scalar(0)])
    return builder.op("Where", [below, builder.op("Add", [rows, size]), rows])


def _listed(joined: Joined, at: int, beside: int) -> ir.Value:
    """Record a number of all tiles, ``[n, 1, ..]``, with so many axes of 1 behind the second."""
    builder, rows = joined.builder, joined.values[at]
    if joined.types[at].type != ir.TensorType(ir.DataType.INT64):
        rows = builder.op("Cast", [rows], {"to": _INT64})
    return builder.op("Reshape", [rows, builder.ints(-1, *[1] * (beside + 1))])
