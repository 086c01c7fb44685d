"""Carried values that one iteration computes without them: the last value, and delays by one."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.pattern import Pattern, Term, dependent_values
from passes.carried.totals.running import without_one
from passes.carried.totals.totals import behind_initial
from passes.graph.builder import END
from passes.reading.iterations import Carried, Iteration

__all__ = ["LastValue", "find_last_value"]


@dataclasses.dataclass(frozen=True)
class LastValue(Pattern):
    """What the iteration before computed from its own sample only.

    Attributes:
        terms: What an iteration computes.
    """

    name = "carried last value"

    def write(self, joined: Joined) -> ir.Value:
        """Record the value of the last iteration, the initial one if there is none."""
        builder, (rows,) = joined.builder, joined.values
        if joined.is_collected:
            return joined.last_of(self._whole(joined))
        if not joined.runs:
            bounds = builder.ints(-1), builder.ints(END), builder.ints(0)
            last = builder.op("Slice", [rows, *bounds])
            rows = self._behind_initial(joined, last)
        return joined.last_of(rows)

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether it is the values at the start of each iteration that are wanted."""
        return not is_after

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the values of all iterations but the last behind the initial one."""
        return without_one(joined.builder, self._whole(joined), is_last=True)

    def _whole(self, joined: Joined) -> ir.Value:
        """Record the initial value and those behind all iterations, once."""
        (rows,) = joined.values
        return joined.once(self.carried.inner, lambda: self._behind_initial(joined, rows))

    def _behind_initial(self, joined: Joined, rows: ir.Value) -> ir.Value:
        joined.needs_same_shape(self.carried)
        return behind_initial(joined, self.carried.initial, rows)


def find_last_value(carried: Carried, iteration: Iteration) -> LastValue | None:
    """Return what an iteration computes of a carried value, None if it depends on that value."""
    if carried.next in dependent_values(iteration.body, carried.inner):
        return None
    return LastValue(carried, (Term(carried.next),))
