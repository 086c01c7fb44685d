"""ONNX's own inference: a proto prepared for it, and its findings read back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import onnx
import onnx_ir as ir

from passes.errors import ContradictionError
from passes.graph.graphs import captured_values, constant_value, name_of, walk_nodes
from passes.graph.limits import LARGEST_TRACKED_DIM, LONGEST_VECTOR
from passes.typing import shape_functions
from passes.typing.carried_shapes import keep_carried_shapes
from passes.typing.corrections import hide_first_elements
from passes.typing.protos import (
    all_dims,
    graphs_of,
    is_written,
    join_outputs,
    subgraph_pairs,
    tell_outputs_apart,
    types_of,
    value_type,
)
from passes.typing.shape_functions import has_shape_function, stand_in_typed
from passes.typing.value_types import Typing, ValueType

__all__ = [
    "infer",
    "operators_in",
    "proto_without_data",
    "read_graph",
    "show_constants",
    "stand_in",
]

_LARGEST_DATA = 1024
_LARGEST_SHOWN = 64


def proto_without_data(model: ir.Model) -> onnx.ModelProto:
    """Serialize a model with a stub for each large initializer of the main graph."""
    kept: dict[ir.Value, ir.TensorProtocol] = {}
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is None or isinstance(tensor, ir.ExternalTensor):
            continue
        if tensor.dtype == ir.DataType.STRING or tensor.nbytes > _LARGEST_DATA:
            kept[value] = tensor
            value.const_value = ir.ExternalTensor(
                "absent",
                0,
                0,
                tensor.dtype,
                shape=ir.Shape(tensor.shape.numpy()),
                name=name_of(value),
            )
    try:
        return ir.to_proto(model)
    finally:
        for value, tensor in kept.items():
            value.const_value = tensor


_LIKE_THEIR_INPUT = frozenset({"GroupNormalization", "MeanVarianceNormalization"})
"""Operators that ONNX's inference does not know; the result has the type of the first input."""


def stand_in(nodes: Iterable[onnx.NodeProto]) -> None:
    """Replace nodes that inference does not know, for inference only, at any depth."""
    for node in nodes:
        if node.domain and has_shape_function(node):
            stand_in_typed(node)
        if is_written(node, _LIKE_THEIR_INPUT):
            node.op_type = "Identity"
            del node.input[1:]
            del node.attribute[:]
        for graph in graphs_of(node):
            stand_in(graph.node)


def operators_in(graph: ir.Graph) -> frozenset[str]:
    """Return the operators of a graph, at any depth."""
    return frozenset(node.op_type for node in walk_nodes(graph))


def show_constants(
    graph: ir.Graph, proto: onnx.GraphProto, outer: Mapping[str, onnx.TensorProto]
) -> None:
    """Repeat small constants that the graphs in a graph capture as initializers of theirs.

    ONNX's inference knows the type of a captured value but not its value, and so loses what a
    constant outside says about shapes inside.

    Args:
        graph: The graph.
        proto: The same for inference.
        outer: Constants around the graph, by name.
    """
    for node, node_proto in zip(graph, proto.node, strict=True):
        for inner, inner_proto in subgraph_pairs(node, node_proto):
            shown = (outer.get(name_of(v)) or _shown(v) for v in captured_values(inner))
            inner_proto.initializer.extend(tensor for tensor in shown if tensor is not None)
            show_constants(inner, inner_proto, outer)


def _shown(value: ir.Value) -> onnx.TensorProto | None:
    """Return the few integers that a value stands for."""
    array = constant_value(value)
    if array is None or array.size > _LARGEST_SHOWN or array.dtype.kind not in "iub":
        return None
    return onnx.numpy_helper.from_array(array, value.name)


def infer(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the types that ONNX infers, those of small values included.

    The model is used up: what misleads inference is taken out of it.

    Raises:
        ContradictionError: The types that the model declares contradict each other.
    """
    if all(one.domain != shape_functions.DOMAIN for one in proto.opset_import):
        proto.opset_import.add(domain=shape_functions.DOMAIN, version=shape_functions.VERSION)
    carries = b"Loop" in proto.SerializeToString()
    try:
        inferred = _inferred(proto)
        if carries and hide_first_elements(proto, inferred):
            inferred = _inferred(proto)
    except (onnx.shape_inference.InferenceError, IndexError) as error:  # of an STFT of no numbers
        message = " ".join(str(error).split())
        raise ContradictionError(
            f"The types that the model declares contradict each other: {message}. Correct them "
            "where the model is made."
        ) from error
    return keep_carried_shapes(proto, inferred, _inferred) if carries else inferred


def _inferred(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Run ONNX's inference, with the values of vectors where none is too long.

    It keeps a record for each number of a vector that some operator reads, so that a length in
    the model decides how much time and memory it takes.
    """
    is_apart = tell_outputs_apart(proto.graph)
    types = onnx.shape_inference.infer_shapes(proto)
    if not any(_is_too_long(dims) for dims in all_dims(types.graph)):
        types = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    for one in (proto, types) if is_apart else ():
        join_outputs(one.graph)
    return types


def _is_too_long(dims: Sequence[int]) -> bool:
    longest = LONGEST_VECTOR if len(dims) == 1 else LARGEST_TRACKED_DIM
    return any(dim > longest for dim in dims)


def _corrected(node: ir.Node, known: ValueType) -> ValueType:
    """Take an inferred dimension of 0 as unknown, and so the rank 0 of a result of Attention.

    Inference of Attention gives 0 where it lacks a dimension, and a true 0 is rare.
    """
    if known.dims is None or (known.dims and 0 not in known.dims) or node.op_type == "Constant":
        return known
    if node.op_type == "Attention" and not known.dims:
        return dataclasses.replace(known, dims=None)
    dims = tuple(None if d == 0 else d for d in known.dims)
    return dataclasses.replace(known, dims=dims)


def read_graph(typing: Typing, graph: ir.Graph, proto: onnx.GraphProto) -> None:
    """Enter the types of a graph; ``proto`` is the same graph after inference."""
    types = types_of(proto)
    read: dict[bytes, ValueType] = {}
    for value in graph.initializers.values():
        tensor = value.const_value
        if tensor is not None:
            dims = tuple(tensor.shape.numpy())
            typing.set(value, ValueType(ir.TensorType(tensor.dtype), dims))
    for value in graph.inputs:
        if value.name in types:
            typing.set(value, value_type(types[value.name], read))
    for node, node_proto in zip(graph, proto.node, strict=True):
        for value in node.outputs:
            if value.name in types:
                known = value_type(types[value.name], read)
                typing.set(value, corrected := _corrected(node, known))
                if corrected.dims != known.dims:
                    typing.set_empty(value)
        for inner, inner_proto in subgraph_pairs(node, node_proto):
            read_graph(typing, inner, inner_proto)
