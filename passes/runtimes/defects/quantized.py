"""Quantized values that onnxruntime fuses with their readers although it cannot."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_operator, makers
from passes.graph.made import operand, operands
from passes.runtimes.beside import TAKEN_AWAY, is_captured
from passes.runtimes.types import Types

__all__ = [
    "MOVING",
    "is_dequantized_and_captured",
    "is_dequantized_and_moved",
    "is_dequantized_by_row",
    "is_quantized_again",
    "is_quantized_by_computed_rows",
    "is_quantized_by_row",
    "kept",
    "quantized_by_steps",
]

MOVING = ("MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators through which onnxruntime moves a quantization."""
_MOVED = frozenset({*MOVING, *TAKEN_AWAY})
_WITH_OUTPUT_TYPE = 21
"""The opset from which on QuantizeLinear names the type of its output."""


def is_dequantized_and_captured(node: ir.Node, types: Types) -> bool:
    """Whether a node moves what DequantizeLinear yields, and a graph inside of a node reads it.

    onnxruntime looks for a reader to quantize for, and ends the process.
    """
    return bool(_dequantized(node)) and is_captured(node)


def _dequantized(node: ir.Node) -> list[ir.Node]:
    """Return each DequantizeLinear that a node may read, through nodes that move it at most."""
    found = makers(operand(node, 0), _MOVED)
    return [maker for maker in found if is_operator(maker, "DequantizeLinear")]


def is_dequantized_and_moved(node: ir.Node, types: Types) -> bool:
    """Whether a node moves int8 numbers that DequantizeLinear yields, by a zero point.

    From opset 21 on onnxruntime writes a QuantizeLinear behind the node whose element type is not
    that of its zero point, which it makes uint8 of elsewhere.
    """
    if types.opset < _WITH_OUTPUT_TYPE:
        return False
    zeros = (value for made in _dequantized(node) for value in operands(made)[2:])
    return any(types.dtype(value) == ir.DataType.INT8 for value in zeros)


def is_quantized_again(node: ir.Node, types: Types) -> bool:
    """Whether numbers that were dequantized are quantized by another scale or zero point.

    onnxruntime makes one scale and zero point of both, which are other numbers.
    """
    return not all(_are_quantized_alike(made, node) for made in _dequantized(node))


def _are_quantized_alike(one: ir.Node, other: ir.Node) -> bool:
    given, again = ([*node.inputs[1:3], None][:2] for node in (one, other))
    return all(map(_are_equal, given, again))


def _are_equal(one: ir.Value | None, other: ir.Value | None) -> bool:
    if one is other:
        return True
    known, expected = constant_value(one), constant_value(other)
    return known is not None and expected is not None and np.array_equal(known, expected)


def is_dequantized_by_row(node: ir.Node, types: Types) -> bool:
    """Whether computed numbers are dequantized by several scales.

    onnxruntime fuses such a node with MatMul, Conv, pooling, Sigmoid, Softmax and others into
    operators that know one scale only. Weights may have several there.
    """
    readers = [use.node for use in node.outputs[0].uses()]
    return _has_several_scales(node, types) and not all(map(_changes_nothing, readers))


def is_quantized_by_row(node: ir.Node, types: Types) -> bool:
    """Whether computed numbers are quantized by several scales, which is fused likewise."""
    producer = operand(node, 0).producer()
    return _has_several_scales(node, types) and not (producer and _changes_nothing(producer))


def _has_several_scales(node: ir.Node, types: Types) -> bool:
    numbers, scale = operands(node)[:2]
    dims = types.dims(scale)
    is_one = dims is not None and all(dim == 1 for dim in dims)
    return not is_one and constant_value(numbers) is None


def _changes_nothing(node: ir.Node) -> bool:
    return is_operator(node, "Max") and len(node.inputs) == 1


def kept(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The result behind a node that changes nothing, and that no quantization passes."""
    made = builder.op(node.op_type, node.inputs, node.attributes)
    return [builder.op("Max", [made])]


def is_quantized_by_computed_rows(node: ir.Node, types: Types) -> bool:
    """Whether numbers of 8 bits are made by several scales that are computed.

    OpenVINO prepares the node for the scales that it met first.
    """
    numbers, scale, zero = (*node.inputs, None)[:3]
    if numbers is None or scale is None or constant_value(scale) is not None:
        return False
    is_narrow = zero is None or types.dtype(zero) in _NARROW
    is_named = "output_dtype" in node.attributes or "precision" in node.attributes
    return (
        is_narrow and not is_named and types.rank(scale) == 1 and types.rank(numbers) is not None
    )


_NARROW = {ir.DataType.UINT8: (0, 255), ir.DataType.INT8: (-128, 127)}


def quantized_by_steps(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same by a division, rounded and moved by the zero point."""
    numbers, scale, zero = (*node.inputs, None)[:3]
    assert numbers is not None and scale is not None
    rank, dtype = types.rank(numbers), types.dtype(scale)
    assert rank is not None
    if dtype is None or types.dtype(numbers) != dtype:
        return None
    behind = builder.ints(*range(1, rank - node.attributes.get_int("axis", 1) % rank))

    def aligned(value: ir.Value) -> ir.Value:
        return builder.op("Unsqueeze", [value, behind])

    made = builder.op("Round", [builder.op("Div", [numbers, aligned(scale)])])
    narrow = ir.DataType.UINT8
    if zero is not None:
        narrow = types.dtype(zero) or narrow
        moved = builder.op("Cast", [zero], {"to": int(dtype)})
        made = builder.op("Add", [made, aligned(moved)])
    ends = [builder.constant(np.array(n, dtype.numpy())) for n in _NARROW[narrow]]
    return [builder.op("Cast", [builder.op("Clip", [made, *ends])], {"to": int(narrow)})]
