"""Reshape to dimensions that are all given, a 0 among them, where Reshape takes a 0 for a copy.

Before opset 14 a 0 in the target of Reshape means the dimension that the operand has there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_default_domain

__all__ = ["padded", "reshape_without_zeros"]

_PADDED = frozenset(
    {
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT,
        ir.DataType.INT8,
        ir.DataType.INT32,
        ir.DataType.INT64,
        ir.DataType.UINT8,
        ir.DataType.UINT32,
        ir.DataType.UINT64,
    }
)


def padded(opset: int) -> frozenset[ir.DataType]:
    """Return the element types that ONNX and onnxruntime pad."""
    return _PADDED | {ir.DataType.BOOL} if opset >= 13 else _PADDED


def reshape_without_zeros(builder: Builder, value: ir.Value, target: ir.Value) -> ir.Value:
    """Record a Reshape; each of the dimensions may be 0.

    Where all but one of them are positive constants, that one is a -1. Otherwise zeros are
    appended so that each dimension is at least 1, and cut off again; the element type must be
    one of `padded` for that.

    Args:
        builder: Records the nodes.
        value: What is reshaped, of numbers; the opset is 11 at least.
        target: As many elements as the value has, int64 ``[rank]``.
    """
    known = _with_one_open(target)
    if known is not None:
        return builder.op("Reshape", [value, builder.ints(*known)])
    is_zero = builder.op("Equal", [target, builder.ints(0)])
    whole = builder.op("Where", [is_zero, builder.ints(1), target])
    flat = builder.op("Reshape", [value, builder.ints(-1)])
    missing = builder.op(
        "Sub",
        [builder.op("ReduceProd", [whole], {"keepdims": 1}), builder.op("Shape", [flat])],
    )
    pads = builder.op("Concat", [builder.ints(0), missing], {"axis": 0})
    filled = builder.op("Reshape", [builder.op("Pad", [flat, pads]), whole])
    zero = ir.tensor(np.zeros(1, np.int64))
    starts = builder.op("ConstantOfShape", [builder.op("Shape", [target])], {"value": zero})
    return builder.op("Slice", [filled, starts, target])


def _with_one_open(target: ir.Value) -> list[int] | None:
    """Return the dimensions, -1 for one that is not constant; None if others may be 0."""
    constant = constant_value(target)
    node = target.producer()
    if constant is not None:
        dims: list[int] | None = [int(n) for n in constant]
    elif node is not None and node.op_type == "Concat" and is_default_domain(node):
        dims = _parts(node.inputs)
    else:
        return None
    if dims is None or dims.count(-1) > 1 or any(n == 0 for n in dims):
        return None
    return dims


def _parts(values: Sequence[ir.Value | None]) -> list[int] | None:
    dims: list[int] = []
    for value in values:
        constant = None if value is None else constant_value(value)
        if constant is not None:
            dims += [int(n) for n in constant]
        elif value is not None and _is_one_number(value):
            dims.append(-1)
        else:
            return None
    return dims


def _is_one_number(value: ir.Value) -> bool:
    """Whether a vector is proven to have one entry."""
    node = value.producer()
    if node is None or not is_default_domain(node) or len(node.inputs) < 2:
        return False
    picked = [constant_value(v) for v in node.inputs[1:3]]
    if node.op_type == "Gather":
        return picked[0] is not None and picked[0].shape == (1,)
    if node.op_type == "Slice" and len(picked) == 2 and len(node.inputs) == 3:
        start, end = picked
        return start is not None and end is not None and bool(start >= 0 and end - start == 1)
    return False
