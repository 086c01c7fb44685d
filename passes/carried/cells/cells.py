"""Carried values that are the states of a recurrent cell: one operator runs all iterations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import onnx_ir as ir

from passes.carried.cells.cell import Cell
from passes.carried.cells.cell_runs import CellRun
from passes.carried.joined import Joined
from passes.carried.pattern import Pattern
from passes.carried.totals.running import without_one
from passes.decisions import Code
from passes.reading.not_a_map import NotAMapError

__all__ = ["CellState"]

_FEWEST = 7
"""From so many iterations on an operator of masked steps is as fast as a Loop of narrow rows."""


@dataclasses.dataclass(frozen=True)
class CellState(Pattern):
    """A state of a recurrent cell.

    Attributes:
        cell: The cell.
        at: Which of its states it is: the second one of an LSTM is not given for each iteration.
        instead: Nodes that may read it, see `Pattern`.
    """

    cell: Cell
    at: int = 0
    instead: Mapping[ir.Node, tuple[ir.Value, ir.Value]] = dataclasses.field(default_factory=dict)
    rounds = True
    needs_sizes = False
    gives_next = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """What the report calls it."""
        mask = ", masked" if self.cell.mask is not None else ""
        return f"state of a recurrent cell ({self.cell.kind.op_type}{mask})"

    @property
    def few(self) -> int:  # type: ignore[override]
        """Up to how many iterations the Loop is faster: moving masked steps costs its time."""
        return 0 if self.cell.mask is None else _FEWEST - 1

    @property
    def dims(self) -> tuple[int | None, ...]:  # type: ignore[override]
        """What is known of its dimensions."""
        _, lead = self.cell.states[self.at]
        return (*(dim if isinstance(dim, int) else None for dim in lead), self.cell.width)

    @property
    def keeps_shape(self) -> Literal["", "as it is made"]:  # type: ignore[override]
        """Whether it has one shape in all iterations, and before them."""
        return "" if self.cell.is_open else "as it is made"

    def write(self, joined: Joined) -> ir.Value:
        """Record the state behind the last iteration."""
        self._check_cost(joined)
        return CellRun(self.cell, joined, self.carried.initial).last(self.at)

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the operator gives the states of all iterations."""
        return self.at == 0 and (is_after or not self.cell.is_open)

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the states of all iterations."""
        self._check_cost(joined)
        builder, behind = joined.builder, CellRun(self.cell, joined, self.carried.initial).all()
        if is_after:
            return behind
        first = builder.op("Unsqueeze", [self.carried.initial, builder.ints(0)])
        whole = builder.op("Concat", [first, behind], {"axis": 0})
        return without_one(builder, whole, is_last=True)

    def _check_cost(self, joined: Joined) -> None:
        """Check that moving masked steps pays, where what is slower than the Loop is refused.

        Raises:
            NotAMapError: There are very few of them.
        """
        count = joined.trips.static
        if self.cell.mask is None or not joined.weighs_cost or not count or count >= _FEWEST:
            return
        detail = f"'{self.carried.inner.name}' is faster in the Loop for {count} masked steps"
        raise NotAMapError(Code.COST, detail, self.carried.next.producer())
