"""Tiles that are pasted onto a carried tensor, or added to it: ``s[:, y:y+4, x:x+4] += t``.

The places of all tiles are numbered: ``[y, x]`` of ``[6, 5]`` is row ``5 * y + x`` of 30. What is
added goes to its row at once. Of what is pasted each row keeps the tile of the last iteration,
which one scatter of the numbers of the iterations tells.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.pattern import Pattern
from passes.carried.places.joined_places import Places
from passes.carried.places.last_ones import OLDEST_SCATTER, last_ones
from passes.carried.ranges.tile_places import (
    Plane,
    Side,
    coordinates_of,
    places_of,
    turned_by,
    turned_to_front,
)
from passes.carried.writes.writes import is_distinct
from passes.decisions import Code
from passes.numbers.integers import Linear
from passes.reading.not_a_map import NotAMapError

__all__ = ["TileWrite"]

_OLDEST_SUM = 16

_FEW = 32
"""How many places of one tile are sorted faster than a Loop writes them: measured."""


@dataclasses.dataclass(frozen=True)
class TileWrite(Pattern):
    """A carried tensor; each iteration writes one box along two axes or more.

    Attributes:
        terms: The tile, and the bounds of each side.
        sides: The sides of the box, by axes.
        rank: The rank of the tensor.
        reduction: How a tile is joined to what is there.
        rounds: Whether the order of the tiles changes the result.
        index: Where a side begins that grows by its length or more with each iteration, and its
            length; None if there is none.
        is_whole: Whether a tile fits into no box that an edge cuts, which is an error.
    """

    sides: tuple[Side, ...]
    rank: int
    reduction: str
    rounds: bool = False
    index: tuple[Linear, int] | None = None
    is_whole: bool = False
    name = "carried write of tiles"
    keeps_shape = "as it is made"
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Record the tensor with all tiles.

        Raises:
            NotAMapError: The model's opset has no scatter that joins the tiles.
        """
        is_apart = self.index is not None and is_distinct(*self.index, joined.trips.bound)
        oldest = _OLDEST_SUM if self.reduction in ("add", "mul") else OLDEST_SCATTER
        if joined.opset < oldest and not is_apart and not self._is_sorted(joined):
            detail = f"tiles may overlap, and are joined from opset {oldest} on"
            raise NotAMapError(Code.OPSET, detail, self.carried.next.producer())
        builder = joined.builder
        if is_apart:
            return self._apart(joined)
        plane = Plane(builder, self.carried.initial, self.rank, [one.axis for one in self.sides])
        places, kept = places_of(joined, self.sides, plane, is_within=self.is_whole)
        rows = self._rows(joined, plane.order, plane.rest)
        if kept is not None:
            rows = builder.op("Compress", [rows, kept], {"axis": 0})
            places = builder.op("Compress", [places, kept], {"axis": 0})
        column = builder.op("Unsqueeze", [places, builder.ints(1)])
        if self.reduction == "none":
            size = plane.size if joined.opset >= OLDEST_SCATTER else None
            last = last_ones(builder, places, size)
            chosen = [builder.op("Gather", [v, last], {"axis": 0}) for v in (column, rows)]
            return plane.back(builder.op("ScatterND", [plane.rows, *chosen]))
        rank = 1 + self.rank - len(self.sides)
        at = Places.of(builder, plane.rows, rank, column, 1, is_list=True)
        dtype = joined.typing.dtype(self.carried.initial)
        return plane.back(at.join(plane.rows, rows, self.reduction, dtype))

    def _apart(self, joined: Joined) -> ir.Value:
        """Record one scatter of tiles that do not overlap.

        The places keep a column for each axis: a Loop around this one reads from them which
        places each of its iterations has for its own.
        """
        builder, axes = joined.builder, [one.axis for one in self.sides]
        order = turned_to_front(axes, self.rank)
        tensor = turned_by(builder, self.carried.initial, order)
        rest = [builder.shape(tensor, len(axes))] * (self.rank > len(axes))
        places, kept = coordinates_of(joined, self.sides, tensor, is_within=self.is_whole)
        written = [places, self._rows(joined, order, rest)]
        if kept is not None:
            written = [builder.op("Compress", [v, kept], {"axis": 0}) for v in written]
        inverse = [order.index(axis) for axis in range(self.rank)]
        return turned_by(builder, builder.op("ScatterND", [tensor, *written]), inverse)

    def _is_sorted(self, joined: Joined) -> bool:
        """Whether places are sorted where no scatter can join them: that pays for few of them."""
        size = math.prod(one.span for one in self.sides)
        return self.reduction == "none" and (size <= _FEW or not joined.branches)

    def _rows(self, joined: Joined, order: Sequence[int], rest: Sequence[ir.Value]) -> ir.Value:
        """Record what goes to each place of each tile, ``[n * places, *rest]``."""
        builder, value, dims = joined.builder, joined.values[0], joined.types[0].dims
        if dims is None or len(dims) > self.rank:
            detail = f"nothing tells the rank of what is written to '{self.carried.inner.name}'"
            raise NotAMapError(Code.UNKNOWN_RANK, detail, self.carried.next.producer())
        if len(dims) < self.rank:
            axes = range(1, 1 + self.rank - len(dims))
            value = builder.op("Unsqueeze", [value, builder.ints(*axes)])
        value = turned_by(builder, value, [0, *(1 + axis for axis in order)])
        spans = [one.span for one in self.sides]
        tail = self._full_rows(joined, order, spans)
        if tail is not None:
            return builder.op("Reshape", [value, builder.ints(-1, *tail)])
        count = joined.trips.write(builder)
        wide = [count, builder.ints(*spans), *rest]
        value = builder.op("Expand", [value, builder.op("Concat", wide, {"axis": 0})])
        total = builder.op("Mul", [count, builder.ints(int(np.prod(spans)))])
        shape = builder.op("Concat", [total, *rest], {"axis": 0}) if rest else total
        return builder.op("Reshape", [value, shape], {"allowzero": 1})

    def _full_rows(
        self, joined: Joined, order: Sequence[int], spans: Sequence[int]
    ) -> list[int] | None:
        """Return the dimensions of a row, if each tile fills its box by proof."""
        dims, whole = joined.types[0].dims, joined.typing.dims(self.carried.initial)
        if dims is None or whole is None or len(dims) < self.rank:
            return None
        turned = [dims[axis] for axis in order]
        tail = [d for d in turned[len(spans) :] if isinstance(d, int) and d > 0]
        full = [*spans, *(whole[axis] for axis in order[len(spans) :])]
        return tail if turned == full == [*spans, *tail] else None
