"""The places of tiles, numbered along all axes that their boxes lie along."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.pattern import Joined
from passes.graph.builder import Builder

__all__ = ["Plane", "Side", "places_of"]

_INT64 = int(ir.DataType.INT64)


@dataclasses.dataclass(frozen=True)
class Side:
    """One side of a box.

    Attributes:
        axis: The axis that it lies along.
        span: How long it is; cut at the end of the axis.
        start: The term of its first position.
        end: The term of the first one behind it.
    """

    axis: int
    span: int
    start: int
    end: int


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
        self.order = [*axes, *(axis for axis in range(rank) if axis not in axes)]
        turned = builder.op("Transpose", [tensor], {"perm": self.order})
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
        return builder.op("Transpose", [turned], {"perm": inverse})


def places_of(joined: Joined, sides: Sequence[Side], plane: Plane) -> tuple[ir.Value, ir.Value]:
    """Record the place of each position of each tile, and which of them lie in the tensor.

    Returns:
        Two vectors of one length: the numbers of places, and booleans.
    """
    builder = joined.builder
    place: ir.Value | None = None
    kept: ir.Value | None = None
    for at, (side, size) in enumerate(zip(sides, plane.sizes, strict=True)):
        own, inside = _positions(joined, side, size)
        beside = [1 + other for other in range(len(sides)) if other != at]
        if beside:
            own, inside = (
                builder.op("Unsqueeze", [v, builder.ints(*beside)]) for v in (own, inside)
            )
        if place is None or kept is None:
            place, kept = own, inside
        else:
            place = builder.op("Add", [builder.op("Mul", [place, size]), own])
            kept = builder.op("And", [kept, inside])
    assert place is not None
    assert kept is not None
    count = builder.op("Reshape", [builder.op("Size", [place]), builder.ints(1)])
    return builder.op("Reshape", [place, count]), builder.op("Reshape", [kept, count])


def _positions(joined: Joined, side: Side, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Record the positions of all tiles along an axis, ``[n, span]``, and which a Slice has."""
    builder = joined.builder
    start, end = (_bound(joined, at, size) for at in (side.start, side.end))
    none = builder.scalar(0)
    first = builder.op("Where", [builder.op("Less", [start, none]), none, start])
    numbers = builder.ints(*range(side.span))
    positions = builder.op("Add", [first, numbers])
    within = [builder.op("Less", [positions, limit]) for limit in (end, size)]
    return positions, builder.op("And", within)


def _bound(joined: Joined, at: int, size: ir.Value) -> ir.Value:
    """Record a bound of all tiles, ``[n, 1]``, counted from the start."""
    builder = joined.builder
    rows = builder.op("Cast", [joined.values[at]], {"to": _INT64})
    count = builder.op("Concat", [joined.trips.write(builder), builder.ints(1)], {"axis": 0})
    rows = builder.op("Reshape", [rows, count], {"allowzero": 1})
    below = builder.op("Less", [rows, builder.scalar(0)])
    return builder.op("Where", [below, builder.op("Add", [rows, size]), rows])
