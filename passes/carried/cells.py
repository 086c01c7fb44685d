"""Carried values that are the states of a recurrent cell: one operator runs all iterations.

onnxruntime ends the process at a GRU of no steps, and at a GRU or LSTM of no batch; and without a
step an LSTM or RNN yields zeros for its state. So there is always a step and a row: where there
may be none, one of zeros is added, and cut off behind the operator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from passes.carried.cell_weights import Affine, WeightWriter
from passes.carried.joined import Joined
from passes.carried.pattern import Pattern, Term
from passes.carried.running import without_one
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried

__all__ = ["Cell", "CellState", "batch_of"]

Lead = tuple[int | str | None, ...]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A recurrent operator.

    Attributes:
        op_type: The operator.
        attributes: Its attributes, beside ``hidden_size``.
        gates: What its gates are computed of, in its order.
        rows: What it reads in each iteration, with the dimensions.
        states: Where its states stand: ``h``, and ``c`` of an LSTM.
        lead: The dimensions of a state but the last one, one of which at most is not 1.
        width: The last one.
        facts: The Loop or Scan.
    """

    op_type: str
    attributes: Mapping[str, Any]
    gates: Sequence[Affine]
    rows: Sequence[tuple[ir.Value, Lead, int]]
    states: Sequence[Carried]
    lead: Lead
    width: int
    facts: LoopFacts


@dataclasses.dataclass(frozen=True)
class CellState(Pattern):
    """A state of a recurrent cell.

    Attributes:
        carried: Where it stands.
        cell: The cell.
        at: Which of its states it is: the second one of an LSTM is not given for each iteration.
    """

    carried: Carried
    cell: Cell
    at: int = 0
    rounds = True
    keeps_shape = "as it is made"
    needs_sizes = False
    gives_next = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """What the report calls it."""
        return f"state of a recurrent cell ({self.cell.op_type})"

    @property
    def terms(self) -> tuple[Term, ...]:  # type: ignore[override]
        """The rows that it reads."""
        return tuple(Term(row) for row, _, _ in self.cell.rows)

    def write(self, joined: Joined) -> ir.Value:
        """Record the state behind the last iteration."""
        return _Run(self.cell, joined).last(self.at)

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the operator gives the states of all iterations."""
        return self.at == 0

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the states of all iterations."""
        builder, behind = joined.builder, _Run(self.cell, joined).all()
        if is_after:
            return behind
        first = builder.op("Unsqueeze", [self.carried.initial, builder.ints(0)])
        whole = builder.op("Concat", [first, behind], {"axis": 0})
        return without_one(builder, whole, is_last=True)


def batch_of(lead: Lead) -> int | str | None:
    """Return the dimension that is the batch of the operator."""
    return next((dim for dim in lead if dim != 1), 1)


