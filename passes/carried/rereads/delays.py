"""Rows that iterations read of a tensor that they write to, as carried values of their own."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.common.wrapped import Wrapped
from passes.carried.joined import Joined
from passes.carried.pattern import ReadPattern
from passes.carried.rereads.rereads import Reread
from passes.carried.writes.writes import is_distinct
from passes.decisions import Code
from passes.graph.builder import END, Builder
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.written_numbers import write_number
from passes.reading.not_a_map import NotAMapError

__all__ = ["Delay", "Onward", "Unwritten"]


def _first(builder: Builder, tensor: ir.Value, place: Linear) -> ir.Value:
    """Record the row of a tensor at a place; zeros where it has none."""
    start = write_number(builder, place.replace({ITERATION: Linear(0)}))
    behind = builder.op("Add", [start, builder.ints(1)])
    if not is_nonnegative(place):
        is_last = builder.op("Equal", [behind, builder.ints(0)])
        behind = builder.op("Where", [is_last, builder.ints(END), behind])
    rows = builder.op("Slice", [tensor, start, behind, builder.ints(0)])
    shape = builder.op("Concat", [builder.ints(1), builder.shape(tensor, 1)], {"axis": 0})
    spare = builder.op("Expand", [builder.op("CastLike", [builder.scalar(0), tensor]), shape])
    rows = builder.op("Concat", [rows, spare], {"axis": 0})
    return builder.op("Gather", [rows, builder.scalar(0)], {"axis": 0})


def _numbers(joined: Joined, read: Reread, count: ir.Value) -> ir.Value:
    """Record the places that the first iterations read, so many, ``[1]``."""
    builder, place = joined.builder, read.place
    end = builder.op("Squeeze", [count, builder.ints(0)])
    numbers = builder.arange(end)
    steps = builder.op("Mul", [numbers, builder.scalar(place.coefficient(ITERATION))])
    first = write_number(builder, place.replace({ITERATION: Linear(0)}))
    places = builder.op("Add", [steps, first])
    if read.ring is None:
        return places
    size = builder.op("Max", [write_number(builder, read.ring), builder.ints(1)])
    return builder.op("Mod", [places, size])


def _check(read: Reread, joined: Joined) -> None:
    """Check that no two iterations write to one place, unless all do or places begin anew.

    Raises:
        NotAMapError: They may.
    """
    is_counted = read.ring is None and bool(read.written.coefficient(ITERATION))
    if is_counted and not is_distinct(read.written, 1, joined.trips.bound):
        detail = f"two iterations may write to one place of '{read.tensor.inner.name}'"
        raise NotAMapError(Code.RECURRENCE, detail, read.tensor.next.producer())


@dataclasses.dataclass(frozen=True)
class Unwritten(ReadPattern):
    """What stood at a place at first, which no iteration before has written.

    Attributes:
        terms: None: no iteration computes any of it.
        read: The place.
    """

    read: Reread
    name = "place not yet written"
    needs_sizes = False

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record what all iterations read.

        Raises:
            NotAMapError: A place may be one that an iteration before wrote, counted from the end.
        """
        _check(self.read, joined)
        last = Linear(0) if self.read.place.coefficient(ITERATION) >= 0 else joined.trips.bound - 1
        if not is_nonnegative(self.read.place.replace({ITERATION: last})):
            detail = f"it may read what it has written to '{self.read.tensor.inner.name}'"
            raise NotAMapError(Code.RECURRENCE, detail, self.read.tensor.next.producer())
        places = _numbers(joined, self.read, joined.trips.write(joined.builder))
        return joined.builder.op("Gather", [self.read.tensor.initial, places], {"axis": 0})


@dataclasses.dataclass(frozen=True)
class Delay(ReadPattern):
    """What an iteration wrote that was so many iterations ago; before that, what stood there.

    Attributes:
        terms: What an iteration writes.
        read: The place.
    """

    read: Reread
    name = "carried delay"
    needs_sizes = False

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record what all iterations read.

        Raises:
            NotAMapError: Two may write to one place, or a row may have another shape.
        """
        _check(self.read, joined)
        joined.needs_shape(0, self.carried, always=True)
        builder, count = joined.builder, joined.trips.write(joined.builder)
        tensor = self.read.tensor.initial
        few = builder.op("Min", [count, write_number(builder, self.read.delay)])
        places = _numbers(joined, self.read, few)
        first = builder.op("Gather", [tensor, places], {"axis": 0})
        rows = self.rows(joined)
        left = builder.op("Sub", [count, few])
        behind = builder.op("Slice", [rows, builder.ints(0), left, builder.ints(0)])
        return builder.op("Concat", [first, behind], {"axis": 0})

    def rows(self, joined: Joined) -> ir.Value:
        """Record the rows that are written, ``[n, ..]``."""
        builder, tensor = joined.builder, self.read.tensor.initial
        rest = builder.shape(tensor, 1)
        shape = builder.op("Concat", [joined.trips.write(builder), rest], {"axis": 0})
        rank, own = joined.rank(tensor), joined.types[0].dims
        assert own is not None
        rows, beside = joined.values[0], rank - 1 - len(own)
        if beside:
            rows = builder.op("Unsqueeze", [rows, builder.ints(*range(1, 1 + beside))])
        return builder.op("Expand", [rows, shape])


@dataclasses.dataclass(frozen=True)
class Onward(Wrapped):
    """What the iteration before wrote, which depends on what that one read.

    Attributes:
        form: What it is in all iterations.
        read: The place.
    """

    read: Reread

    def write(self, joined: Joined) -> ir.Value:
        """Nothing reads it behind the last iteration."""
        raise NotImplementedError

    def can_collect(self, *, is_after: bool) -> bool:
        """What iterations read can be stacked."""
        return not is_after and self.form.can_collect(is_after=False)

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record what all iterations read."""
        _check(self.read, joined)
        first = _first(joined.builder, self.read.tensor.initial, self.read.place)
        return self.begun(joined, first).write_all(joined, is_after=False)
