"""Places that begin anew: ``s[i % n] = r_i``, and counters modulo a number.

Before iteration ``i`` place ``p`` holds what the last iteration up to ``i - 1`` wrote whose number
is ``p`` modulo ``n``; if there is none, what stood there at first.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.common.selections import find_selection
from passes.carried.joined import Joined
from passes.carried.pattern import NumberedPattern
from passes.carried.writes.last_places import LastWrite, find_last_write
from passes.graph.builder import END
from passes.graph.made import either_order, made_by, operand, skip_identities, through
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.written_numbers import is_writable, write_number
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["Cycle", "Ring", "RingWrite", "find_cycle", "find_ring", "ring_of"]


@dataclasses.dataclass(frozen=True)
class Ring:
    """A number that grows with the iterations, modulo another.

    Attributes:
        number: The number.
        size: What it is taken modulo of; None where it is not.
    """

    number: Linear
    size: Linear | None


def ring_of(value: ir.Value, facts: LoopFacts) -> Ring | None:
    """Return what a place is modulo a number that is the same in all iterations."""
    root = through(value, ["Unsqueeze", "Squeeze"])
    state = next((one for one in facts.iteration.states if one.inner is root), None)
    if state is not None:
        return _cycle_of(state, facts)
    node = made_by(root, "Mod")
    if node is None or node.attributes.get_int("fmod") == 1:
        return None
    number, size = (facts.evaluator.number(operand(node, at)) for at in (0, 1))
    if number is None or size is None or not is_writable(size):
        return None
    if not is_nonnegative(size) or size.number == 0:
        return None  # modulo a negative number places are counted from the end
    is_counted = is_writable(number.replace({ITERATION: Linear(0)}))
    return Ring(number, size) if is_counted and number.coefficient(ITERATION) else None


def _cycle_of(carried: Carried, facts: LoopFacts) -> Ring | None:
    """Return what a counter is that begins anew where it reaches a constant."""
    turned = _turned(carried, facts)
    if turned is not None:
        return turned
    node = made_by(carried.next, "Mod")
    first = facts.evaluator.integer(carried.initial)
    if node is None or node.attributes.get_int("fmod") == 1 or first is None:
        return None
    size = facts.evaluator.integer(node.inputs[1])
    step = _step(operand(node, 0), carried, facts)
    if size is None or step is None or not 0 <= first < size:
        return None
    return Ring(Linear.of(ITERATION) * step + first, Linear(size))


def _turned(carried: Carried, facts: LoopFacts) -> Ring | None:
    """Return what a counter is that an If or a Where sets back to 0.

    Either ``k += 1; if k == n: k = 0``, or ``k = k + 1 if k < n - 1 else 0``.
    """
    selection = find_selection(carried.next, facts.iteration.body)
    first = facts.evaluator.integer(carried.initial)
    if selection is None or first is None:
        return None
    sides = [selection.chosen, selection.other]
    grown = [value for value in sides if _step(value, carried, facts) == 1]
    begun = [value for value in sides if facts.evaluator.integer(value) == 0]
    if len(grown) != 1 or len(begun) != 1:
        return None
    asked = _LESS if sides[0] is grown[0] else _NOT_LESS
    asks = made_by(selection.condition, *asked)
    limit = None if asks is None else facts.evaluator.integer(asks.inputs[1])
    if asks is None or limit is None:
        return None
    value = skip_identities(operand(asks, 0))
    if value is not carried.inner and _step(value, carried, facts) != 1:
        return None
    size = limit + asked[asks.op_type] + (value is carried.inner)
    return Ring(Linear.of(ITERATION) + first, Linear(size)) if 0 <= first < size else None


_LESS = {"Less": 0, "LessOrEqual": 1}
_NOT_LESS = {"Equal": 0, "GreaterOrEqual": 0, "Greater": 1}
"""What asks whether a counter is below a size, or is not, by what its limit differs from that."""


def _step(value: ir.Value, carried: Carried, facts: LoopFacts) -> int | None:
    """Return by how much a counter grows, if it is a constant."""
    for one, other in either_order(made_by(value, "Add")):
        if skip_identities(one) is carried.inner:
            return facts.evaluator.integer(other)
    less = made_by(value, "Sub")
    if less is None or skip_identities(operand(less, 0)) is not carried.inner:
        return None
    step = facts.evaluator.integer(operand(less, 1))
    return None if step is None else -step


@dataclasses.dataclass(frozen=True)
class Cycle(NumberedPattern):
    """A counter modulo a constant.

    Attributes:
        ring: What it is.
        terms: None: no iteration computes any of it.
    """

    ring: Ring
    name = "counter that begins anew"
    keeps_shape = "as it is made"
    needs_sizes = False

    def at(self, joined: Joined, numbers: ir.Value) -> ir.Value:
        """Record its numbers at the start of some iterations."""
        builder, (number, size) = joined.builder, (self.ring.number, self.ring.size)
        assert size is not None
        grown = builder.op("Mul", [numbers, builder.scalar(number.coefficient(ITERATION))])
        grown = builder.op("Add", [grown, builder.scalar(number.constant)])
        return builder.op("Mod", [grown, builder.scalar(size.constant)])


def find_cycle(carried: Carried, facts: LoopFacts, typing: Typing) -> Cycle | None:
    """Return the counter modulo a constant that a carried number is, None if it is none."""
    is_number = typing.dims(carried.initial) == ()
    if not is_number or typing.dtype(carried.initial) != ir.DataType.INT64:
        return None
    ring = _cycle_of(carried, facts)
    return None if ring is None else Cycle(carried, (), ring)


@dataclasses.dataclass(frozen=True)
class RingWrite(LastWrite):
    """A carried tensor; each iteration writes the next row, and the first one after the last.

    Attributes:
        ring: The place of an iteration.
    """

    ring: Ring = dataclasses.field(default_factory=lambda: Ring(Linear(), None))

    def can_collect(self, *, is_after: bool) -> bool:
        """Each iteration has rows of the initial tensor and of iterations before."""
        return True

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the tensors of all iterations, ``[n, places, *rest]``."""
        builder, (_, rows) = joined.builder, joined.values
        initial, ring = self.carried.initial, self.ring
        assert ring.size is not None
        zero, one = builder.scalar(0), builder.scalar(1)
        shape = builder.op("Shape", [initial])
        places = builder.op("Slice", [shape, builder.ints(0), builder.ints(1)])
        rest = builder.op("Slice", [shape, builder.ints(1), builder.ints(END)])
        trips = joined.trips.write(builder)
        listed = builder.op("Concat", [trips, rest], {"axis": 0})
        rows = builder.op("Reshape", [rows, listed], {"allowzero": 1})
        whole = builder.op("Concat", [initial, rows], {"axis": 0})
        count = builder.op("Squeeze", [trips, builder.ints(0)])
        numbers = builder.arange(count)
        if not is_after:
            numbers = builder.op("Sub", [numbers, one])
        numbers = builder.op("Unsqueeze", [numbers, builder.ints(1)])
        own = builder.arange(builder.op("Squeeze", [places, builder.ints(0)]))
        size = builder.op("Max", [write_number(builder, ring.size), builder.ints(1)])
        first = write_number(builder, ring.number.replace({ITERATION: Linear(0)}))
        ago = builder.op("Sub", [builder.op("Add", [numbers, first]), own])
        wrote = builder.op("Sub", [numbers, builder.op("Mod", [ago, size])])
        is_old = builder.op("Less", [wrote, zero])
        is_old = builder.op("Or", [is_old, builder.op("Not", [builder.op("Less", [own, size])])])
        at = builder.op("Where", [is_old, own, builder.op("Add", [wrote, places])])
        return builder.op("Gather", [whole, at], {"axis": 0})


def find_ring(carried: Carried, facts: LoopFacts) -> RingWrite | None:
    """Return the rows of a tensor that iterations write in turn, None for other writes."""
    found = find_last_write(carried, facts)
    if found is None or found.terms[0].kind != "stacked":
        return None
    if found.axes != (0,) and (found.axes or found.named != 1):
        return None
    ring = ring_of(operand(found.node, 1), facts)
    if ring is None or ring.size is None or ring.number.coefficient(ITERATION) != 1:
        return None
    fields = {one.name: getattr(found, one.name) for one in dataclasses.fields(found)}
    return RingWrite(**fields, ring=ring)