class _Run:
    """Records a recurrent operator, and what is read of it."""

    def __init__(self, cell: Cell, joined: Joined) -> None:
        self.cell, self.joined, self.builder = cell, joined, joined.builder
        batch = batch_of(cell.lead)
        self._may_lack_rows = not isinstance(batch, int) or not batch
        self._steps = self.builder.shape(joined.values[0], 0, 1)

    def all(self) -> ir.Value:
        """Record the states of all iterations."""
        builder, rows = self.builder, self._node().outputs[0]
        if not self.joined.runs:
            bounds = [builder.ints(0), self._steps, builder.ints(0)]
            rows = builder.op("Slice", [rows, *bounds])
        rows = self._given_back(builder.op("Squeeze", [rows, builder.ints(1)]), 1)
        if not self._may_lack_rows:
            return rows
        # It has these dimensions already; without a spare row no type tells them.
        dims = [self._steps, builder.op("Shape", [self.cell.states[0].initial])]
        return builder.op("Reshape", [rows, builder.op("Concat", dims, {"axis": 0})])

    def last(self, at: int) -> ir.Value:
        """Record a state behind the last iteration."""
        builder = self.builder
        found = self._given_back(
            builder.op("Squeeze", [self._node().outputs[1 + at], builder.ints(0)]), 0
        )
        if self.joined.runs:
            return found
        runs = builder.op("Greater", [self._steps, builder.ints(0)])
        return builder.op("Where", [runs, found, self.cell.states[at].initial])

    def _node(self) -> ir.Node:
        """Record the operator, once for all that is read of it, also behind several maps."""
        key = tuple(self.cell.states)
        if key not in self.joined.made:
            self.joined.made[key] = self._write()
        node = self.joined.made[key].producer()
        assert node is not None
        return node

    def _write(self) -> ir.Value:
        builder, cell = self.builder, self.cell
        weights = WeightWriter(builder, cell.facts, cell.width)
        states = [self._state(one.initial) for one in cell.states]
        pairs = zip(self.joined.values, cell.rows, strict=True)
        rows = [self._rows(value, lead, size, states[0]) for value, (_, lead, size) in pairs]
        given = [
            rows[0] if len(rows) == 1 else builder.op("Concat", rows, {"axis": 2}),
            weights.of_rows(cell.gates, [(row, size) for row, _, size in cell.rows]),
            weights.of_state(cell.gates),
            weights.of_biases(cell.gates),
            None,
            *states,
        ]
        attributes = {"hidden_size": cell.width, **cell.attributes}
        node = builder.node(cell.op_type, given, attributes, outputs=1 + len(states))
        return node.outputs[0]

    def _state(self, initial: ir.Value) -> ir.Value:
        """Record an initial value as ``[1, batch, width]``, with a row where it may have none."""
        builder = self.builder
        value = builder.op(
            "Unsqueeze", [self._as_batch(initial, self.cell.lead, 0), builder.ints(0)]
        )
        if not self._may_lack_rows:
            return value
        spare = self._or_one(builder.shape(value, 1, 2))
        return self._filled(value, [builder.ints(1), spare, builder.ints(self.cell.width)])

    def _rows(self, value: ir.Value, lead: Lead, size: int, state: ir.Value) -> ir.Value:
        """Record rows as ``[steps, batch, size]``, with a step and a row where they may have none.

        Without iterations they may have no other dimension either.
        """
        builder, rows = self.builder, self._as_batch(value, lead, 1)
        if self.joined.runs and not self._may_lack_rows:
            return rows
        steps = self._or_one(self._steps)
        return self._filled(rows, [steps, builder.shape(state, 1, 2), builder.ints(size)])

    def _or_one(self, count: ir.Value) -> ir.Value:
        """Record a number, and 1 for 0."""
        builder = self.builder
        is_none = builder.op("Equal", [count, builder.ints(0)])
        return builder.op("Where", [is_none, builder.ints(1), count])

    def _filled(self, value: ir.Value, dims: Sequence[ir.Value]) -> ir.Value:
        """Record a tensor with zeros behind it, so that it has some dimensions."""
        builder = self.builder
        wanted = builder.op("Concat", dims, {"axis": 0})
        behind = builder.op("Sub", [wanted, builder.op("Shape", [value])])
        pads = builder.op("Concat", [builder.ints(0, 0, 0), behind], {"axis": 0})
        return builder.op("Pad", [value, pads])

    def _as_batch(self, value: ir.Value, lead: Lead, front: int) -> ir.Value:
        """Record a tensor with one axis for the batch; ``front`` axes stand before it."""
        builder = self.builder
        if not lead:
            return builder.op("Unsqueeze", [value, builder.ints(front)])
        spare = _spare(lead, front)
        return builder.op("Squeeze", [value, builder.ints(*spare)]) if spare else value

    def _given_back(self, value: ir.Value, front: int) -> ir.Value:
        """Record a tensor with the axes of a state; without the row that was added."""
        builder, lead = self.builder, self.cell.lead
        if self._may_lack_rows:
            size = builder.shape(
                self.cell.states[0].initial, _batch_axis(lead), _batch_axis(lead) + 1
            )
            value = builder.op("Slice", [value, builder.ints(0), size, builder.ints(front)])
        if not lead:
            return builder.op("Squeeze", [value, builder.ints(front)])
        spare = _spare(lead, front)
        return builder.op("Unsqueeze", [value, builder.ints(*spare)]) if spare else value


def _batch_axis(lead: Lead) -> int:
    return next((at for at, dim in enumerate(lead) if dim != 1), 0)


def _spare(lead: Lead, front: int) -> list[int]:
    """Return the axes of size 1 beside the batch."""
    return [front + at for at in range(len(lead)) if at != _batch_axis(lead)]
