"""The samples that take a step together, where the number of steps differs.

Numbers of steps ``[1, 3, 2]``: three samples take the first step together, two the second, and
one the third.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.graph.builder import Builder

__all__ = ["ActiveBatch", "Schedule"]


class ActiveBatch(Protocol):
    """The samples of one step: at least one.

    Attributes:
        batch: How many there are, int64 ``[1]``.
        done: How many have no further step, int64 ``[1]``, known once they `part`.
    """

    batch: ir.Value
    done: ir.Value

    def take(self, value: ir.Value) -> ir.Value:
        """Return their rows of a value ``[B, *s]`` from outside of the loop."""

    def part(self, go_on: ir.Value | None) -> None:
        """Find out who has a further step; ``go_on`` is what the body says, bool ``[N]``."""

    def split(self, x: Batched) -> tuple[ir.Value, ir.Value]:
        """Return what of a stacked or packed value goes on, and what is done."""

    def carried(self) -> list[ir.Value]:
        """Return what the loop carries on for the roster."""

    def notes(self) -> list[ir.Value]:
        """Return what is noted of the step."""


class Schedule(Protocol):
    """The samples of a loop.

    Attributes:
        trips: Limit of the loop's steps, None for none.
        first: The samples that have a first step, and those that have none.
        carried: What the loop carries for the roster at first.
        noted: What is noted before the first step.
    """

    trips: ir.Value | None
    first: tuple[ir.Value, ir.Value]
    carried: Sequence[ir.Value]
    noted: Sequence[ir.Value]

    def goes_on(self, builder: Builder, carried: Sequence[ir.Value]) -> ir.Value:
        """Return whether there is a further step, by what is carried."""

    def team(self, inner: Builder, step: ir.Value, carried: Sequence[ir.Value]) -> ActiveBatch:
        """Record who takes part in a step."""

    def finish(self, noted: Sequence[ir.Value]) -> ir.Value:
        """Return where each sample stands in the order in which they were done, ``[B]``.

        Args:
            noted: All that was noted, one step behind the other.
        """

    def rows(self, mirrored: bool) -> tuple[ir.Value, Lengths]:
        """Return where rows lie among those that the steps yield, and the samples' lengths.

        Args:
            mirrored: The first step yields each sample's last row.
        """
