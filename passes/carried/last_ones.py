"""The last one of all that have one place.

Sorted by place, and those of one place from the last one down, the first of each place is the
last one that has it.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder

__all__ = ["OLDEST_SCATTER", "last_ones"]


OLDEST_SCATTER = 18
"""The first opset in which a scatter keeps the largest number that goes to a place."""


def last_ones(builder: Builder, rows: ir.Value, size: ir.Value | None = None) -> ir.Value:
    """Record the numbers of those places that no later one equals, in any order.

    Args:
        builder: Records it.
        rows: The places, ``[m]``, none of them negative.
        size: How many places there are, ``[1]``; none of those given is larger. With it nothing is
            sorted: one scatter tells each place who comes last.
    """
    none, count = builder.ints(0), builder.op("Shape", [rows])
    many = builder.op("Squeeze", [count, none])
    numbers = builder.arange(many)
    if size is not None:
        nobody = builder.op("Expand", [builder.scalar(-1), size])
        attributes = {"axis": 0, "reduction": "max"}
        last = builder.op("ScatterElements", [nobody, rows, numbers], attributes)
        is_last = builder.op("Equal", [builder.op("Gather", [last, rows], {"axis": 0}), numbers])
        return builder.op("Compress", [numbers, is_last], {"axis": 0})
    keys = builder.op("Add", [builder.op("Mul", [rows, many]), numbers])
    _, order = builder.node("TopK", [keys, count], {"axis": 0}, outputs=2).outputs
    behind = builder.op("Gather", [rows, order], {"axis": 0})
    before = builder.op("Concat", [builder.ints(-1), behind], {"axis": 0})
    before = builder.op("Slice", [before, none, count])
    is_last = builder.op("Not", [builder.op("Equal", [before, behind])])
    return builder.op("Compress", [order, is_last], {"axis": 0})
