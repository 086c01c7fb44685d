"""Do the bytes of a tensor fit its element type and shape?"""

from __future__ import annotations

import math

import onnx
import onnx_ir as ir

from rewriter.errors import ModelError

__all__ = ["AGAIN", "check_bytes", "size_in_bytes"]

AGAIN = "export the model again"
# Fields of a message that hold numbers of these types; all others stand in int32_data.
_FIELDS = {
    ir.DataType.FLOAT: "float_data",
    ir.DataType.COMPLEX64: "float_data",
    ir.DataType.DOUBLE: "double_data",
    ir.DataType.COMPLEX128: "double_data",
    ir.DataType.INT64: "int64_data",
    ir.DataType.UINT32: "uint64_data",
    ir.DataType.UINT64: "uint64_data",
    ir.DataType.STRING: "string_data",
}
# In numbers of 16 bytes these are all that an address can reach.
_MOST_NUMBERS = 2**59 - 1
_COMPLEX = (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128)


def check_bytes(tensor: onnx.TensorProto, where: str) -> None:
    """Refuse a tensor that holds more or fewer numbers than its shape says.

    Of a tensor in another file only the type and the shape are looked at.

    Args:
        tensor: The tensor.
        where: What it is, for messages.

    Raises:
        ModelError: The element type is not known, a dimension is negative, or the bytes do not
            fit.
    """
    dtype = _dtype(tensor, where)
    if any(dim < 0 for dim in tensor.dims):
        raise ModelError(f"{where} has the shape {list(tensor.dims)}: {AGAIN}")
    # A dimension of 0 does not help: numpy counts the bytes of the others.
    if math.prod(filter(None, tensor.dims)) > _MOST_NUMBERS:
        raise ModelError(
            f"{where} has the shape {list(tensor.dims)}, which no array can have: {AGAIN}"
        )
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return
    if tensor.HasField("raw_data") and dtype != ir.DataType.STRING:
        given, wanted, unit = len(tensor.raw_data), size_in_bytes(tensor), "bytes"
    else:
        field = _FIELDS.get(dtype, "int32_data")
        given, wanted, unit = len(getattr(tensor, field)), _entries(tensor, dtype), "numbers"
    if given != wanted:
        raise ModelError(
            f"{where} is declared {dtype.name.lower()}{list(tensor.dims)}, which takes {wanted} "
            f"{unit}, and holds {given}: {AGAIN}"
        )


def size_in_bytes(tensor: onnx.TensorProto) -> int:
    """Return how many bytes the numbers of a tensor take."""
    return math.ceil(math.prod(tensor.dims) * ir.DataType(tensor.data_type).bitwidth / 8)


def _dtype(tensor: onnx.TensorProto, where: str) -> ir.DataType:
    try:
        dtype = ir.DataType(tensor.data_type)
    except ValueError:
        dtype = ir.DataType.UNDEFINED
    if dtype == ir.DataType.UNDEFINED:
        raise ModelError(
            f"{where} has the element type {tensor.data_type}, which is not known: {AGAIN}"
        )
    return dtype


def _entries(tensor: onnx.TensorProto, dtype: ir.DataType) -> int:
    number = math.prod(tensor.dims)
    if dtype in _COMPLEX:
        return 2 * number
    if dtype != ir.DataType.STRING and dtype.bitwidth < 8:
        return math.ceil(number * dtype.bitwidth / 8)
    return number
