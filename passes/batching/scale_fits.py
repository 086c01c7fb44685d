"""Does a scale fit what is quantized by it? Then the operator cannot fail."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import constant_value
from passes.graph.made import operand, optional_operand
from passes.typing import Typing

__all__ = ["QUANTIZING", "scale_fits"]

QUANTIZING = frozenset({"DequantizeLinear", "QuantizeLinear"})
_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)


def scale_fits(node: ir.Node, typing: Typing) -> bool:
    """Whether one scale, or one for each place of an axis, is proven to be given.

    Args:
        node: A QuantizeLinear or DequantizeLinear.
        typing: The proven typing.
    """
    if node.attributes.get_int("block_size", 0) or not _is_of_plain_type(node, typing):
        return False
    zero = optional_operand(node, 2)
    size = typing.static_dims(operand(node, 1))
    if size is None or (zero is not None and typing.static_dims(zero) != size):
        return False
    if size in ((), (1,)):
        return True
    dims, axis = typing.dims(operand(node, 0)), node.attributes.get_int("axis", 1)
    if dims is None or len(size) != 1 or not -len(dims) <= axis < len(dims):
        return False
    return dims[axis] == size[0]


def _is_of_plain_type(node: ir.Node, typing: Typing) -> bool:
    """Whether the numbers are bytes, or int32 whose zero points are 0, as biases have them."""
    zero = optional_operand(node, 2)
    if node.op_type == "QuantizeLinear":
        of_zero = zero is not None and typing.dtype(zero) in _BYTES
        return of_zero or (zero is None and "output_dtype" not in node.attributes)
    dtype = typing.dtype(operand(node, 0))
    if dtype == ir.DataType.INT32:
        nought = None if zero is None else constant_value(zero)
        return zero is None or (nought is not None and not nought.any())
    return dtype in _BYTES
