"""Records a recurrent operator, and what is read of it.

onnxruntime ends the process at a GRU of no steps, and at a GRU or LSTM of no batch; and without a
step an LSTM or RNN yields zeros for its state. So there is always a step and a row: where there
may be none, one of zeros is added, and cut off behind the operator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.carried.cell_kinds import CellKind
from passes.carried.cell_values import Dim, Lead
from passes.carried.cell_weights import WeightWriter
from passes.carried.joined import Joined
from passes.graph.builder import END
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried

__all__ = ["Cell", "CellRun"]


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
    """

    kind: CellKind
    facts: LoopFacts
    states: Sequence[tuple[Carried, Lead]]
    rows: Sequence[tuple[ir.Value, Lead, int]]
    width: int

    @property
    def is_open(self) -> bool:
        """Whether states and rows are not proven to have one batch.

        One of 1 is repeated then, as Add does in the Loop.
        """
        leads = [*(lead for _, lead in self.states), *(lead for _, lead, _ in self.rows)]
        return len({_batch_of(lead) for lead in leads}) > 1


class CellRun:
    """Records the operator in the place of all iterations, and reads its results."""

    def __init__(self, cell: Cell, joined: Joined) -> None:
        """Set up the work.

        Args:
            cell: The cell.
            joined: The rows of all iterations.
        """
        self._cell, self._joined, self._builder = cell, joined, joined.builder
        self._lead = cell.states[0][1]
        batch = _batch_of(self._lead)
        self._may_lack_rows = cell.is_open or not isinstance(batch, int) or not batch
        self._key = tuple(carried for carried, _ in cell.states)
        self._steps = self._once("steps", lambda: self._builder.shape(joined.values[0], 0, 1))

    def all(self) -> ir.Value:
        """Record the states of all iterations."""
        builder, rows = self._builder, self._node().outputs[0]
        if not self._joined.runs:
            rows = self._first(rows, self._steps, 0)
        rows = builder.op("Squeeze", [rows, builder.ints(1)])
        if self._may_lack_rows:
            rows = self._first(rows, self._batch(), 1)
        rows = self._as_state(rows, 1)
        if not self._may_lack_rows or self._cell.is_open:
            return rows
        # It has these dimensions already; without a spare row no type tells them.
        dims = [builder.ints(0), builder.op("Shape", [self._initial(0)])]
        return builder.op("Reshape", [rows, builder.op("Concat", dims, {"axis": 0})])

    def last(self, at: int) -> ir.Value:
        """Record a state behind the last iteration."""
        builder = self._builder
        found = builder.op("Squeeze", [self._node().outputs[1 + at], builder.ints(0)])
        if self._may_lack_rows:
            found = self._first(found, self._if_runs(self._batch()), 0)
        found = self._as_state(found, 0)
        if self._joined.runs:
            return found
        return builder.op("Where", [self._runs(), found, self._initial(at)])

    def _initial(self, at: int) -> ir.Value:
        return self._cell.states[at][0].initial

    def _once(self, name: str, write: Callable[[], ir.Value]) -> ir.Value:
        """Record a value once for all that is read of the operator, also behind several maps."""
        key = (self._key, name)
        if key not in self._joined.made:
            self._joined.made[key] = write()
        return self._joined.made[key]

    def _node(self) -> ir.Node:
        """Record the operator."""
        node = self._once("operator", self._write).producer()
        assert node is not None
        return node

    def _write(self) -> ir.Value:
        builder, cell, kind = self._builder, self._cell, self._cell.kind
        states = [self._state(at) for at in range(len(cell.states))]
        pairs = zip(self._joined.values, cell.rows, strict=True)
        rows = [self._rows(value, lead, size, states[0]) for value, (_, lead, size) in pairs]
        given = [
            rows[0] if len(rows) == 1 else builder.op("Concat", rows, {"axis": 2}),
            *self._weights(),
            None,
            *states,
        ]
        attributes = {"hidden_size": cell.width, **kind.attributes}
        node = builder.node(kind.op_type, given, attributes, outputs=1 + len(states))
        if kind.node is not None:
            node.meta.update(kind.node.meta)
        return node.outputs[0]

    def _weights(self) -> list[ir.Value | None]:
        """Record ``W``, ``R`` and ``B``."""
        kind, cell = self._cell.kind, self._cell
        writer = WeightWriter(self._builder, cell.facts, cell.width)
        if kind.weights:
            return [None if v is None else writer.outside(v) for v in kind.weights]
        rows, gates = [row for row, _, _ in cell.rows], kind.gates
        return [writer.of_rows(gates, rows), writer.of_state(gates), writer.of_biases(gates)]

    def _state(self, at: int) -> ir.Value:
        """Record an initial value as ``[1, batch, width]``."""
        builder, value = self._builder, self._begun(at)
        if not self._may_lack_rows:
            return value
        rows = self._or_one(builder.shape(value, 1, 2))
        value = self._filled(value, [builder.ints(1), rows, builder.ints(self._cell.width)])
        return self._one_without_steps(value) if self._cell.is_open else value

    def _begun(self, at: int) -> ir.Value:
        """Record an initial value as ``[1, batch, width]``, repeated if the batch is larger."""
        return self._once(f"state {at}", lambda: self._repeated(at))

    def _repeated(self, at: int) -> ir.Value:
        builder, lead = self._builder, self._cell.states[at][1]
        value = self._as_batch(self._initial(at), lead, 0)
        value = builder.op("Unsqueeze", [value, builder.ints(0)])
        if not self._cell.is_open:
            return value
        beside = [(one.initial, own, 0) for one, own in self._cell.states]
        rows = zip(self._joined.values, self._cell.rows, strict=True)
        beside += [(row, own, 1) for row, (_, own, _) in rows]
        for other, own, front in beside:
            if front or other is not self._initial(at):
                size = builder.shape(self._as_batch(other, own, front), front, front + 1)
                dims = [builder.ints(1), self._if_runs(size), builder.ints(1)]
                value = builder.op("Expand", [value, builder.op("Concat", dims, {"axis": 0})])
        return value

    def _batch(self) -> ir.Value:
        """Record the batch, which may be 0."""
        return self._once("batch", lambda: self._builder.shape(self._begun(0), 1, 2))

    def _rows(self, value: ir.Value, lead: Lead, size: int, state: ir.Value) -> ir.Value:
        """Record what iterations read as ``[steps, batch, size]``.

        Without iterations it may have no other dimension either.
        """
        builder, rows = self._builder, self._as_batch(value, lead, 1)
        if self._joined.runs and not self._may_lack_rows:
            return rows
        steps, batch = self._or_one(self._steps), builder.shape(state, 1, 2)
        if not self._cell.is_open:
            return self._filled(rows, [steps, batch, builder.ints(size)])
        own = self._or_one(builder.shape(rows, 1, 2))
        rows = self._one_without_steps(self._filled(rows, [steps, own, builder.ints(size)]))
        shape = builder.op("Concat", [builder.ints(1), batch, builder.ints(1)], {"axis": 0})
        return builder.op("Expand", [rows, shape])

    def _one_without_steps(self, value: ir.Value) -> ir.Value:
        """Record ``[.., batch, n]`` with a batch of 1 where there are no iterations."""
        return self._first(value, self._if_runs(self._builder.ints(END)), 1)

    def _first(self, value: ir.Value, count: ir.Value, axis: int) -> ir.Value:
        builder = self._builder
        return builder.op("Slice", [value, builder.ints(0), count, builder.ints(axis)])

    def _if_runs(self, number: ir.Value) -> ir.Value:
        """Record a number, and 1 where there are no iterations."""
        builder = self._builder
        return builder.op("Where", [self._runs(), number, builder.ints(1)])

    def _runs(self) -> ir.Value:
        """Record whether there are iterations."""
        return self._once(
            "runs", lambda: self._builder.op("Greater", [self._steps, self._builder.ints(0)])
        )

    def _or_one(self, count: ir.Value) -> ir.Value:
        """Record a number, and 1 for 0."""
        builder = self._builder
        is_none = builder.op("Equal", [count, builder.ints(0)])
        return builder.op("Where", [is_none, builder.ints(1), count])

    def _filled(self, value: ir.Value, dims: Sequence[ir.Value]) -> ir.Value:
        """Record a tensor with zeros behind it, so that it has some dimensions."""
        builder = self._builder
        wanted = builder.op("Concat", dims, {"axis": 0})
        behind = builder.op("Sub", [wanted, builder.op("Shape", [value])])
        pads = builder.op("Concat", [builder.ints(0, 0, 0), behind], {"axis": 0})
        return builder.op("Pad", [value, pads])

    def _as_batch(self, value: ir.Value, lead: Lead, front: int) -> ir.Value:
        """Record a tensor with one axis for the batch; ``front`` axes stand before it."""
        builder = self._builder
        if not lead:
            return builder.op("Unsqueeze", [value, builder.ints(front)])
        spare = _spare(lead, front)
        return builder.op("Squeeze", [value, builder.ints(*spare)]) if spare else value

    def _as_state(self, value: ir.Value, front: int) -> ir.Value:
        """Record a tensor with the axes of a state; ``front`` axes stand before the batch."""
        builder = self._builder
        if not self._lead:
            return builder.op("Squeeze", [value, builder.ints(front)])
        spare = _spare(self._lead, front)
        return builder.op("Unsqueeze", [value, builder.ints(*spare)]) if spare else value


def _batch_of(lead: Lead) -> Dim:
    return next((dim for dim in lead if dim != 1), 1)


def _spare(lead: Lead, front: int) -> list[int]:
    """Return the axes of size 1 beside the batch."""
    batch = next((at for at, dim in enumerate(lead) if dim != 1), 0)
    return [front + at for at in range(len(lead)) if at != batch]
