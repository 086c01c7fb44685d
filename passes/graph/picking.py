"""Picks one of two values by a boolean; onnxruntime has no Where of some element types."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder

__all__ = ["can_pick", "pick"]

_PICKED = frozenset(
    {
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        ir.DataType.INT8,
        ir.DataType.UINT8,
        ir.DataType.INT32,
        ir.DataType.UINT32,
        ir.DataType.INT64,
        ir.DataType.STRING,
    }
)
"""Element types for which onnxruntime has Where."""

_THROUGH = {
    ir.DataType.INT16: ir.DataType.INT32,
    ir.DataType.UINT16: ir.DataType.INT32,
    ir.DataType.BFLOAT16: ir.DataType.FLOAT,
}
"""Other element types, and one that holds all their numbers."""


def can_pick(dtype: ir.DataType | None) -> bool:
    """Whether onnxruntime has operators that pick from values of an element type."""
    return dtype == ir.DataType.BOOL or dtype in _PICKED or dtype in _THROUGH


def pick(
    builder: Builder,
    condition: ir.Value,
    one: ir.Value,
    other: ir.Value,
    dtype: ir.DataType | None,
) -> ir.Value:
    """Record the choice between two values, element by element.

    Args:
        builder: Records the nodes.
        condition: Where ``one`` is taken, a boolean tensor.
        one: A value.
        other: Another one; all three broadcast.
        dtype: Their element type, None where it is not known.
    """
    if dtype == ir.DataType.BOOL:
        first = builder.op("And", [condition, one])
        second = builder.op("And", [builder.op("Not", [condition]), other])
        return builder.op("Or", [first, second])
    through = None if dtype is None else _THROUGH.get(dtype)
    if through is None:
        return builder.op("Where", [condition, one, other])
    cast = [builder.op("Cast", [value], {"to": through}) for value in (one, other)]
    return builder.op("Cast", [builder.op("Where", [condition, *cast])], {"to": dtype})
