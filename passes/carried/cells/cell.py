"""A recurrent cell in a Loop, and the axes of its states."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.cells.cell_kinds import CellKind
from passes.carried.cells.cell_values import Dim, Lead
from passes.carried.common.selections import Selection
from passes.carried.pattern import Term
from passes.graph.builder import Builder
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried

__all__ = ["Cell", "as_batch", "as_state", "batch_of"]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A recurrent cell in a Loop.

    Attributes:
        kind: The operator, and what its gates are computed of.
        facts: The Loop or Scan.
        states: Where its states stand, each with its dimensions but the last one.
        rows: What it reads in each iteration, with its dimensions but the last one, and that. Of
            the others one at most is not 1: the batch.
        width: The last dimension of the states.
        mask: What leaves the states of some rows as they are, in some iterations; None where
            nothing does. The states' next values are those without it.
        mask_lead: The dimensions of the mask but the last one, which is 1.
        is_flag_alone: Whether the mask has no dimensions at all: one flag for all rows.
    """

    kind: CellKind
    facts: LoopFacts
    states: Sequence[tuple[Carried, Lead]]
    rows: Sequence[tuple[ir.Value, Lead, int]]
    width: int
    mask: Selection | None = None
    mask_lead: Lead = ()
    is_flag_alone: bool = False

    @property
    def terms(self) -> tuple[Term, ...]:
        """The rows that it reads, and the mask: each of their dimensions is known to be one."""
        mask = [] if self.mask is None else [self.mask.condition]
        rows = [*(row for row, _, _ in self.rows), *mask]
        return tuple(Term(value, is_alike=True) for value in rows)

    @property
    def is_open(self) -> bool:
        """Whether states, rows and a mask of several rows are not proven to have one batch.

        One of 1 is repeated then, as Add does in the Loop.
        """
        leads = [*(lead for _, lead in self.states), *(lead for _, lead, _ in self.rows)]
        batches = {batch_of(lead) for lead in leads}
        return len(batches | ({batch_of(self.mask_lead)} - {1})) > 1


def as_batch(builder: Builder, value: ir.Value, lead: Lead, front: int) -> ir.Value:
    """Record a tensor with one axis for the batch; ``front`` axes stand before it."""
    if not lead:
        return builder.op("Unsqueeze", [value, builder.ints(front)])
    spare = _spare(lead, front)
    return builder.op("Squeeze", [value, builder.ints(*spare)]) if spare else value


def as_state(builder: Builder, value: ir.Value, lead: Lead, front: int) -> ir.Value:
    """Record a tensor with the axes of a state; ``front`` axes stand before the batch."""
    if not lead:
        return builder.op("Squeeze", [value, builder.ints(front)])
    spare = _spare(lead, front)
    return builder.op("Unsqueeze", [value, builder.ints(*spare)]) if spare else value


def batch_of(lead: Lead) -> Dim:
    """Return the batch: the only dimension that is not 1."""
    return next((dim for dim in lead if dim != 1), 1)


def _spare(lead: Lead, front: int) -> list[int]:
    """Return the axes of size 1 beside the batch."""
    batch = next((at for at, dim in enumerate(lead) if dim != 1), 0)
    return [front + at for at in range(len(lead)) if at != batch]
