"""Lines of Triton's ``config.pbtxt`` about inputs and outputs."""

from __future__ import annotations

import json

import onnx_ir as ir

from passes.errors import RewriteError
from passes.tensors.io import PassedSequence

__all__ = ["RAGGED", "input_lines", "quoted", "rest_of", "tensor_fields"]

_TYPES = {
    ir.DataType.BOOL: "TYPE_BOOL",
    ir.DataType.UINT8: "TYPE_UINT8",
    ir.DataType.UINT16: "TYPE_UINT16",
    ir.DataType.UINT32: "TYPE_UINT32",
    ir.DataType.UINT64: "TYPE_UINT64",
    ir.DataType.INT8: "TYPE_INT8",
    ir.DataType.INT16: "TYPE_INT16",
    ir.DataType.INT32: "TYPE_INT32",
    ir.DataType.INT64: "TYPE_INT64",
    ir.DataType.FLOAT16: "TYPE_FP16",
    ir.DataType.FLOAT: "TYPE_FP32",
    ir.DataType.DOUBLE: "TYPE_FP64",
    ir.DataType.STRING: "TYPE_STRING",
}
"""What Triton calls the types that its backend for onnxruntime passes on."""
RAGGED = ("packed", "flat")
"""The forms whose samples lie one behind the other, as Triton joins them."""


def rest_of(sequence: PassedSequence) -> tuple[int | str | None, ...]:
    """Return the dimensions of an element behind those that its lengths or sizes tell."""
    dims = (None,) if sequence.dims is None else sequence.dims
    return dims[sequence.span[1] :] if sequence.form in RAGGED else dims


def input_lines(name: str, value: ir.Value, sequence: PassedSequence) -> list[str]:
    """Return the lines of an input: itself, and where it is ragged the shapes of its parts."""
    is_ragged = sequence.form in RAGGED
    ragged = " allow_ragged_batch: true" if is_ragged else ""
    lines = [f"input {{ {tensor_fields(name, value, sequence)}{ragged} }}"]
    if is_ragged:
        lines.append(
            "batch_input { kind: BATCH_ITEM_SHAPE "
            f"target_name: {quoted(sequence.lengths)} data_type: TYPE_INT32 "
            f"source_input: {quoted(name)} }}"
        )
    return lines


def tensor_fields(name: str, value: ir.Value, sequence: PassedSequence) -> str:
    """Return the name, type and dimensions of an input or output.

    Raises:
        RewriteError: Triton does not pass its type to onnxruntime.
    """
    known = rest_of(sequence) if sequence.dims is None else sequence.dims
    dims = [dim if isinstance(dim, int) else -1 for dim in known]
    if sequence.form == "packed":
        dims[:1] = [-1]
    # Triton asks for a dimension, so that a scalar travels as a vector of one.
    scalar = "" if dims else " reshape: { shape: [ ] }"
    listed = ", ".join(map(str, dims or [1]))
    kind = None if value.dtype is None else _TYPES.get(value.dtype)
    if kind is None:
        raise RewriteError(
            f"{name!r} is of type {value.dtype}, which Triton does not pass to onnxruntime: add a "
            "Cast where the model is made"
        )
    return f"name: {quoted(name)} data_type: {kind} dims: [ {listed} ]{scalar}"


def quoted(name: str) -> str:
    """Return a name as a text of the config."""
    return json.dumps(name, ensure_ascii=False)
