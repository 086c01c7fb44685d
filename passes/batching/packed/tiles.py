"""Packed rows in tiles, each of the rows of one sample.

A tile has place for one row more than a sample has on average, rounded down. Lengths ``[1, 5, 0]``
have tiles of 3 rows: one, two and none. However the lengths differ there are at most twice as many
tiles as samples.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.lengths import Lengths
from passes.graph.builder import Builder
from passes.graph.drafts import recorded

__all__ = ["Tiles"]


class Tiles:
    """How packed rows lie in tiles; what follows is recorded when it is first asked for."""

    def __init__(self, builder: Builder, lengths: Lengths) -> None:
        """Describe the tiles of samples.

        Args:
            builder: Records what follows; it comes before all readers.
            lengths: How many rows each sample has.
        """
        self._builder = builder
        self._lengths = lengths

    @property
    def samples(self) -> ir.Value:
        """The sample that each tile belongs to, int64 ``[M]``."""
        return self._counts.samples

    @recorded
    def rows(self) -> ir.Value:
        """The row at each place of each tile, int64 ``[M, S]``.

        Behind the last row of a sample stand others.
        """
        first = self._op("Mul", self._range(self._counts.total), self._size)
        first = self._op("Add", self._op("Gather", self._shift, self.samples), first)
        at = self._op("Unsqueeze", first, self._builder.ints(1))
        at = self._op("Add", at, self._range(self._size))
        return self._op("Min", at, self._op("Sub", self._lengths.total, self._builder.ints(1)))

    @recorded
    def places(self) -> ir.Value:
        """The place of each row among those of all tiles, int64 ``[T]``."""
        shift = self._op("Gather", self._shift, self._lengths.samples)
        return self._op("Sub", self._range(self._lengths.total), shift)

    @recorded
    def _mean(self) -> ir.Value:
        """How many rows a sample has on average, rounded down, int64 ``[1]``."""
        count = self._op("Max", self._lengths.count, self._builder.ints(1))
        return self._op("Div", self._lengths.total, count)

    @recorded
    def _size(self) -> ir.Value:
        """How many places a tile has, int64 ``[1]``."""
        return self._op("Add", self._mean, self._builder.ints(1))

    @recorded
    def _counts(self) -> Lengths:
        """How many tiles each sample has."""
        rounded = self._op("Add", self._lengths.value, self._mean)
        return Lengths(self._builder, self._op("Div", rounded, self._size))

    @recorded
    def _shift(self) -> ir.Value:
        """By how much the rows of each sample lie behind their places, int64 ``[B]``."""
        places = self._op("Mul", self._counts.starts, self._size)
        return self._op("Sub", self._lengths.starts, places)

    def _range(self, count: ir.Value) -> ir.Value:
        """Count up to a number that is an int64 ``[1]``."""
        builder = self._builder
        end = self._op("Squeeze", count, builder.ints(0))
        return self._op("Range", builder.scalar(0), end, builder.scalar(1))

    def _op(self, op_type: str, *inputs: ir.Value) -> ir.Value:
        attributes = {"axis": 0} if op_type == "Gather" else None
        return self._builder.op(op_type, list(inputs), attributes)
