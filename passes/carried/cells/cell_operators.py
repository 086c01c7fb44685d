"""Recurrent operators that a Loop runs for one step in each iteration.

PyTorch writes ``nn.LSTMCell`` as an LSTM of one step, and so is ``nn.LSTM`` that a program calls
step by step. The weights and attributes stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.cells.cell_kinds import CellKind
from passes.carried.cells.cell_reading import CellReader
from passes.carried.cells.cell_sums import NotACellError
from passes.carried.cells.cell_weights import check_moves
from passes.carried.pattern import dependent_values
from passes.graph.graphs import is_operator
from passes.graph.made import axes_of, made_by, operand, optional_operand, skip_identities
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried

__all__ = ["find_operator", "without_first_axes"]

_STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
"""How many states an operator has."""

_ROWS, _WEIGHTS, _LENGTHS, _INITIAL, _PEEPHOLES = 0, (1, 2, 3), 4, 5, 7


def find_operator(
    states: Sequence[Carried], facts: LoopFacts, reader: CellReader
) -> tuple[CellKind, ir.Value]:
    """Return the operator that computes some states, and what it reads in an iteration.

    Args:
        states: The states, in the order of the operator.
        facts: The Loop or Scan.
        reader: Knows the dimensions of rows.

    Raises:
        NotACellError: There is none.
    """
    node = without_first_axes(states[0].next)[0].producer()
    if not is_operator(node, _STATES) or _STATES[node.op_type] != len(states):
        raise NotACellError
    attributes = dict(node.attributes)
    is_forward = node.attributes.get_string("direction", "forward") == "forward"
    if not is_forward or node.attributes.get_int("layout", 0) != 0:
        raise NotACellError
    if optional_operand(node, _LENGTHS) or optional_operand(node, _PEEPHOLES):
        raise NotACellError
    for at, one in enumerate(states):
        given = optional_operand(node, _INITIAL + at)
        begin, added = (None, 0) if given is None else without_first_axes(given)
        end, left_out = without_first_axes(one.next)
        if begin is not one.inner or end is not node.outputs[1 + at] or added + left_out:
            raise NotACellError
    rows, weights = operand(node, _ROWS), [optional_operand(node, at) for at in _WEIGHTS]
    own = dependent_values(facts.iteration.body, *(one.inner for one in states))
    lead = () if rows in own else reader.dims(rows)[0]
    if len(lead) != 2 or lead[0] != 1:
        raise NotACellError
    for weight in weights:
        if weight is not None:
            check_moves(weight, facts)
    return CellKind(node.op_type, (), attributes, tuple(weights), node), rows


def without_first_axes(value: ir.Value) -> tuple[ir.Value, int]:
    """Return what a value is but for first axes of size 1, and how many of these it has more."""
    more = 0
    while (node := made_by(value, "Squeeze", "Unsqueeze")) is not None and axes_of(node) == [0]:
        value = operand(node, 0)
        more += 1 if node.op_type == "Unsqueeze" else -1
    return skip_identities(value), more
