"""GRU, LSTM, and RNN of some activations: onnxruntime makes numbers of NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.graph.builder import END, Builder
from passes.graph.graphs import PATH_KEY
from passes.graph.made import operand, optional_operand
from passes.runtimes.types import Types

__all__ = ["loses_nan", "with_nan"]

_ROWS, _LENGTHS, _INITIAL, _KEPT = 0, 4, 5, 6
_LOSING = frozenset({"HardSigmoid", "Relu"})
"""Activations by which an RNN, and ``h`` of an LSTM, are numbers for NaN."""

_KEY = "seqmap.nan"
"""Note on a node, which no file holds: NaN is added to its results."""


def loses_nan(node: ir.Node, types: Types) -> bool:
    """Whether an operator that runs forward may read NaN.

    One that the author wrote in a body makes the same numbers of NaN there.
    """
    is_forward = node.attributes.get_string("direction", "forward") == "forward"
    if not is_forward or node.attributes.get_int("layout", 0) != 0:
        return False
    if node.op_type == "RNN" and _LOSING.isdisjoint(_activations(node)):
        return False
    if node.meta.keys() & {PATH_KEY, _KEY}:
        return False
    return types.dtype(operand(node, _ROWS)) == ir.DataType.FLOAT


def with_nan(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The operator, and NaN added to what NaN reaches.

    Of the rows ``[1, NaN, 3]`` the second and third states hold nothing but NaN. A NaN of the
    first ``c`` of an LSTM is one element of its first state, and all elements of the others. Of
    rows behind the length of a sample nothing is read, and the states there stay zeros.
    """
    zero = builder.constant(np.zeros((), np.float32))

    def alone(value: ir.Value) -> ir.Value:
        """Record NaN where a value is NaN, and 0 elsewhere."""
        return builder.op("Where", [builder.op("IsNaN", [value]), value, zero])

    def nan_of(value: ir.Value) -> ir.Value:
        """Record NaN where a row holds one, and 0 elsewhere."""
        return builder.op("ReduceSum", [alone(value), builder.ints(2)])

    def steps(value: ir.Value, start: int, end: int) -> ir.Value:
        bounds = [builder.ints(number) for number in (start, end, 0)]
        return builder.op("Slice", [value, *bounds])

    made = builder.node(node.op_type, node.inputs, node.attributes, outputs=len(node.outputs))
    made.meta[_KEY] = True
    states, *last = made.outputs
    reached = builder.op("CumSum", [nan_of(operand(node, _ROWS)), builder.scalar(0)])
    initial, kept = (optional_operand(node, at) for at in (_INITIAL, _KEPT))
    if initial is not None:
        reached = builder.op("Add", [reached, nan_of(initial)])
    if kept is not None:
        first = steps(reached, 0, 1)
        later = builder.op("Add", [steps(reached, 1, END), nan_of(kept)])
        if not _LOSING.isdisjoint(_activations(node)[2:]):
            first = builder.op("Add", [first, alone(kept)])
            wide = np.zeros(node.attributes["hidden_size"].as_int(), np.float32)
            later = builder.op("Add", [later, builder.constant(wide)])
        reached = builder.op("Concat", [first, later], {"axis": 0})
    end = builder.op("Gather", [reached, builder.ints(-1)], {"axis": 0})
    if (lengths := optional_operand(node, _LENGTHS)) is not None:
        left = _left(lengths, reached, builder)
        is_last = builder.op("Equal", [left, builder.scalar(1)])
        is_read = builder.op("Greater", [left, builder.scalar(0)])
        end = builder.op("Where", [is_last, reached, zero])
        end = builder.op("ReduceSum", [end, builder.ints(0)])
        reached = builder.op("Where", [is_read, reached, zero])
    reached = builder.op("Unsqueeze", [reached, builder.ints(1)])
    return [
        builder.op("Add", [states, reached]),
        *(builder.op("Add", [one, end]) for one in last),
    ]


def _left(lengths: ir.Value, rows: ir.Value, builder: Builder) -> ir.Value:
    """Record how many steps a sample has from each step on: ``[steps, batch, 1]``."""
    count = builder.op("Squeeze", [builder.dimension(rows, 0)])
    number = builder.op("Unsqueeze", [builder.arange(count), builder.ints(1)])
    ends = builder.op("Cast", [lengths], {"to": int(ir.DataType.INT64)})
    return builder.op("Unsqueeze", [builder.op("Sub", [ends, number]), builder.ints(2)])


def _activations(node: ir.Node) -> Sequence[str]:
    return node.attributes.get_strings("activations", ())
