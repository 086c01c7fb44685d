"""GRU and LSTM: onnxruntime makes numbers of NaN."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import END, Builder
from passes.graph.graphs import PATH_KEY
from passes.graph.made import operand, optional_operand
from passes.runtimes.types import Types

__all__ = ["loses_nan", "with_nan"]

_ROWS, _LENGTHS, _INITIAL, _KEPT = 0, 4, 5, 6
_KEY = "seqmap.nan"
"""Note on a node, which no file holds: NaN is added to its results."""


def loses_nan(node: ir.Node, types: Types) -> bool:
    """Whether an operator that runs forward may read NaN.

    One that the author wrote in a body makes the same numbers of NaN there.
    """
    is_forward = node.attributes.get_string("direction", "forward") == "forward"
    if not is_forward or node.attributes.get_int("layout", 0) != 0:
        return False
    if optional_operand(node, _LENGTHS) is not None or node.meta.keys() & {PATH_KEY, _KEY}:
        return False
    return types.dtype(operand(node, _ROWS)) == ir.DataType.FLOAT


def with_nan(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The operator, and NaN added to what NaN reaches.

    Of the rows ``[1, NaN, 3]`` the second and third states hold nothing but NaN. A NaN of the
    first ``c`` of an LSTM is one element of its first state, and all elements of the others.
    """
    zero = builder.constant(np.zeros((), np.float32))

    def nan_of(value: ir.Value) -> ir.Value:
        """Record NaN where a row holds one, and 0 elsewhere."""
        alone = builder.op("Where", [builder.op("IsNaN", [value]), value, zero])
        return builder.op("ReduceSum", [alone, builder.ints(2)], {"keepdims": 0})

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
        later = builder.op("Add", [steps(reached, 1, END), nan_of(kept)])
        reached = builder.op("Concat", [steps(reached, 0, 1), later], {"axis": 0})
    results = [builder.op("Add", [states, builder.op("Unsqueeze", [reached, builder.ints(1, 3)])])]
    if last:
        end = builder.op("Gather", [reached, builder.ints(-1)], {"axis": 0})
        end = builder.op("Unsqueeze", [end, builder.ints(2)])
        results += [builder.op("Add", [one, end]) for one in last]
    return results
