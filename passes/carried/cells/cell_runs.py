"""Records a recurrent operator, and what is read of it.

onnxruntime ends the process at a GRU of no steps, and at a GRU or LSTM of no batch; and without a
step an LSTM or RNN yields zeros for its state. So there is always a step and a row: where there
may be none, one of zeros is added, and cut off behind the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import onnx_ir as ir

from passes.carried.cells.cell import Cell, as_batch, as_state, batch_of
from passes.carried.cells.cell_steps import CellSteps
from passes.carried.cells.cell_values import Lead
from passes.carried.cells.cell_weights import WeightWriter
from passes.carried.joined import Joined
from passes.graph.builder import END

__all__ = ["CellRun"]

_LENGTHS = 4
"""Where a recurrent operator takes how many steps each row has."""


class CellRun:
    """Records the operator in the place of all iterations, and reads its results."""

    def __init__(self, cell: Cell, joined: Joined, initial: ir.Value) -> None:
        """Set up the work.

        Args:
            cell: The cell.
            joined: The rows of all iterations, and the mask.
            initial: What the state that is read is before the first step.
        """
        self._initial = initial
        self._cell, self._joined, self._builder = cell, joined, joined.builder
        self._lead = cell.states[0][1]
        batch = batch_of(self._lead)
        self._may_lack_rows = cell.is_open or not isinstance(batch, int) or not batch
        self._key = tuple(carried for carried, _ in cell.states)
        self._steps = self._once("steps", lambda: self._builder.shape(joined.values[0], 0, 1))

    def all(self) -> ir.Value:
        """Record the states of all iterations."""
        builder = self._builder
        rows = builder.op("Squeeze", [self._node().outputs[0], builder.ints(1)])
        if self._cell.mask is not None:
            given = self._state(self._initial, self._lead)
            rows = self._valid().behind_each(rows, given, self._cell.width)
        if not self._joined.runs:
            rows = self._first(rows, self._steps, 0)
        if self._may_lack_rows:
            rows = self._first(rows, self._batch(), 1)
        rows = as_state(builder, rows, self._lead, 1)
        if not self._may_lack_rows:
            return rows
        # It has these dimensions already; without a spare row no type tells them.
        like = self._initial
        if self._cell.is_open:
            like = builder.op("Squeeze", [self._begun(like, self._lead), builder.ints(0)])
            like = as_state(builder, like, self._lead, 0)
        dims = [builder.ints(0), builder.op("Shape", [like])]
        return builder.op("Reshape", [rows, builder.op("Concat", dims, {"axis": 0})])

    def last(self, at: int) -> ir.Value:
        """Record a state behind the last iteration."""
        found = self._last(at)
        if self._may_lack_rows:
            found = self._first(found, self._if_runs(self._batch()), 0)
        found = as_state(self._builder, found, self._lead, 0)
        if self._joined.runs:
            return found
        return self._builder.op("Where", [self._runs(), found, self._initial])

    def _last(self, at: int) -> ir.Value:
        """Record a state behind the last iteration as ``[batch, width]``."""
        builder, node, cell = self._builder, self._node(), self._cell
        if cell.mask is None:
            return builder.op("Squeeze", [node.outputs[1 + at], builder.ints(0)])
        given, steps = self._state(self._initial, cell.states[at][1]), self._valid()
        if not at:
            rows = builder.op("Squeeze", [node.outputs[0], builder.ints(1)])
            return steps.behind_all(rows, given, cell.width)
        # No operator gives the second state of each step.
        node.replace_input_with(_LENGTHS, self._once("lengths", steps.lengths))
        found = builder.op("Squeeze", [node.outputs[1 + at], builder.ints(0)])
        return steps.or_initial(found, given)

    def _once(self, name: Hashable, write: Callable[[], ir.Value]) -> ir.Value:
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
        states = [self._state(one.initial, lead) for one, lead in cell.states]
        whole = self._once("rows", self._whole)
        if cell.mask is not None:
            steps = self._valid()
            whole = steps.moved(whole, sum(size for _, _, size in cell.rows))
            self._once("lengths", steps.lengths)
        weights = self._weights()
        given = [whole, *weights[:3], None, *states, *weights[3:]]
        attributes = {"hidden_size": cell.width, **kind.attributes}
        node = builder.node(kind.op_type, given, attributes, outputs=1 + len(states))
        if kind.node is not None:
            node.meta.update(kind.node.meta)
        return node.outputs[0]

    def _weights(self) -> list[ir.Value | None]:
        """Record ``W``, ``R`` and ``B``; and ``P``, where gates read a kept state."""
        kind, cell = self._cell.kind, self._cell
        writer = WeightWriter(self._builder, cell.facts, cell.width)
        if kind.weights:
            return [None if v is None else writer.outside(v) for v in kind.weights]
        rows, gates = [row for row, _, _ in cell.rows], kind.gates
        found = [writer.of_rows(gates, rows), writer.of_state(gates), writer.of_biases(gates)]
        peepholes = writer.of_peepholes(gates)
        return found if peepholes is None else [*found, peepholes]

    def _state(self, initial: ir.Value, lead: Lead) -> ir.Value:
        """Record an initial value as ``[1, batch, width]``."""
        builder, value = self._builder, self._begun(initial, lead)
        if not self._may_lack_rows:
            return value
        rows = self._or_one(builder.shape(value, 1, 2))
        value = self._filled(value, [builder.ints(1), rows, builder.ints(self._cell.width)])
        return self._one_without_steps(value) if self._cell.is_open else value

    def _begun(self, initial: ir.Value, lead: Lead) -> ir.Value:
        """Record an initial value as ``[1, batch, width]``, repeated if the batch is larger."""
        return self._once(("state", initial), lambda: self._repeated(initial, lead))

    def _repeated(self, initial: ir.Value, lead: Lead) -> ir.Value:
        builder = self._builder
        value = as_batch(builder, initial, lead, 0)
        value = builder.op("Unsqueeze", [value, builder.ints(0)])
        if not self._cell.is_open:
            return value
        beside = [(one.initial, own, 0) for one, own in self._cell.states]
        beside += [(row, own, 1) for row, own, _ in self._given()]
        if self._cell.mask is not None:
            beside.append((self._joined.values[-1], self._cell.mask_lead, 1))
        for other, own, front in beside:
            if front or other is not initial:
                size = builder.shape(as_batch(builder, other, own, front), front, front + 1)
                dims = [builder.ints(1), self._if_runs(size), builder.ints(1)]
                value = builder.op("Expand", [value, builder.op("Concat", dims, {"axis": 0})])
        return value

    def _batch(self) -> ir.Value:
        """Record the batch, which may be 0."""
        first, lead = self._cell.states[0]
        return self._once(
            "batch", lambda: self._builder.shape(self._begun(first.initial, lead), 1, 2)
        )

    def _given(self) -> Iterable[tuple[ir.Value, Lead, int]]:
        """Return the rows of all iterations, each with the dimensions of one."""
        pairs = zip(self._joined.values, self._cell.rows, strict=False)  # The mask is behind.
        return [(value, lead, size) for value, (_, lead, size) in pairs]

    def _whole(self) -> ir.Value:
        """Record all rows side by side."""
        first, lead = self._cell.states[0]
        state = self._state(first.initial, lead)
        rows = [self._rows(*given, state) for given in self._given()]
        return rows[0] if len(rows) == 1 else self._builder.op("Concat", rows, {"axis": 2})

    def _rows(self, value: ir.Value, lead: Lead, size: int, state: ir.Value) -> ir.Value:
        """Record what iterations read as ``[steps, batch, size]``.

        Without iterations it may have no other dimension either.
        """
        builder, rows = self._builder, as_batch(self._builder, value, lead, 1)
        is_alike = not self._cell.is_open and batch_of(lead) == batch_of(self._lead)
        if is_alike and self._joined.runs and not self._may_lack_rows:
            return rows
        steps, batch = self._or_one(self._steps), builder.shape(state, 1, 2)
        if is_alike:
            return self._filled(rows, [steps, batch, builder.ints(size)])
        own = self._or_one(builder.shape(rows, 1, 2))
        rows = self._one_without_steps(self._filled(rows, [steps, own, builder.ints(size)]))
        shape = builder.op("Concat", [builder.ints(1), batch, builder.ints(1)], {"axis": 0})
        return builder.op("Expand", [rows, shape])

    def _valid(self) -> CellSteps:
        """Return what moves the steps that the mask leaves."""
        return CellSteps(self._builder, self._once("mask", self._mask), self._once)

    def _mask(self) -> ir.Value:
        """Record 1 for each step and row that is run, else 0; ``[steps, batch]``.

        Of a mask that weighs, steps whose row or first state holds NaN are run: what is multiplied
        by 0 in the Loop is NaN in all elements, and so is what the operator makes of it.
        """
        builder, mask, given = self._builder, self._cell.mask, self._joined.values[-1]
        assert mask is not None
        first, lead = self._cell.states[0]
        if self._cell.is_flag_alone:
            given = builder.op("Unsqueeze", [given, builder.ints(1)])
        if mask.weighs:
            given = builder.op("Cast", [given], {"to": int(ir.DataType.BOOL)})
        if mask.is_turned:
            given = builder.op("Not", [given])
        given = builder.op("Cast", [given], {"to": int(ir.DataType.INT64)})
        state = self._state(first.initial, lead)
        flags = self._rows(given, self._cell.mask_lead, 1, state)
        for value in (self._once("rows", self._whole), state) if mask.weighs else ():
            bad = builder.op("IsNaN", [value])
            bad = builder.op("Cast", [bad], {"to": int(ir.DataType.FLOAT)})
            bad = builder.op("ReduceSum", [bad, builder.ints(2)], {"keepdims": 1})
            bad = builder.op("Cast", [bad], {"to": int(ir.DataType.BOOL)})
            flags = builder.op("Where", [bad, builder.scalar(1), flags])
        return builder.op("Squeeze", [flags, builder.ints(2)])

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
