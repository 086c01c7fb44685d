"""Floats that are cast to bytes, which IREE takes for bytes with a sign."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.runtimes.types import Types

__all__ = ["by_way_of_integers", "is_byte_of_a_float"]


def is_byte_of_a_float(node: ir.Node, types: Types) -> bool:
    """Whether a Cast makes an integer of 8 bits without a sign of a float."""
    value = node.inputs[0]
    dtype = None if value is None else types.dtype(value)
    is_float = dtype is not None and dtype.is_floating_point()
    return is_float and node.attributes.get_int("to", 0) == int(ir.DataType.UINT8)


def by_way_of_integers(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """An integer of 32 bits in between: what fits into a byte is the same."""
    whole = builder.op("Cast", [node.inputs[0]], {"to": int(ir.DataType.INT32)})
    return [builder.op("Cast", [whole], {"to": int(ir.DataType.UINT8)})]
