"""Values that only the graphs inside of nodes read, and that onnxruntime loses."""

from __future__ import annotations

import onnx_ir as ir

from passes.builder import Builder
from passes.runtimes.types import Types

__all__ = ["before_the_casts", "is_cast_back_and_captured"]

_CASTS = ("Cast", "CastLike")


def is_cast_back_and_captured(node: ir.Node, types: Types) -> bool:
    """Whether a value is cast to a wider type and back, and a graph inside of a node reads it.

    onnxruntime drops both casts and does not tell the readers inside of If, Loop and Scan.
    """
    return _is_captured(node.outputs[0]) and _source(node, types) is not None


def before_the_casts(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The value before both casts, which it equals."""
    source = _source(node, types)
    return None if source is None else [source]


def _source(node: ir.Node, types: Types) -> ir.Value | None:
    """Return the value that casts to wider types, then to its own again, have not changed."""
    dtype = types.dtype(node.outputs[0])
    value = node.inputs[0]
    wider: list[ir.DataType] = []
    while value is not None:
        found = types.dtype(value)
        if dtype is None or found is None:
            return None
        if found == dtype:
            return value if wider else None
        wider.append(found)
        producer = value.producer()
        if producer is None or producer.op_type not in (*_CASTS, "Identity"):
            return None
        if not _holds(found, dtype):
            return None
        value = producer.inputs[0]
    return None


def _holds(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Whether a type has all numbers of another one."""
    if narrow == ir.DataType.BOOL:
        return wide.is_integer() or wide.is_floating_point()
    if narrow.is_floating_point():
        return _holds_float(wide, narrow)
    if not (narrow.is_integer() and wide.is_integer()):
        return False
    if wide.is_signed() == narrow.is_signed():
        return wide.itemsize >= narrow.itemsize
    return wide.is_signed() and wide.itemsize > narrow.itemsize


def _holds_float(wide: ir.DataType, narrow: ir.DataType) -> bool:
    order = [ir.DataType.FLOAT, ir.DataType.DOUBLE]
    if narrow in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        return wide in order
    return narrow == ir.DataType.FLOAT and wide == ir.DataType.DOUBLE


def _is_captured(value: ir.Value) -> bool:
    """Whether a graph inside of a node reads a value."""
    producer = value.producer()
    home = None if producer is None else producer.graph
    return any(use.node.graph is not home for use in value.uses())
