"""What a sample alone would have failed on, checked for all samples in the graph."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.operators import Operators

__all__ = ["failing_where"]


def failing_where(ops: Operators, value: ir.Value, flags: Sequence[ir.Value]) -> ir.Value:
    """Return a value that is an error at run time if a flag of any sample is set.

    Reshape fails, since the target has more elements than the value. Without samples no flag
    is set.

    Args:
        ops: Records the nodes.
        value: A number of each sample, ``[B]``.
        flags: Flags of each sample, ``bool[B]``; none leave the value as it is.
    """
    if not flags:
        return value
    bad = flags[0]
    for flag in flags[1:]:
        bad = ops.op("Or", [bad, flag])
    number = ops.op("Cast", [bad], {"to": ir.DataType.INT64})
    count = ops.reduce("ReduceSum", number, [0])
    return ops.op("Reshape", [value, ops.op("Add", [ops.op("Shape", [value]), count])])
