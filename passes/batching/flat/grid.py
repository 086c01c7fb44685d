"""The sizes of flat samples: which rows of a tensor each sample has.

Sizes ``[[2, 3], [1, 4]]``: six rows and four, which begin at rows ``[0, 6]``. Place ``(1, 2)`` of
the first image is row ``1 * 3 + 2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeAlias

import onnx_ir as ir

from passes.batching.lengths import Lengths, multiplied
from passes.graph.builder import END, Builder
from passes.graph.drafts import Memo, recorded

__all__ = ["Grid", "Side"]

Side: TypeAlias = int | Lengths
"""A dimension: a number for all samples, or one for each."""


class Grid:
    """The sizes of samples along the axes whose places have a row each.

    Rows lie one behind the other, row-major in these axes. Packed rows are the case of one axis:
    `rows` are their lengths, and all that follows from those.

    Attributes:
        dims: Along each axis a number, the same for all samples, or int64 ``[B]``.
        is_shared: Whether all samples are the same rows; each reads its own places of them.
    """

    def __init__(
        self,
        builder: Builder,
        dims: Sequence[int | ir.Value],
        *,
        count: ir.Value | None = None,
        is_shared: bool = False,
        empty: ir.Value | None = None,
    ) -> None:
        """Describe the samples of flat values.

        Args:
            builder: Records what follows from the dimensions; it comes before all readers.
            dims: See `Grid`; at least one is not a number if the number of samples is not given.
            count: Number of samples, int64 ``[1]``.
            is_shared: See `Grid`.
            empty: Which samples are to read nothing though there are rows, bool ``[B]``.
        """
        self._dims = tuple(dims)
        self.is_shared = is_shared
        self._count = count
        self._empty = empty
        self._builder = builder
        self._columns: dict[int, ir.Value] = Memo()
        self._strides: dict[int, ir.Value] = Memo()
        self._lines: dict[int, ir.Value] = Memo()
        self._places: dict[tuple[int, int], ir.Value] = Memo()
        self._of_rows: dict[tuple[int, int], ir.Value] = Memo()
        self._lengths: dict[int, Lengths] = Memo()
        self._derived: dict[Hashable, Grid] = Memo()

    @classmethod
    def of_table(cls, builder: Builder, sizes: ir.Value, lead: Sequence[int], count: int) -> Grid:
        """Return the grid of samples by a table of their sizes.

        Args:
            builder: See `Grid`.
            sizes: int64 ``[B, count]``.
            lead: Dimensions of all samples before these.
            count: How many columns there are.
        """
        columns = [
            builder.op("Gather", [sizes, builder.scalar(i)], {"axis": 1}) for i in range(count)
        ]
        return cls(builder, [*lead, *columns])

    @classmethod
    def of_sides(cls, builder: Builder, sides: Sequence[Side], count: ir.Value) -> Grid:
        """Return the grid of samples by their dimensions: one object for the same lengths.

        Args:
            builder: See `Grid`.
            sides: The dimensions.
            count: Number of samples, int64 ``[1]``.
        """
        first = next((side for side in sides if isinstance(side, Lengths)), None)
        known: dict[Hashable, Grid] = {} if first is None else first.once(_grids)
        key = (builder, count, *sides)
        if key not in known:
            made = cls(builder, [d if isinstance(d, int) else d.value for d in sides], count=count)
            made._lengths.update({at: d for at, d in enumerate(sides) if isinstance(d, Lengths)})
            known[key] = made
        return known[key]

    @property
    def dims(self) -> tuple[int | ir.Value, ...]:
        """See `Grid`; lengths that a loop collects have another value once it is written."""
        return tuple(
            self._lengths[axis].value
            if isinstance(dim, ir.Value) and axis in self._lengths
            else dim
            for axis, dim in enumerate(self._dims)
        )

    def side(self, axis: int) -> Side:
        """Return the dimension along an axis."""
        dim = self.dims[axis]
        return dim if isinstance(dim, int) else self.lengths(axis)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self._dims)

    def equal(self, other: Grid) -> bool:
        """Whether other samples have the same dimensions, by proof."""
        return other is self or (other.dims == self.dims and other.is_shared == self.is_shared)

    def has_rows_of(self, other: Grid) -> bool:
        """Whether the rows are those of other samples, one for one; axes of size 1 may differ."""
        mine, others = ([dim for dim in grid.dims if dim != 1] for grid in (self, other))
        is_whole = not (self.is_shared or other.is_shared) and self._empty is None
        return is_whole and mine == others

    @recorded
    def count(self) -> ir.Value:
        """Number of samples, int64 ``[1]``."""
        if self._count is not None:
            return self._count
        return self._builder.op("Shape", [next(d for d in self.dims if isinstance(d, ir.Value))])

    def with_last(self, dim: int | ir.Value) -> Grid:
        """Return the grid of the same samples with one more axis, so far whole in each row."""
        dims = [*self.dims, dim]
        return Grid(self._builder, dims, count=self.count, is_shared=self.is_shared)

    def recorded_by(self, builder: Builder, others: Collection[Builder]) -> Grid:
        """Return the grid of the same samples, recorded by a builder if one of others recorded it.

        What follows from the dimensions is recorded when it is asked for, too late for a branch
        that has been taken over.
        """
        if not any(self._builder is other for other in others):
            return self
        return Grid(builder, self.dims, count=self.count, is_shared=self.is_shared)

    def derived(self, key: Hashable, make: Callable[[], Grid]) -> Grid:
        """Return the grid of what is read off these rows in one way; one object for one key."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def at_start(self, builder: Builder, unread: ir.Value) -> Grid:
        """Return the grid where some samples without rows have the first row for their base.

        Args:
            builder: Records the nodes.
            unread: Which samples: what they read is dropped, bool ``[B]``.
        """
        none = builder.scalar(0)
        dims = [
            builder.op("Where", [unread, none, dim]) if isinstance(dim, ir.Value) else dim
            for dim in self.dims
        ]
        made = Grid(builder, dims, count=self.count, is_shared=self.is_shared)
        vars(made)["base"] = builder.op("Where", [unread, none, self.base])
        return made

    def column(self, axis: int) -> ir.Value:
        """Return the dimension of each sample along an axis, int64 ``[B]``."""
        dim = self.dims[axis]
        if isinstance(dim, ir.Value):
            return dim
        if axis not in self._columns:
            number = self._builder.ints(dim)
            self._columns[axis] = self._builder.op("Expand", [number, self.count])
        return self._columns[axis]

    def extent(self, axis: int) -> ir.Value:
        """Return the dimension along an axis, int64 ``[1]`` if it is a number, else ``[B]``."""
        dim = self.dims[axis]
        return dim if isinstance(dim, ir.Value) else self._builder.ints(dim)

    def lengths(self, axis: int) -> Lengths:
        """Return the dimensions along an axis as lengths; one object for one axis."""
        if axis not in self._lengths:
            self._lengths[axis] = Lengths(self._builder, self.column(axis))
        return self._lengths[axis]

    @recorded
    def rows(self) -> Lengths:
        """How many rows each sample has."""
        number = math.prod(dim for dim in self.dims if isinstance(dim, int))
        ragged = [self.lengths(at) for at, dim in enumerate(self.dims) if not isinstance(dim, int)]
        if not ragged:
            every = self._builder.op("Expand", [self._builder.ints(number), self.count])
            return Lengths(self._builder, every)
        if self.rank == 1:
            return ragged[0]
        return multiplied(self._builder, ragged).times(number)

    @recorded
    def base(self) -> ir.Value:
        """The first row of each sample, int64 ``[B]``; no row at all for one without rows.

        A sample that is empty has no neighbour's rows either: reading one is an error.
        """
        builder = self._builder
        none = self._empty
        if none is None:
            none = builder.op("Equal", [self.rows.value, builder.scalar(0)])
        nowhere = builder.scalar(END // 4)
        if not self.is_shared:
            return builder.op("Where", [none, nowhere, self.rows.starts])
        return builder.op("Where", [none, nowhere, builder.scalar(0)])

    def stride(self, axis: int) -> ir.Value | None:
        """Return how many rows a step along an axis is, int64 ``[B]``; None for one row."""
        if axis + 1 == self.rank:
            return None
        behind = self.stride(axis + 1)
        if behind is None:
            return self.column(axis + 1)
        if axis not in self._strides:
            self._strides[axis] = self._builder.op("Mul", [self.column(axis + 1), behind])
        return self._strides[axis]

    def place(self, axis: int) -> ir.Value:
        """Return the place of each row along an axis of its sample, int64 ``[P]``."""
        return self.place_among(axis, axis)

    def place_among(self, first: int, last: int) -> ir.Value:
        """Return the place of each row among all places of some axes, int64 ``[P]``."""
        assert not self.is_shared
        if (first, last) not in self._places:
            left = self._line(last)
            if any(dim != 1 for dim in self.dims[:first]):
                size = self.size_of_rows(first, last)
                whole = self._builder.op("Mul", [self._line(first - 1), size])
                left = self._builder.op("Sub", [left, whole])
            self._places[first, last] = left
        return self._places[first, last]

    def _line(self, axis: int) -> ir.Value:
        """Return the place of each row among all places of the axes up to one, int64 ``[P]``."""
        last = next((at for at in range(axis, self.rank) if at in self._lines), self.rank - 1)
        line = self._lines.get(last)
        whole = self.rows.positions if line is None else line
        if all(dim == 1 for dim in self.dims[axis + 1 : last + 1]):
            return whole
        pair = [whole, self.size_of_rows(axis + 1, last)]
        self._lines[axis] = self._builder.op("Div", pair)
        return self._lines[axis]

    def size_of_rows(self, first: int, last: int) -> ir.Value:
        """Return how many places each row's sample has along some axes together.

        Returns:
            int64 ``[P]``, or ``[1]`` if it is a number.
        """
        key = first, last
        number = math.prod(dim for dim in self.dims[first : last + 1] if isinstance(dim, int))
        sides = [self.side(at) for at in range(first, last + 1)]
        lengths = [side for side in sides if isinstance(side, Lengths)]
        if not lengths:
            return self._builder.ints(number)
        if key not in self._of_rows:
            size = multiplied(self._builder, lengths).times(number).value
            self._of_rows[key] = self._builder.op("Gather", [size, self.rows.samples])
        return self._of_rows[key]

    def prepare(self) -> None:
        """Record all that reading samples may need."""
        _ = self.base, self.count
        for axis in range(self.rank):
            self.column(axis)
            self.stride(axis)


def _grids(_: Builder, __: Lengths) -> Memo[Hashable, Grid]:
    """Return where grids are kept that begin with some lengths."""
    return Memo()
