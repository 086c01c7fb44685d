"""Predicts the size of the results of a node by ONNX's inference, before the node runs."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.shape_inference import InferenceError, infer_node_outputs

from passes.graph.opsets import schema_of

__all__ = ["least_result_bytes"]

# Inference knows the values of inputs of at most so many elements: shapes, repeats, pads.
_MOST_VALUES = 64
# The results of these grow by the values of their inputs, or by their attributes.
_GROWING = {
    *("BlackmanWindow", "CenterCropPad", "Col2Im", "ConstantOfShape", "ConvTranspose", "DFT"),
    *("Expand", "HammingWindow", "HannWindow", "MaxUnpool", "MelWeightMatrix", "Multinomial"),
    *("OneHot", "Pad", "RandomNormal", "RandomUniform", "Range", "Resize", "RoiAlign", "STFT"),
    *("Tile", "Upsample", "MaxRoiPool", "Conv", "AveragePool", "MaxPool", "LpPool", "AffineGrid"),
}
_WIDEST = 16
"""The bytes of the widest element, which a complex number has."""


def least_result_bytes(
    node: onnx.NodeProto, opset: int, inputs: Sequence[Any], enough: int
) -> int:
    """Return the bytes that the results of a node take at least, 0 where nothing is known.

    Args:
        node: The node.
        opset: The version of ONNX's operators.
        inputs: An array, a list of arrays or None for each input of the node.
        enough: No more than that has to be told from 0.
    """
    inputs = [np.asarray(value) if isinstance(value, np.generic) else value for value in inputs]
    arrays = [value for value in inputs if isinstance(value, np.ndarray)]
    # What broadcasts, multiplies or gathers has at most the product of all elements.
    most = math.prod(max(array.size, 1) for array in arrays) * _WIDEST
    if node.op_type not in _GROWING and most <= enough:
        return 0
    if len(arrays) != sum(value is not None for value in inputs) or node.domain:
        return 0
    return _inferred_bytes(node, opset, inputs)


@dataclasses.dataclass(frozen=True)
class _KnownArray:
    """What ONNX's inference is told of an array that a node reads."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    values: bytes | None
    """The elements, None where the type alone counts."""

    @property
    def type(self) -> onnx.TypeProto:
        element = onnx.TensorProto.STRING
        if self.dtype.kind not in "OUS":
            element = onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        return onnx.helper.make_tensor_type_proto(element, self.shape)


def _known(name: str, array: np.ndarray) -> _KnownArray:
    is_told = array.size <= _MOST_VALUES and array.dtype.kind not in "OUS"
    return _KnownArray(name, array.dtype, array.shape, array.tobytes() if is_told else None)


def _inferred_bytes(node: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> int:
    named = dict(zip(node.input, inputs, strict=False)).items()
    arrays = tuple(_known(name, v) for name, v in named if name and isinstance(v, np.ndarray))
    return _inferred(node.SerializeToString(deterministic=True), opset, arrays)


@functools.lru_cache(maxsize=4096)  # the nodes of a body run once for each sample
def _inferred(serialized: bytes, opset: int, arrays: tuple[_KnownArray, ...]) -> int:
    node = onnx.NodeProto.FromString(serialized)
    schema = schema_of(node.op_type, opset)
    if schema is None:
        return 0
    try:
        types = infer_node_outputs(
            schema,
            node,
            {one.name: one.type for one in arrays},
            {
                one.name: onnx.numpy_helper.from_array(
                    np.frombuffer(one.values, one.dtype).reshape(one.shape)
                )
                for one in arrays
                if one.values is not None
            },
            opset_imports=[onnx.helper.make_opsetid("", opset)],
        )
    except (InferenceError, RuntimeError, ValueError, KeyError):
        return 0  # the node says itself what is wrong with its inputs
    return sum(_bytes(type_) for type_ in types.values())


def _bytes(type_: onnx.TypeProto) -> int:
    tensor = type_.tensor_type
    if not tensor.HasField("shape") or not tensor.elem_type:
        return 0
    width = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
    return width * math.prod(dim.dim_value for dim in tensor.shape.dim)
