"""The last one of all that have one place.

Sorted by place, and those of one place from the last one down, the first of each place is the
last one that has it.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder

__all__ = ["last_ones"]


def last_ones(builder: Builder, rows: ir.Value) -> ir.Value:
    """Record the numbers of those places that no later one equals, in any order.

    Args:
        builder: Records it.
        rows: The places, ``[m]``, none of them negative.
    """
    none, count = builder.ints(0), builder.op("Shape", [rows])
    many = builder.op("Squeeze", [count, none])
    numbers = builder.op("Range", [builder.scalar(0), many, builder.scalar(1)])
    keys = builder.op("Add", [builder.op("Mul", [rows, many]), numbers])
    _, order = builder.node("TopK", [keys, count], {"axis": 0}, outputs=2).outputs
    behind = builder.op("Gather", [rows, order], {"axis": 0})
    before = builder.op("Concat", [builder.ints(-1), behind], {"axis": 0})
    before = builder.op("Slice", [before, none, count])
    is_last = builder.op("Not", [builder.op("Equal", [before, behind])])
    return builder.op("Compress", [order, is_last], {"axis": 0})
