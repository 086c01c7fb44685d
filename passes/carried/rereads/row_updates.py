"""Carried tensors; each iteration reads and writes its own row: ``s[i] = f(s[i])``.

No iteration meets the row of another one, so that all rows are computed side by side from the
initial ones. Whatever an iteration does to the tensor, it does to the row: ``s[i, 0] = v`` is
``row[0] = v``, and an If that writes to the tensor, or does not, yields one row or another. A row
may be numbered along any axis: ``s[:, i] = f(s[:, i])`` has columns.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.common.row_reads import needed_for, row_number, takes_all
from passes.carried.joined import Joined
from passes.carried.pattern import Pattern, Term, added, added_integers, dependent_values
from passes.carried.rereads.row_bodies import NotOwnRowError, RowBody
from passes.carried.writes.writes import is_distinct
from passes.decisions import Code
from passes.graph.graphs import is_operator, walk_nodes
from passes.graph.made import made_by, operand, operands, skip_identities
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.written_numbers import is_writable, write_number
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import Typing, ValueType

__all__ = ["RowUpdate", "find_row_update"]


@dataclasses.dataclass(frozen=True)
class RowUpdate(Pattern):
    """A carried tensor; each iteration changes one row, from that row.

    Attributes:
        terms: The row after an iteration.
        index: Which row it is.
        axis: The axis that rows are numbered along.
        between: What the tensor is behind some of the writes of an iteration.
    """

    index: Linear
    axis: int = 0
    between: tuple[ir.Value, ...] = ()
    name = "rows of its own"
    keeps_shape = "as it is made"
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Record one scatter of all rows onto the initial tensor.

        Raises:
            NotAMapError: Two iterations may have one row.
        """
        if not is_distinct(self.index, 1, joined.trips.bound):
            detail = f"two iterations may write to one place of '{self.carried.inner.name}'"
            raise NotAMapError(Code.RECURRENCE, detail, self.carried.next.producer())
        builder, (rows,) = joined.builder, joined.values
        tensor, order = self._turned(joined)
        trips = joined.trips.write(builder)
        shape = builder.op("Concat", [trips, builder.shape(tensor, 1)], {"axis": 0})
        rows = builder.op("Reshape", [rows, shape], {"allowzero": 1})  # of none nothing tells it
        count = builder.op("Squeeze", [trips, builder.ints(0)])
        numbers = builder.arange(count)
        step = builder.scalar(self.index.coefficient(ITERATION))
        first = write_number(builder, self.index.replace({ITERATION: Linear(0)}))
        places = builder.op("Add", [builder.op("Mul", [numbers, step]), first])
        column = builder.op("Unsqueeze", [places, builder.ints(1)])
        written = builder.op("ScatterND", [tensor, column, rows])
        if not self.axis:
            return written
        back = [order.index(at) for at in range(len(order))]
        return builder.op("Transpose", [written], {"perm": back})

    def _turned(self, joined: Joined) -> tuple[ir.Value, list[int]]:
        """Return the initial tensor with the axis of its rows in front, and its axes in order."""
        initial = self.carried.initial
        rest = (at for at in range(joined.typing.rank(initial) or 0) if at != self.axis)
        order = [self.axis, *rest]
        if not self.axis:
            return initial, order
        return joined.builder.op("Transpose", [initial], {"perm": order}), order


def find_row_update(carried: Carried, facts: LoopFacts, typing: Typing) -> RowUpdate | None:
    """Return what each iteration does to its own row, None if it meets any other.

    Args:
        carried: The carried tensor.
        facts: The Loop or Scan.
        typing: The proven typing; it gains the rows.
    """
    dims, found = typing.dims(carried.initial), _own_read(carried, facts)
    if not dims or found is None:
        return None
    axis, number, read = found
    first = _first_row(carried.initial, read, axis)
    row = first[-1].outputs[0]
    typing.set(row, ValueType(typing[carried.initial].type, (*dims[:axis], *dims[axis + 1 :])))
    graph = facts.iteration.body
    changed = needed_for([carried.next], graph, dependent_values(graph, carried.inner))
    body = RowBody(carried, number, axis, facts, typing)
    try:
        made, nodes = body.written(row, changed)
    except NotOwnRowError:
        return None
    term = Term(made, is_alike=True)
    return RowUpdate(carried, (term,), number, axis, tuple(body.between), nodes=(*first, *nodes))


def _own_read(carried: Carried, facts: LoopFacts) -> tuple[int, Linear, ir.Node] | None:
    """Return the axis and the number of the row that an iteration reads, and what reads it."""
    body = facts.iteration.body
    branches = {node.graph for node in walk_nodes(body)} - {body}
    for node in walk_nodes(body):
        if not is_operator(node, ("Gather", "Slice")):
            continue
        if _whole(operand(node, 0), facts) is not carried.inner:
            continue
        found = row_number(node, facts.evaluator)
        makers = [v.producer() for v in node.inputs[1:] if v is not None]
        if found is None or any(made is not None and made.graph in branches for made in makers):
            continue
        axis, number = found
        if number.coefficient(ITERATION) and is_writable(number.replace({ITERATION: Linear(0)})):
            return axis, number, node
    return None


def _whole(value: ir.Value, facts: LoopFacts) -> ir.Value:
    """Return what a value is a copy of: PyTorch writes ``s[:, i]`` as a read of ``s[:]``."""
    value = skip_identities(value)
    while (node := made_by(value, "Slice")) is not None and takes_all(node, facts.evaluator):
        value = skip_identities(operand(node, 0))
    return value


def _first_row(initial: ir.Value, read: ir.Node, axis: int) -> list[ir.Node]:
    """Return what reads of the initial tensor the row that a node reads of the carried one."""
    made = added(read.op_type, [initial, *operands(read)[1:]], dict(read.attributes))
    if read.op_type == "Gather":
        return [made]
    along = added_integers(axis)
    return [made, along, added("Squeeze", [made.outputs[0], along.outputs[0]])]
