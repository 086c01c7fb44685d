"""The record of a flat value: its rows, and how its samples lie in them.

Images ``[2, 3]`` and ``[1, 4]`` are ten rows. Turned over, they read the rows
``[0, 3, 1, 4, 2, 5]`` and ``[6, 7, 8, 9]``, and no row moves.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.batching.flat.grid import Grid
from passes.batching.lengths import Lengths
from passes.graph.builder import Builder
from passes.numbers.integers import Linear

__all__ = ["AxisTable", "FlatSamples", "Sampler"]


@dataclasses.dataclass(frozen=True)
class AxisTable:
    """What the places of a result read along one axis.

    Attributes:
        count: How many places there are: int64 ``[1]`` if all samples have as many, else ``[B]``.
        is_fixed: Which of the two it is.
        index: The places that are read, int64 ``[B, O]``, or ``[B, O, K]``. ``O`` is the largest
            count; what is behind the count of a sample means nothing, but lies in it.
        weight: Their weights, float ``[B, O, K]``.
        valid: Whether a place reads anything, bool ``[B, O]``; None if all do.
        least: A number that no count is less than.
        size: The count of one sample as a sum, None if nothing is known of it.
        lengths: The counts as lengths, if such have been made of them.
    """

    count: ir.Value
    is_fixed: bool
    index: ir.Value
    weight: ir.Value | None = None
    valid: ir.Value | None = None
    least: int = 0
    size: Linear | None = None
    lengths: Lengths | None = None

    def of_samples(self, builder: Builder) -> Lengths:
        """Return the counts of each sample as lengths: one object if they are known as such.

        Args:
            builder: Records what follows from them.
        """
        known = self.lengths
        if known is not None and known.value is self.count and known.is_recorded_by(builder):
            return known
        return Lengths(builder, self.count, size=self.size)


@dataclasses.dataclass(frozen=True)
class Sampler:
    """How what several places hold becomes one value.

    Attributes:
        mode: ``linear``, ``cubic``, ``antialias``, or ``whole``: linear in whole numbers.
        axes: The axes in memory along which it sums, in the order that they have in a sample:
            those of rows and of columns, and ``halves``.
        halves: The one among them that stays as it is, and is summed all the same: at its last
            place two halves. onnxruntime takes two axes that are resized beside one that is not
            for three, and the place behind the last for the last.
        keeps_rows: Of ``whole``, which samples keep their rows, bool ``[B, 1]``. onnxruntime takes
            their channels for columns, and sums floats.
        copied: Along three axes, which samples keep their size, bool ``[B, 1]``. onnxruntime
            copies them, where the sum of halves may round.
    """

    mode: str
    axes: tuple[int, ...]
    halves: int | None = None
    keeps_rows: ir.Value | None = None
    copied: ir.Value | None = None


@dataclasses.dataclass(frozen=True)
class FlatSamples:
    """How samples are read off rows ``[P, *rest]``.

    The axes in memory are those of the grid, then those of ``rest``.

    Attributes:
        grid: How the rows belong to samples.
        order: For each axis of a sample the axis in memory that it is. A Transpose changes
            nothing else.
        tables: For each axis of the grid what the samples read along it; None where they are as
            the rows have them.
        sampler: What is made of the places that are read; None where each place reads one.
        fill: What a place has that reads nothing, a scalar; None for zero.
    """

    grid: Grid
    order: tuple[int, ...]
    tables: tuple[AxisTable | None, ...]
    sampler: Sampler | None = None
    fill: ir.Value | None = None

    @property
    def is_plain(self) -> bool:
        """Whether samples are as the rows have them, but for the order of their axes."""
        return all(table is None for table in self.tables)

    def is_ragged(self, axis: int) -> bool:
        """Whether samples may differ along one of their axes."""
        at = self.order[axis]
        if at >= self.grid.rank:
            return False
        table = self.tables[at]
        return isinstance(self.grid.dims[at], ir.Value) if table is None else not table.is_fixed

    def is_counted_once(self, at: int) -> bool:
        """Whether `size` along an axis of the grid is one number for all samples."""
        table = self.tables[at]
        return isinstance(self.grid.dims[at], int) if table is None else table.is_fixed

    @property
    def has_one_shape(self) -> bool:
        """Whether all samples have one shape."""
        return not any(map(self.is_ragged, range(len(self.order))))

    @property
    def known_dims(self) -> tuple[int | None, ...]:
        """The dimensions of a sample that are numbers of the grid, None for all others."""
        return tuple(map(self._number_along, self.order))

    def _number_along(self, at: int) -> int | None:
        """Return the number that all samples have along an axis in memory, if the grid has it."""
        if at >= self.grid.rank or self.tables[at] is not None:
            return None
        dim = self.grid.dims[at]
        return dim if isinstance(dim, int) else None

    @property
    def ragged_axis(self) -> int | None:
        """The axis along which samples differ if it is a single one: they are packed then."""
        ragged = [axis for axis in range(len(self.order)) if self.is_ragged(axis)]
        return ragged[0] if len(ragged) == 1 else None

    def size(self, at: int) -> ir.Value:
        """Return how many places samples have along an axis of the grid, see `AxisTable`."""
        table = self.tables[at]
        return self.grid.extent(at) if table is None else table.count

    def place_beside(self, axis: int) -> int | None:
        """Return where the rows have an axis of samples, None if it is one of the grid."""
        at = self.order[axis]
        return None if at < self.grid.rank else at - self.grid.rank + 1

    def dimension(self, axis: int) -> Linear | None:
        """Return the size of one sample along one of its axes, None if nothing is known of it."""
        at = self.order[axis]
        if at >= self.grid.rank:
            return None
        table, dim = self.tables[at], self.grid.dims[at]
        if table is not None:
            return table.size
        return Linear(dim) if isinstance(dim, int) else self.grid.lengths(at).size
