"""Steps that a recurrent operator runs for each row: those that a mask does not leave out.

A step that is left out changes no state. So the operator runs the steps that are not, moved to
the front of each row, and the state of a step is found by how many of these there were up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import onnx_ir as ir

from passes.graph.builder import Builder

__all__ = ["CellSteps"]

Once = Callable[[Hashable, Callable[[], ir.Value]], ir.Value]


class CellSteps:
    """Moves the steps of each row that are run to its front, and the states back."""

    def __init__(self, builder: Builder, mask: ir.Value, once: Once) -> None:
        """Set up the work.

        Args:
            builder: Writes the graph.
            mask: 1 for each step and row that is run, 0 for what is left out: int64,
                ``[steps, batch]``, each at least 1.
            once: Records a value once for all that is read.
        """
        self._builder, self._mask, self._once = builder, mask, once

    def _counts(self) -> ir.Value:
        """Record how many steps of each row are run up to each step."""
        builder = self._builder
        return self._once("counts", lambda: builder.op("CumSum", [self._mask, builder.scalar(0)]))

    def _order(self) -> ir.Value:
        """Record which step comes at each place."""
        builder, count = self._builder, self._builder.dimension(self._mask, 0)
        steps = builder.arange(builder.op("Squeeze", [count]))
        steps = builder.op("Unsqueeze", [steps, builder.ints(1)])
        first = builder.op("Mul", [self._mask, count])  # No two keys of a row are equal.
        keys = builder.op("Sub", [first, steps])
        return builder.node("TopK", [keys, count], {"axis": 0}, outputs=2).outputs[1]

    def moved(self, rows: ir.Value, size: int) -> ir.Value:
        """Record ``[steps, batch, size]`` with the steps that are run in front."""
        return self._rows_of(rows, self._order(), size)

    def behind_each(self, states: ir.Value, initial: ir.Value, size: int) -> ir.Value:
        """Record the states behind each step, ``[steps, batch, size]``.

        Args:
            states: The states behind each of the steps that were moved.
            initial: The first states, ``[1, batch, size]``.
            size: Their last dimension.
        """
        return self._rows_of(self._with(initial, states), self._counts(), size)

    def behind_all(self, states: ir.Value, initial: ir.Value, size: int) -> ir.Value:
        """Record the states behind the last step, ``[batch, size]``; see `behind_each`."""
        return self._rows_of(self._with(initial, states), self._run(), size)

    def lengths(self) -> ir.Value:
        """Record for each row how many steps are run, at least 1, as recurrent operators ask."""
        builder, count = self._builder, self._run()
        is_none = builder.op("Equal", [count, builder.scalar(0)])
        least = builder.op("Where", [is_none, builder.scalar(1), count])
        return builder.op("Cast", [least], {"to": int(ir.DataType.INT32)})

    def or_initial(self, last: ir.Value, initial: ir.Value) -> ir.Value:
        """Record ``last``, ``[batch, size]``, and ``initial`` where a row runs no step."""
        builder = self._builder
        runs = builder.op("Greater", [self._run(), builder.scalar(0)])
        runs = builder.op("Unsqueeze", [runs, builder.ints(1)])
        initial = builder.op("Squeeze", [initial, builder.ints(0)])
        return builder.op("Where", [runs, last, initial])

    def _run(self) -> ir.Value:
        """Record how many steps of each row are run."""
        return self._builder.op("Gather", [self._counts(), self._builder.scalar(-1)], {"axis": 0})

    def _with(self, initial: ir.Value, states: ir.Value) -> ir.Value:
        return self._builder.op("Concat", [initial, states], {"axis": 0})

    def _rows_of(self, rows: ir.Value, places: ir.Value, size: int) -> ir.Value:
        """Record for each row what stands at some places of it: a Gather of whole vectors."""
        builder = self._builder
        flat = builder.op("Reshape", [rows, builder.ints(-1, size)])
        batch = builder.op("Squeeze", [builder.dimension(self._mask, 1)])
        columns = self._once("columns", lambda: builder.arange(batch))
        at = builder.op("Add", [builder.op("Mul", [places, batch]), columns])
        return builder.op("Gather", [flat, at], {"axis": 0})
