"""Unique of integers by sorting: equal numbers lie side by side, and the first of each stays.

Floats stay as they are: what is unique among NaNs is said nowhere.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.operators import Operators

__all__ = ["sorted_unique"]


def sorted_unique(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """Record Unique of all elements of a tensor.

    ``[7, 5, 7]`` sorted is ``[5, 7, 7]``, from the places ``[1, 0, 2]``. New numbers begin at
    ``[0, 1]``: the elements are ``[5, 7]``, first seen at ``[1, 0]``; each sorted number belongs
    to ``[0, 1, 1]`` of them, which goes back to the places as ``[1, 0, 1]``; the counts are the
    distances ``[1, 2]`` between the beginnings and the end.
    """
    is_sorted = node.attributes.get_int("sorted", 1)
    if "axis" in node.attributes or not is_sorted or not dtype.is_integer():
        return None
    flat = ops.op("Reshape", [node.inputs[0], ops.ints(-1)])
    count = ops.op("Shape", [flat])
    top = ops.builder.node("TopK", [flat, count], {"axis": 0, "largest": 0}, outputs=2)
    numbers, places = top.outputs
    begins = _begins(numbers, count, ops)
    starts = ops.op("Reshape", [ops.op("NonZero", [begins]), ops.ints(-1)])
    ends = ops.op("Concat", [ops.op("Slice", [starts, ops.ints(1), count]), count], {"axis": 0})
    return [
        ops.op("Gather", [numbers, starts], {"axis": 0}),
        ops.op("Gather", [places, starts], {"axis": 0}),
        _back(begins, places, ops),
        ops.op("Sub", [_as_many(ends, starts, ops), starts]),
    ][: len(node.outputs)]


def _begins(numbers: ir.Value, count: ir.Value, ops: Operators) -> ir.Value:
    """Return which of the sorted numbers differ from the one before."""
    later = ops.op("Slice", [numbers, ops.ints(1), count])
    earlier = ops.op("Slice", [numbers, ops.ints(0), ops.ints(-1)])
    differs = ops.op("Not", [ops.op("Equal", [later, earlier])])
    first = ops.op("Reshape", [ops.builder.flag(True), ops.ints(1)])
    begins = ops.op("Concat", [first, differs], {"axis": 0})
    return ops.op("Slice", [begins, ops.ints(0), count])


def _back(begins: ir.Value, places: ir.Value, ops: Operators) -> ir.Value:
    """Return for each element the number of its value."""
    flags = ops.op("Cast", [begins], {"to": ir.DataType.INT64.value})
    which = ops.op(
        "Sub", [ops.op("CumSum", [flags, ops.builder.scalar(0)]), ops.builder.scalar(1)]
    )
    return ops.op("ScatterElements", [places, places, which], {"axis": 0})


def _as_many(ends: ir.Value, starts: ir.Value, ops: Operators) -> ir.Value:
    """Return as many ends as there are starts: of nothing there is none."""
    return ops.op("Slice", [ends, ops.ints(0), ops.op("Shape", [starts])])
