"""Where of element types that onnxruntime has no kernel for."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.made import operand, operands
from passes.runtimes.types import Types

__all__ = ["has_no_kernel", "of_another_type"]

_ANOTHER = {
    ir.DataType.BOOL: ir.DataType.UINT8,
    ir.DataType.INT16: ir.DataType.INT32,
    ir.DataType.UINT16: ir.DataType.INT32,
    ir.DataType.UINT64: ir.DataType.INT64,
    ir.DataType.BFLOAT16: ir.DataType.FLOAT,
}
"""A type that has a kernel, for each that has none: every number comes back from it as it was."""


def has_no_kernel(node: ir.Node, types: Types) -> bool:
    """Whether a Where chooses between numbers of a type without a kernel."""
    return types.dtype(operand(node, 1)) in _ANOTHER


def of_another_type(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value]:
    """A choice of the same numbers in a type that has a kernel, and back."""
    flags, *sides = operands(node)
    dtype = types.dtype(sides[0])
    assert dtype is not None
    cast = [builder.op("Cast", [side], {"to": int(_ANOTHER[dtype])}) for side in sides]
    chosen = builder.op("Where", [flags, *cast])
    return [builder.op("Cast", [chosen], {"to": int(dtype)})]
