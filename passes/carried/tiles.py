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

from passes.carried.joined_places import join_at_places, join_extremes
from passes.carried.last_ones import last_ones
from passes.carried.pattern import FLOATS, Joined, Pattern, Term
from passes.carried.tile_places import Plane, Side, places_of
from passes.carried.writes import is_distinct
from passes.decisions import Code
from passes.graph.builder import Builder
from passes.reading.integers import Linear
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError

__all__ = ["TileWrite"]

_OLDEST_SUM, _OLDEST_LAST = 16, 18

_FEW = 32
"""How many places of one tile are sorted faster than a Loop writes them: measured."""


@dataclasses.dataclass(frozen=True)
class TileWrite(Pattern):
    """A carried tensor of which each iteration writes one box along two axes or more.

    Attributes:
        carried: Where it stands.
        terms: The tile, and the bounds of each side.
        sides: The sides of the box, by axes.
        rank: The rank of the tensor.
        reduction: How a tile is joined to what is there.
        rounds: Whether the order of the tiles changes the result.
        index: Where a side begins that grows by its length or more with each iteration, and its
            length; None if there is none.
    """

    carried: Carried
    terms: tuple[Term, ...]
    sides: tuple[Side, ...]
    rank: int
    reduction: str
    rounds: bool = False
    index: tuple[Linear, int] | None = None
    nodes: tuple[ir.Node, ...] = ()
    name = "carried write of tiles"
    needs_sizes = False

    def check_shape(self, joined: Joined) -> None:
        """What is written to keeps its shape."""

    def write(self, joined: Joined) -> ir.Value:
        """Record the tensor with all tiles.

        Raises:
            NotAMapError: The model's opset has no scatter that joins the tiles.
        """
        is_apart = self.index is not None and is_distinct(*self.index, joined)
        oldest = _OLDEST_SUM if self.reduction in ("add", "mul") else _OLDEST_LAST
        if joined.opset < oldest and not is_apart and not self._is_sorted(joined):
            detail = f"tiles may overlap, and are joined from opset {oldest} on"
            raise NotAMapError(Code.OPSET, detail, self.carried.next.producer())
        builder = joined.builder
        plane = Plane(builder, self.carried.initial, self.rank, [one.axis for one in self.sides])
        places, kept = places_of(joined, self.sides, plane)
        rows = builder.op("Compress", [self._rows(joined, plane), kept], {"axis": 0})
        places = builder.op("Compress", [places, kept], {"axis": 0})
        if is_apart:
            column = builder.op("Unsqueeze", [places, builder.ints(1)])
            return plane.back(builder.op("ScatterND", [plane.rows, column, rows]))
        if self.reduction == "none" and joined.opset < _OLDEST_LAST:
            last = last_ones(builder, places)
            places, rows = (builder.op("Gather", [v, last], {"axis": 0}) for v in (places, rows))
            column = builder.op("Unsqueeze", [places, builder.ints(1)])
            return plane.back(builder.op("ScatterND", [plane.rows, column, rows]))
        if self.reduction == "none":
            numbers = builder.op("Compress", [self._numbers(joined), kept], {"axis": 0})
            return plane.back(_last(builder, plane, places, numbers, rows))
        is_extreme = self.reduction in ("max", "min")
        dtype = joined.typing.dtype(self.carried.initial)
        join = join_extremes if is_extreme and dtype in FLOATS else join_at_places
        column = builder.op("Unsqueeze", [places, builder.ints(1)])
        rank = 1 + self.rank - len(self.sides)
        return plane.back(join(builder, plane.rows, rank, column, 1, rows, self.reduction))

    def _is_sorted(self, joined: Joined) -> bool:
        """Whether places are sorted where no scatter can join them: that pays for few of them."""
        size = math.prod(one.span for one in self.sides)
        return self.reduction == "none" and (size <= _FEW or not joined.branches)

    def _rows(self, joined: Joined, plane: Plane) -> ir.Value:
        """Record what goes to each place of each tile, ``[n * places, *rest]``."""
        builder, value, dims = joined.builder, joined.values[0], joined.types[0].dims
        if dims is None or len(dims) > self.rank:
            detail = f"nothing tells the rank of what is written to '{self.carried.inner.name}'"
            raise NotAMapError(Code.UNKNOWN_RANK, detail, self.carried.next.producer())
        if len(dims) < self.rank:
            axes = range(1, 1 + self.rank - len(dims))
            value = builder.op("Unsqueeze", [value, builder.ints(*axes)])
        order = [0, *(1 + axis for axis in plane.order)]
        value = builder.op("Transpose", [value], {"perm": order})
        count = joined.trips.write(builder)
        spans = [one.span for one in self.sides]
        wide = [count, builder.ints(*spans), *plane.rest]
        value = builder.op("Expand", [value, builder.op("Concat", wide, {"axis": 0})])
        total = builder.op("Mul", [count, builder.ints(int(np.prod(spans)))])
        shape = builder.op("Concat", [total, *plane.rest], {"axis": 0}) if plane.rest else total
        return builder.op("Reshape", [value, shape], {"allowzero": 1})

    def _numbers(self, joined: Joined) -> ir.Value:
        """Record the number of the iteration of each place of each tile."""
        builder, size = joined.builder, int(np.prod([one.span for one in self.sides]))
        count = joined.trips.write(builder)
        end = builder.op("Squeeze", [count, builder.ints(0)])
        numbers = builder.op("Range", [builder.scalar(0), end, builder.scalar(1)])
        column = builder.op("Unsqueeze", [numbers, builder.ints(1)])
        wide = builder.op("Concat", [count, builder.ints(size)], {"axis": 0})
        total = builder.op("Mul", [count, builder.ints(size)])
        return builder.op("Reshape", [builder.op("Expand", [column, wide]), total])


def _last(
    builder: Builder, plane: Plane, places: ir.Value, numbers: ir.Value, rows: ir.Value
) -> ir.Value:
    """Record the rows of a plane after those that the last iteration wrote to each place."""
    none = builder.op("Expand", [builder.scalar(-1), plane.size])
    attributes = {"axis": 0, "reduction": "max"}
    owner = builder.op("ScatterElements", [none, places, numbers], attributes)
    is_last = builder.op("Equal", [builder.op("Gather", [owner, places], {"axis": 0}), numbers])
    inputs: Sequence[ir.Value] = [
        builder.op("Compress", [v, is_last], {"axis": 0}) for v in (places, rows)
    ]
    column = builder.op("Unsqueeze", [inputs[0], builder.ints(1)])
    return builder.op("ScatterND", [plane.rows, column, inputs[1]])
