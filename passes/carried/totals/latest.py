"""Extremes that keep what they have only while it is better: ``s = s if s > x_i else x_i``.

A NaN is never better, so that it is taken, and what comes behind it is taken too. What is left is
the extreme of all since the last NaN: for ``[5, nan, 1, 2]`` the largest is ``[5, nan, 1, 2]``.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.totals.filled import Begun, RunningPattern, totals
from passes.graph.builder import Builder

__all__ = ["Latest"]


@dataclasses.dataclass(frozen=True)
class Latest(RunningPattern):
    """A carried float that stays only where it is better than a new one.

    Attributes:
        terms: The new values.
        extreme: ``Max`` or ``Min``.
        dtype: The element type.
        name: What the report calls it.
    """

    extreme: str
    dtype: ir.DataType
    name: str

    def write(self, joined: Joined) -> ir.Value:
        """Record the value behind the last iteration."""
        if joined.is_collected:
            return joined.last_of(self.whole(joined))
        builder = joined.builder
        whole = self._given(joined)
        spoilt = builder.op("IsNaN", [whole])
        counts = builder.op("Cast", [spoilt], {"to": int(ir.DataType.INT64)})
        later = builder.op("CumSum", [counts, builder.scalar(0)], {"reverse": 1})
        is_free = builder.op("Equal", [later, builder.scalar(0)])
        rows = builder.op("Where", [is_free, whole, self._number(builder, self._worst)])
        found = joined.reduce(f"Reduce{self.extreme}", rows)
        is_last = joined.last_of(spoilt)
        return builder.op("Where", [is_last, self._number(builder, np.nan), found])

    def check_shape(self, joined: Joined) -> None:
        """Check that what is taken has the shape of what it takes the place of."""
        joined.needs_same_shape(self.carried)

    def recorded(self, joined: Joined) -> ir.Value:
        """Record the initial value and the values of all iterations."""
        builder = joined.builder
        whole = self._given(joined)
        rank = joined.rank(self.carried.initial)
        spoilt = builder.op("IsNaN", [whole])
        rows = builder.op("Where", [spoilt, self._number(builder, self._worst), whole])
        since = totals(
            joined,
            self.carried,
            Begun(rows, spoilt, rank, is_whole=rank == 0),
            self.extreme,
            self.dtype,
        )
        return builder.op("Where", [spoilt, self._number(builder, np.nan), since])

    def _given(self, joined: Joined) -> ir.Value:
        """Record the initial value and the new ones."""
        self.check_shape(joined)
        builder = joined.builder
        first = builder.op("Unsqueeze", [self.carried.initial, builder.ints(0)])
        return builder.op("Concat", [first, joined.values[0]], {"axis": 0})

    @property
    def _worst(self) -> float:
        return -np.inf if self.extreme == "Max" else np.inf

    def _number(self, builder: Builder, number: float) -> ir.Value:
        return builder.constant(np.array(number, self.dtype.numpy()))
