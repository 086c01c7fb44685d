"""Rows of bytes or halves, reduced as wider numbers: ScatterElements joins neither."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.layouts import Batched
from passes.typing import ValueType

__all__ = ["narrowed", "widened"]

_T = ir.DataType
_WIDER = {
    **dict.fromkeys((_T.INT8, _T.UINT8, _T.INT16, _T.UINT16), _T.INT32),
    **dict.fromkeys((_T.FLOAT16, _T.BFLOAT16), _T.FLOAT),
}
"""onnxruntime, too, reduces halves as float."""


def widened(ctx: Context, data: Batched) -> Batched:
    """Return samples as numbers that can be joined; others as they are."""
    wide = None if data.dtype is None else _WIDER.get(data.dtype)
    if wide is None:
        return data
    value = ctx.op("Cast", [data.value], {"to": wide})
    return dataclasses.replace(data, value=value, type=ValueType(ir.TensorType(wide), data.dims))


def narrowed(ctx: Context, value: ir.Value, data: Batched) -> ir.Value:
    """Return what was computed of `widened` samples in the element type that they had."""
    return ctx.op("Cast", [value], {"to": data.dtype}) if data.dtype in _WIDER else value
