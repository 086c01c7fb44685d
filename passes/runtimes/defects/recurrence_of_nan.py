"""GRU, LSTM, and RNN of some activations: onnxruntime makes numbers of NaN."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.graph.builder import END, Builder
from passes.graph.graphs import PATH_KEY
from passes.graph.made import operand, optional_operand
from passes.runtimes.types import Types

__all__ = ["loses_nan", "with_nan", "with_nan_asked"]

_ROWS, _WEIGHTS, _LENGTHS, _INITIAL, _KEPT = 0, 1, 4, 5, 6
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

    Of the rows ``[1, NaN, 3]`` the second and third states hold nothing but NaN. So do those of
    a row with infinite numbers of both signs behind the weights, a unit each: the product of rows
    and weights tells, which is computed once more. A NaN of the first ``c`` of an LSTM is one
    element of its first state, and all elements of the others. Of rows behind the length of a
    sample nothing is read, and the states there stay zeros.
    """
    made = _same(node, builder)
    return _spoilt(made, _reached(node, builder), builder)


def with_nan_asked(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """`with_nan`, computed where an input holds anything but finite numbers."""
    made = _same(node, builder)
    zero = builder.constant(np.zeros((), np.float32))
    read = [optional_operand(node, at) for at in (_ROWS, _INITIAL, _KEPT)]
    sums = [
        builder.op("ReduceSum", [builder.op("Mul", [one, zero])], {"keepdims": 0})
        for one in read
        if one is not None
    ]
    total = functools.reduce(lambda one, other: builder.op("Add", [one, other]), sums)
    asked = builder.op("IsNaN", [total])  # as 0 times a number that is not finite is
    count = len(node.outputs)

    def write_none(inner: Builder) -> list[ir.Value]:
        ranks = (4, 3, 3)[:count]
        return [inner.constant(np.zeros((1,) * rank, np.float32)) for rank in ranks]

    graphs = {
        "then_branch": builder.subgraph("spoilt", [], lambda inner: _reached(node, inner)),
        "else_branch": builder.subgraph("finite", [], write_none),
    }
    return _spoilt(made, builder.node("If", [asked], graphs, outputs=count).outputs, builder)


def _same(node: ir.Node, builder: Builder) -> ir.Node:
    made = builder.node(node.op_type, node.inputs, node.attributes, outputs=len(node.outputs))
    made.meta[_KEY] = True
    return made


def _spoilt(made: ir.Node, reached: Sequence[ir.Value], builder: Builder) -> list[ir.Value]:
    """Add what reaches all states, and the last ones, to what an operator yields."""
    pairs = zip(made.outputs, reached, strict=True)
    return [builder.op("Add", [one, spoilt]) for one, spoilt in pairs]


def _reached(node: ir.Node, builder: Builder) -> list[ir.Value]:
    """Record NaN for what NaN reaches, and 0: states ``[T, 1, B, H]``, and the last ones."""
    zero = builder.constant(np.zeros((), np.float32))

    def alone(value: ir.Value) -> ir.Value:
        """Record NaN where a value is NaN, and 0 elsewhere."""
        return builder.op("Where", [builder.op("IsNaN", [value]), value, zero])

    def any_of(value: ir.Value) -> ir.Value:
        """Record NaN where a row holds one, and 0 elsewhere."""
        return builder.op("ReduceSum", [value, builder.ints(2)])

    def steps(value: ir.Value, start: int, end: int) -> ir.Value:
        bounds = [builder.ints(number) for number in (start, end, 0)]
        return builder.op("Slice", [value, *bounds])

    gates = alone(_gates(node, builder))
    initial, kept = (optional_operand(node, at) for at in (_INITIAL, _KEPT))
    left = None
    if (lengths := optional_operand(node, _LENGTHS)) is not None:
        left = _left(lengths, gates, builder)

    def reached(own: ir.Value, ahead: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Record what NaN of a row and of those ahead reaches, and that at the end."""
        found = builder.op("Add", [own, ahead])
        if initial is not None:
            found = builder.op("Add", [found, any_of(alone(initial))])
        if kept is not None:
            first = steps(found, 0, 1)
            later = builder.op("Add", [steps(found, 1, END), any_of(alone(kept))])
            if not _LOSING.isdisjoint(_activations(node)[2:]):
                first = builder.op("Add", [first, alone(kept)])
            found = builder.op("Concat", [first, later], {"axis": 0})
        if left is None:
            return found, builder.op("Gather", [found, builder.ints(-1)], {"axis": 0})
        is_last = builder.op("Equal", [left, builder.scalar(1)])
        is_read = builder.op("Greater", [left, builder.scalar(0)])
        end = builder.op("Where", [is_last, found, zero])
        end = builder.op("ReduceSum", [end, builder.ints(0)])
        return builder.op("Where", [is_read, found, zero]), end

    # A state reads its own row, and all units of the one before.
    own, *others = _units(node, gates, builder)
    before = builder.op("CumSum", [any_of(own), builder.scalar(0)], {"exclusive": 1})
    everywhere, end = reached(own, before)
    ends = [end, *(reached(other, before)[1] for other in others)]
    return [builder.op("Unsqueeze", [everywhere, builder.ints(1)]), *ends[: len(node.outputs) - 1]]


def _gates(node: ir.Node, builder: Builder) -> ir.Value:
    """Record the products of rows and weights: ``[T, B, gates * H]``, NaN where a gate is.

    Softsign of what is infinite is NaN.
    """
    weights = builder.op("Transpose", [operand(node, _WEIGHTS)], {"perm": [0, 2, 1]})
    gates = builder.op("MatMul", [operand(node, _ROWS), weights])
    if "Softsign" in _activations(node):
        gates = builder.op("Sub", [gates, gates])
    return gates


def _units(node: ir.Node, gates: ir.Value, builder: Builder) -> list[ir.Value]:
    """Record NaN for the units one of whose gates is: those of ``h``, ``[T, B, H]``, and of ``c``.

    The second gate of a GRU that resets in front of the product reaches all units; that of an
    LSTM is the output's, which ``c`` does not read.
    """
    if node.op_type == "RNN":
        return [gates]
    size = node.attributes["hidden_size"].as_int()
    by_gate = builder.op("Reshape", [gates, builder.ints(0, 0, -1, size)])

    def units(value: ir.Value) -> ir.Value:
        return builder.op("ReduceSum", [value, builder.ints(2)], {"keepdims": 0})

    if node.op_type == "LSTM":
        read = builder.op("Gather", [by_gate, builder.ints(0, 2, 3)], {"axis": 2})
        return [units(by_gate), units(read)]
    if node.attributes.get_int("linear_before_reset", 0):
        return [units(by_gate)]
    resets = builder.op("Gather", [by_gate, builder.scalar(1)], {"axis": 2})
    everywhere = builder.op("ReduceSum", [resets, builder.ints(2)])
    return [builder.op("Add", [units(by_gate), everywhere])]


def _left(lengths: ir.Value, rows: ir.Value, builder: Builder) -> ir.Value:
    """Record how many steps a sample has from each step on: ``[steps, batch, 1]``."""
    count = builder.op("Squeeze", [builder.dimension(rows, 0)])
    number = builder.op("Unsqueeze", [builder.arange(count), builder.ints(1)])
    ends = builder.op("Cast", [lengths], {"to": int(ir.DataType.INT64)})
    return builder.op("Unsqueeze", [builder.op("Sub", [ends, number]), builder.ints(2)])


def _activations(node: ir.Node) -> Sequence[str]:
    return node.attributes.get_strings("activations", ())
