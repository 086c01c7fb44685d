"""Types of values that were never computed: the scan outputs of no iterations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

__all__ = ["element_types", "type_of", "typed_graph"]

# Tensors of so few elements may be shapes and axes: inference is told their values.
_LARGEST_SHAPE = 64


def typed_graph(model: onnx.ModelProto) -> onnx.GraphProto:
    """Return a model's graph with the types that ONNX infers, in bodies too, without weights.

    Where nothing needs them, or inference fails, this is the model's own graph.
    """
    if not _lacks_types(model.graph.node):
        return model.graph
    bare = onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions
    )
    graph = bare.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    inputs = {value.name for value in graph.input}
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= _LARGEST_SHAPE and not tensor.external_data:
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            type_ = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            graph.input.add(name=tensor.name).type.CopyFrom(type_)
    try:
        typed = onnx.shape_inference.infer_shapes(bare, data_prop=True).graph
    except Exception:  # of many kinds, none of which stops the model from running
        return model.graph
    del typed.input[:]
    typed.input.extend(model.graph.input)
    return typed


def type_of(value: Any, sizes: bool = True) -> onnx.TypeProto | None:
    """Return the type of a value, with or without its dimensions; None if it has no type."""
    if isinstance(value, list):
        inner = type_of(value[0], sizes=False) if value else None
        return None if inner is None else onnx.helper.make_sequence_type_proto(inner)
    if not isinstance(value, np.ndarray):
        return None
    element = (
        onnx.TensorProto.STRING
        if value.dtype.kind in "OU"
        else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    )
    shape = value.shape if sizes else [None] * value.ndim
    return onnx.helper.make_tensor_type_proto(element, shape)


def element_types(
    body: Any,
    types: Sequence[onnx.TypeProto | None],
    captured: Mapping[str, Any],
    functions: Iterable[onnx.FunctionProto],
) -> list[onnx.TypeProto.Tensor]:
    """Return the types of what a body would give that is never run.

    What is declared, or inferred for the whole model, comes first; only where that leaves the
    rank or the element type open, the values at hand are looked at.

    Args:
        body: The evaluator of the body.
        types: A type for each input of the body, None to take the declared one.
        captured: The values of the enclosing graphs that the body reads.
        functions: The model-local functions that it may call.

    Returns:
        A tensor type for each output of the body, as complete as ONNX's inference makes it.
    """
    declared = [output.type for output in body.proto_.output]
    if not any(map(_is_open, declared)):
        return [type_.tensor_type for type_ in declared]
    model = onnx.ModelProto(ir_version=10, functions=functions)
    for domain, version in body.opsets.items():
        model.opset_import.add(domain=domain, version=version)
    model.graph.CopyFrom(body.proto_)
    for value, type_ in zip(model.graph.input, types, strict=True):
        if type_ is not None:
            value.type.CopyFrom(type_)
    for name, array in captured.items():
        type_ = type_of(array)
        if _may_be_shape(array):
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        elif type_ is not None:
            model.graph.input.add(name=name).type.CopyFrom(type_)
    try:
        outputs = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
    except Exception:  # as above; what is declared remains
        outputs = body.proto_.output
    return [
        (output.type if _is_open(type_) else type_).tensor_type
        for type_, output in zip(declared, outputs, strict=True)
    ]


def _is_open(type_: onnx.TypeProto) -> bool:
    """Whether a type leaves open the rank or the element type of a tensor."""
    tensor = type_.tensor_type
    return type_.WhichOneof("value") in (None, "tensor_type") and not (
        tensor.elem_type and tensor.HasField("shape")
    )


def _lacks_types(nodes: Iterable[onnx.NodeProto]) -> bool:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type != onnx.AttributeProto.GRAPH:
                continue
            body = attribute.g
            if node.op_type in ("Loop", "Scan") and any(_is_open(o.type) for o in body.output):
                return True
            if _lacks_types(body.node):
                return True
    return False


def _may_be_shape(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray) and value.dtype.kind == "i" and value.size <= _LARGEST_SHAPE
    )
