"""Running sums of integers for a device whose CumSum computes floats only.

Each place takes what stands 1, 2, 4, ... places in front of it, in as many steps as the length has
bits: ``[1, 1, 1, 1]`` becomes ``[1, 2, 2, 2]`` and then ``[1, 2, 3, 4]``. No digit is lost.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.operators import Operators
from passes.graph.graphs import constant_value
from passes.graph.made import operand

__all__ = ["running_sum"]

_STEPS = 31
"""Devices that are asked have no axis of 2^31 places."""


def running_sum(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """Add what is shifted by powers of 2; None for floats, which round, and for an open axis.

    Args:
        node: A CumSum.
        dtype: The type of its elements.
        ops: Records the form.
    """
    x, axis = operand(node, 0), constant_value(operand(node, 1))
    if dtype not in (ir.DataType.INT32, ir.DataType.INT64) or axis is None:
        return None
    place = int(axis.reshape(()))
    is_reversed = bool(node.attributes.get_int("reverse", 0))
    count = ops.shape(x, place, place + 1 if place != -1 else None)
    shifts = ops.op("Min", [ops.ints(*(2**step for step in range(_STEPS))), count])
    starts = shifts if is_reversed else ops.op("Sub", [count, shifts])
    bounds = [_parts(one, ops) for one in (starts, ops.op("Add", [starts, count]))]
    nothing, total = ops.op("Sub", [x, x]), x
    for start, end in zip(*bounds, strict=True):
        pair = [total, nothing] if is_reversed else [nothing, total]
        both = ops.op("Concat", pair, {"axis": place})
        shifted = ops.op("Slice", [both, start, end, ops.ints(place)])
        total = ops.op("Add", [total, shifted])
    return [ops.op("Sub", [total, x]) if node.attributes.get_int("exclusive", 0) else total]


def _parts(numbers: ir.Value, ops: Operators) -> list[ir.Value]:
    """Return each number of a vector as a vector."""
    inputs = [numbers, ops.ints(*[1] * _STEPS)]
    return list(ops.builder.node("Split", inputs, {"axis": 0}, outputs=_STEPS).outputs)
