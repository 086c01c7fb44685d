"""Places of a carried tensor that an iteration reads, by which of the others wrote there.

``y[i] = a * y[i - 1]`` reads what the iteration before wrote, which is a carried value of its
own: ``p = y[i - 1]``. ``y[i - 3]`` is a delay by three iterations, and so is ``y[i % 3]`` where
``y[i % 3]`` is written; ``y[i + 1]`` is what stood there at first. The tensor is then written
with what depends on those values, and not on itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import ASK_SHAPE, Joined, Pattern, Term
from passes.carried.rings import Ring, ring_of
from passes.carried.wrapped import Wrapped
from passes.carried.writes import is_distinct
from passes.decisions import Code
from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import made_by, operand, skip_identities
from passes.reading.facts import LoopFacts
from passes.reading.integers import TRIP, Linear, is_nonnegative
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError
from passes.reading.written_numbers import is_writable, write_number
from passes.typing.value_types import Typing, ValueType

__all__ = ["Begun", "Delay", "Reread", "Unwritten", "find_rereads"]

_END = int(np.iinfo(np.int64).max)


@dataclasses.dataclass(frozen=True)
class Reread:
    """A place that an iteration reads.

    Attributes:
        tensor: The carried tensor.
        place: The place, along its first axis.
        written: The place that the iteration writes.
        carried: What is read, as a carried value; what is written there comes next.
        delay: How many iterations ago the place was written; 0 or less where it is not yet.
        ring: What places are taken modulo of; None where they are not.
    """

    tensor: Carried
    place: Linear
    written: Linear
    carried: Carried
    delay: Linear
    ring: Linear | None = None

    @property
    def is_unwritten(self) -> bool:
        """Whether no iteration before has written there."""
        return self.delay.number is not None and self.delay.number <= 0

    @property
    def is_next(self) -> bool:
        """Whether the iteration before wrote there."""
        return self.delay.number == 1


def find_rereads(carried: Carried, facts: LoopFacts, typing: Typing) -> list[Reread]:
    """Return the places that an iteration reads of a tensor of which it writes one row.

    Args:
        carried: The carried tensor.
        facts: The Loop or Scan.
        typing: The proven typing; it gains what each begins with.
    """
    body, evaluator = facts.iteration.body, facts.evaluator
    dims, known = typing.dims(carried.initial), typing[carried.initial].type
    scatter = made_by(carried.next, "ScatterND", body=body)
    if scatter is None or not dims or not isinstance(known, ir.TensorType):
        return []
    if scatter.attributes.get_string("reduction", "none") != "none":
        return []
    if skip_identities(operand(scatter, 0)) is not carried.inner:
        return []
    indices = operand(scatter, 1)
    own = evaluator.dims(indices)
    written = _place(indices, facts)
    if written is None or not own or own[-1] != 1 or not _is_counted(written.number):
        return []
    row = _row(operand(scatter, 2), body, typing, dims[1:])
    found = []
    for node in body:
        if not is_operator(node, "Gather"):
            continue
        if skip_identities(operand(node, 0)) is not carried.inner or _is_shape(node):
            continue
        place = _place(operand(node, 1), facts)
        delay = None if place is None else _delay(written, place)
        if node.attributes.get_int("axis", 0) or evaluator.rank(operand(node, 1)) != 0:
            return []
        if place is None or delay is None:
            return []
        value = node.outputs[0]
        initial = ir.Value(name=f"{value.name}.first")
        typing.set(initial, ValueType(known, dims[1:]))
        state = Carried(value, initial, row, ir.Value(name=f"{value.name}.last"))
        found.append(Reread(carried, place.number, written.number, state, delay, written.size))
    return found


def _is_shape(node: ir.Node) -> bool:
    """Whether nothing but the shape is read of what a node yields."""
    return all(is_operator(use.node, ASK_SHAPE) for use in node.outputs[0].uses())


def _place(value: ir.Value, facts: LoopFacts) -> Ring | None:
    """Return a place that is counted, or that a counter is modulo something."""
    number = facts.evaluator.number(value)
    return ring_of(value, facts) if number is None else Ring(number, None)


def _delay(written: Ring, read: Ring) -> Linear | None:
    """Return how many iterations ago a place was written, None where that is not known."""
    gap, step = (written.number - read.number).number, written.number.coefficient(TRIP)
    if gap is None or written.size != read.size:
        return None
    if not step:  # all iterations write to one place
        places = [one.number.number for one in (written, read)]
        is_known = not gap or all(place is not None and place >= 0 for place in places)
        return Linear(int(not gap)) if is_known else None
    if written.size is None:
        return None if gap % step else Linear(gap // step)
    size = written.size.number
    if step != 1 or (gap and size is None):
        return None
    return Linear(gap % size) if size is not None and gap % size else written.size


def _is_counted(place: Linear) -> bool:
    """Whether a place is known at first, and from there on."""
    return is_writable(place.replace({TRIP: Linear(0)}))


def _row(
    updates: ir.Value, body: ir.Graph, typing: Typing, dims: Sequence[int | str | None]
) -> ir.Value:
    """Return the row that is written, before it is given the shape that it has."""
    value = skip_identities(updates)
    found = value
    while (node := made_by(value, "Expand", "Reshape", "Unsqueeze", body=body)) is not None:
        value = skip_identities(operand(node, 0))
        own = typing.dims(value)
        is_row = own is not None and len(own) == len(dims)
        if is_row and all(
            a == b and typing.is_same_number(a) for a, b in zip(own or (), dims, strict=True)
        ):
            found = value
    return found


def _first(builder: Builder, tensor: ir.Value, place: Linear) -> ir.Value:
    """Record the row of a tensor at a place; zeros where it has none."""
    start = write_number(builder, place.replace({TRIP: Linear(0)}))
    behind = builder.op("Add", [start, builder.ints(1)])
    if not is_nonnegative(place):
        is_last = builder.op("Equal", [behind, builder.ints(0)])
        behind = builder.op("Where", [is_last, builder.ints(_END), behind])
    rows = builder.op("Slice", [tensor, start, behind, builder.ints(0)])
    rest = builder.op("Shape", [tensor])
    rest = builder.op("Slice", [rest, builder.ints(1), builder.ints(_END)])
    shape = builder.op("Concat", [builder.ints(1), rest], {"axis": 0})
    spare = builder.op("Expand", [builder.op("CastLike", [builder.scalar(0), tensor]), shape])
    rows = builder.op("Concat", [rows, spare], {"axis": 0})
    return builder.op("Gather", [rows, builder.scalar(0)], {"axis": 0})


def _numbers(joined: Joined, read: Reread, count: ir.Value) -> ir.Value:
    """Record the places that the first iterations read, so many, ``[1]``."""
    builder, place = joined.builder, read.place
    end = builder.op("Squeeze", [count, builder.ints(0)])
    numbers = builder.op("Range", [builder.scalar(0), end, builder.scalar(1)])
    steps = builder.op("Mul", [numbers, builder.scalar(place.coefficient(TRIP))])
    places = builder.op("Add", [steps, write_number(builder, place.replace({TRIP: Linear(0)}))])
    if read.ring is None:
        return places
    size = builder.op("Max", [write_number(builder, read.ring), builder.ints(1)])
    return builder.op("Mod", [places, size])


def _check(read: Reread, joined: Joined) -> None:
    """Check that no two iterations write to one place, unless all do or places begin anew.

    Raises:
        NotAMapError: They may.
    """
    is_counted = read.ring is None and bool(read.written.coefficient(TRIP))
    if is_counted and not is_distinct(read.written, 1, joined):
        detail = f"two iterations may write to one place of '{read.tensor.inner.name}'"
        raise NotAMapError(Code.RECURRENCE, detail, read.tensor.next.producer())


@dataclasses.dataclass(frozen=True)
class Unwritten(Pattern):
    """What stood at a place at first, which no iteration before has written.

    Attributes:
        carried: Where it stands.
        terms: None: no iteration computes any of it.
        read: The place.
    """

    carried: Carried
    read: Reread
    terms: tuple[Term, ...] = ()
    name = "place not yet written"
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Nothing reads it behind the last iteration."""
        raise NotImplementedError

    def can_collect(self, *, is_after: bool) -> bool:
        """What iterations read can be stacked."""
        return not is_after

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record what all iterations read.

        Raises:
            NotAMapError: A place may be one that an iteration before wrote, counted from the end.
        """
        _check(self.read, joined)
        last = Linear(0) if self.read.place.coefficient(TRIP) >= 0 else joined.trips.bound - 1
        if not is_nonnegative(self.read.place.replace({TRIP: last})):
            detail = f"it may read what it has written to '{self.read.tensor.inner.name}'"
            raise NotAMapError(Code.RECURRENCE, detail, self.read.tensor.next.producer())
        places = _numbers(joined, self.read, joined.trips.write(joined.builder))
        return joined.builder.op("Gather", [self.read.tensor.initial, places], {"axis": 0})


@dataclasses.dataclass(frozen=True)
class Delay(Pattern):
    """What an iteration wrote that was so many iterations ago; before that, what stood there.

    Attributes:
        carried: Where it stands.
        terms: What an iteration writes.
        read: The place.
    """

    carried: Carried
    terms: tuple[Term, ...]
    read: Reread
    name = "carried delay"
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Nothing reads it behind the last iteration."""
        raise NotImplementedError

    def can_collect(self, *, is_after: bool) -> bool:
        """What iterations read can be stacked."""
        return not is_after

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
        rest = builder.op(
            "Slice", [builder.op("Shape", [tensor]), builder.ints(1), builder.ints(_END)]
        )
        shape = builder.op("Concat", [joined.trips.write(builder), rest], {"axis": 0})
        rank, own = joined.typing.rank(tensor), joined.types[0].dims
        assert rank is not None
        assert own is not None
        rows, beside = joined.values[0], rank - 1 - len(own)
        if beside:
            rows = builder.op("Unsqueeze", [rows, builder.ints(*range(1, 1 + beside))])
        return builder.op("Expand", [rows, shape])


@dataclasses.dataclass(frozen=True)
class Begun(Wrapped):
    """What the iteration before wrote, which depends on what that one read.

    Attributes:
        carried: Where it stands.
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
