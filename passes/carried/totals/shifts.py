"""Products and sums of all shifts of a tensor, which are its running products and sums.

``y = x``, and then ``y *= pad(x[:-1], [1, 0])``, ``y *= pad(x[:-2], [2, 0])`` and so on, with 1
for what is padded, is how TensorFlow's exporter writes ``cumprod``: of ``[2, 3, 4]`` it is
``[2, 3 * 2, 4 * 3 * 2]``. With ``x[1:]`` and padding behind it runs from the end to the front.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.pattern import FLOATS, Pattern
from passes.carried.totals.running import running_along
from passes.graph.graphs import constant_value
from passes.graph.made import (
    either_order,
    made_by,
    only_number,
    operand,
    optional_operand,
    skip_identities,
)
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.slice_bounds import bounds_of
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["Shifts", "find_shifts"]

_NEUTRAL = {"Mul": 1, "Add": 0}
_NAMES = {"Mul": "product of shifts", "Add": "sum of shifts"}


@dataclasses.dataclass(frozen=True)
class Shifts(Pattern):
    """A carried tensor that begins as another one, and is joined to all shifts of that.

    Attributes:
        family: The operator that joins them.
        axis: Along which axis they are shifted.
        rank: How many axes the tensor has.
        is_reversed: Whether they are shifted to the front.
        name: What the report calls it.
    """

    family: str
    axis: int
    rank: int
    is_reversed: bool
    name: str
    rounds = True

    def write(self, joined: Joined) -> ir.Value:
        """Record the running products or sums."""
        how = (self.family, self.axis, self.rank)
        return running_along(joined, self.carried, *how, is_reversed=self.is_reversed)


def find_shifts(carried: Carried, facts: LoopFacts, typing: Typing) -> Shifts | None:
    """Return the shifts whose product or sum a carried value is, None if there are none."""
    rank, dtype = typing.rank(carried.initial), typing.dtype(carried.initial)
    joins = made_by(carried.next, *_NEUTRAL, body=facts.scope)
    if joins is None or not rank or dtype not in FLOATS:
        return None
    for own, other in either_order(joins):
        if skip_identities(own) is not carried.inner:
            continue
        found = _shifted_along(other, _NEUTRAL[joins.op_type], carried, facts, rank)
        if found is not None and _takes_all(carried, facts, found[0]):
            axis, is_reversed = found
            name = _NAMES[joins.op_type]
            return Shifts(carried, (), joins.op_type, axis, rank, is_reversed, name)
    return None


def _shifted_along(
    value: ir.Value, neutral: int, carried: Carried, facts: LoopFacts, rank: int
) -> tuple[int, bool] | None:
    """Return along which axis a value is what a carried one began as, shifted by one more.

    Args:
        value: The value.
        neutral: What stands where nothing is left.
        carried: The carried value.
        facts: The Loop.
        rank: How many axes the value has.

    Returns:
        The axis, and whether it is shifted to the front.
    """
    evaluator = facts.evaluator
    pad = made_by(value, "Pad", body=facts.scope)
    cut = None if pad is None else made_by(operand(pad, 0), "Slice", body=facts.scope)
    if pad is None or cut is None or pad.attributes.get_string("mode", "constant") != "constant":
        return None
    fill, along = optional_operand(pad, 2), constant_value(optional_operand(cut, 3))
    filled = 0 if fill is None else only_number(evaluator.outside(fill))
    if filled != neutral or optional_operand(pad, 3) is not None:
        return None
    whole = evaluator.outside(skip_identities(operand(cut, 0)))
    if whole is not skip_identities(carried.initial) or along is None or along.size != 1:
        return None
    axis, by = int(along.item()) % rank, Linear.of(ITERATION) + 1
    step = optional_operand(cut, 4)
    if step is not None and evaluator.integer(step) != 1:
        return None
    start, end = (evaluator.number(operand(cut, at)) for at in (1, 2))
    if start == Linear(0) and end == by * -1:
        place, is_reversed = axis, False
    elif start == by and _is_end(end, carried, facts, axis):
        place, is_reversed = rank + axis, True
    else:
        return None
    amounts = evaluator.of(optional_operand(pad, 1))
    wanted = [by if at == place else Linear(0) for at in range(2 * rank)]
    return (axis, is_reversed) if amounts is not None and list(amounts) == wanted else None


def _is_end(end: Linear | None, carried: Carried, facts: LoopFacts, axis: int) -> bool:
    """Whether a bound stands behind the last row."""
    size = _rows(carried.initial, axis, facts.evaluator)
    return end is not None and size is not None and is_nonnegative(end - size)


def _takes_all(carried: Carried, facts: LoopFacts, axis: int) -> bool:
    """Whether there are as many shifts as move something into the tensor: one less than rows."""
    evaluator, trips = facts.evaluator, facts.iteration.trips
    count = None if trips is None else evaluator.number(trips)
    size = _rows(carried.initial, axis, evaluator)
    return count is not None and size is not None and count == size - 1


def _rows(tensor: ir.Value, axis: int, evaluator: Evaluator) -> Linear | None:
    """Return how many rows a tensor has along an axis, or a negative number where it has none.

    Of ``x[1:]`` and ``x[:-1]`` it is one less than ``x`` has, which is -1 where that has none.
    """
    cut = made_by(tensor, "Slice")
    bounds = None if cut is None else bounds_of(cut, evaluator)
    if cut is None or bounds is None or bounds.axis != axis:
        return evaluator.dimension(tensor, axis)
    whole = evaluator.dimension(operand(cut, 0), axis)
    if whole is None or bounds.end is None:
        return None
    if bounds.start == Linear(1) and bounds.reaches_end:
        return whole - 1
    return whole - 1 if bounds.start == Linear(0) and bounds.end == Linear(-1) else None
