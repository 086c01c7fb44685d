"""Places of a carried tensor that an iteration reads, by which of the others wrote there.

``y[i] = a * y[i - 1]`` reads what the iteration before wrote, which is a carried value of its
own: ``p = y[i - 1]``. ``y[i - 3]`` is a delay by three iterations, and so is ``y[i % 3]`` where
``y[i % 3]`` is written; ``y[i + 1]`` is what stood there at first. The tensor is then written
with what depends on those values, and not on itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.pattern import ASK_SHAPE
from passes.carried.rereads.rings import Ring, ring_of
from passes.graph.graphs import is_operator
from passes.graph.made import made_by, operand, skip_identities
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.written_numbers import is_writable
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing, ValueType

__all__ = ["Reread", "find_rereads", "is_shape_read", "read_row", "written_row"]


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
    """Return the places that an iteration reads of a tensor that it writes one row to.

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
    row = written_row(operand(scatter, 2), body, typing, dims[1:])
    found = []
    for node in body:
        if not is_operator(node, "Gather"):
            continue
        if skip_identities(operand(node, 0)) is not carried.inner or is_shape_read(node):
            continue
        place = _place(operand(node, 1), facts)
        delay = None if place is None else _delay(written, place)
        if node.attributes.get_int("axis", 0) or evaluator.rank(operand(node, 1)) != 0:
            return []
        if place is None or delay is None:
            return []
        state = read_row(node.outputs[0], row, typing, ValueType(known, dims[1:]))
        found.append(Reread(carried, place.number, written.number, state, delay, written.size))
    return found


def read_row(value: ir.Value, row: ir.Value, typing: Typing, known: ValueType) -> Carried:
    """Return what an iteration reads of a tensor that it writes a row to as carried by itself.

    Args:
        value: What is read.
        row: What the iteration writes.
        typing: Gains what it begins with.
        known: The type of a row.
    """
    initial = ir.Value(name=f"{value.name}.first")
    typing.set(initial, known)
    return Carried(value, initial, row, ir.Value(name=f"{value.name}.last"))


def is_shape_read(node: ir.Node) -> bool:
    """Whether nothing but the shape is read of what a node yields."""
    value = node.outputs[0]
    is_asked = all(is_operator(use.node, ASK_SHAPE) for use in value.uses())
    return is_asked and not value.is_graph_output()


def _place(value: ir.Value, facts: LoopFacts) -> Ring | None:
    """Return a place that is counted, or that a counter is modulo something."""
    number = facts.evaluator.number(value)
    return ring_of(value, facts) if number is None else Ring(number, None)


def _delay(written: Ring, read: Ring) -> Linear | None:
    """Return how many iterations ago a place was written, None where that is not known."""
    gap, step = (written.number - read.number).number, written.number.coefficient(ITERATION)
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
    return is_writable(place.replace({ITERATION: Linear(0)}))


def written_row(
    updates: ir.Value, body: ir.Graph, typing: Typing, dims: Sequence[int | str | None]
) -> ir.Value:
    """Return the row that is written, before it is given the shape that it has.

    Args:
        updates: What a ScatterND writes.
        body: The body of the Loop.
        typing: The proven typing.
        dims: The dimensions of a row.
    """
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
