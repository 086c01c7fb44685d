"""ONNX's own inference: a proto prepared for it, and its findings read back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import onnx
import onnx_ir as ir

from passes.errors import ContradictionError
from passes.graph.graphs import (
    captured_values,
    constant_value,
    is_operator,
    name_of,
    subgraphs,
    walk_nodes,
    with_subgraphs,
)
from passes.graph.limits import LARGEST_TRACKED_DIM, LONGEST_VECTOR
from passes.typing import shape_functions
from passes.typing.carried_shapes import keep_carried_shapes
from passes.typing.corrections import (
    axes_of_cut,
    counted_axis,
    hide_first_elements,
    is_whole,
    pass_whole,
)
from passes.typing.protos import (
    all_dims,
    graphs_of,
    is_written,
    join_outputs,
    tell_outputs_apart,
    types_of,
    value_type,
)
from passes.typing.shape_functions import (
    has_shape_function,
    stand_in_counted,
    stand_in_cut,
    stand_in_framed,
    stand_in_pooled,
    stand_in_sorted,
    stand_in_typed,
)
from passes.typing.value_types import Typing, ValueType

__all__ = [
    "CORRECTED",
    "correct_nodes",
    "counted_values",
    "infer",
    "operators_in",
    "proto_without_data",
    "read_graph",
    "show_constants",
    "stand_in",
    "subgraph_pairs",
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


_WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")

_POOLS = ("AveragePool", "LpPool", "MaxPool")

CORRECTED = ("CenterCropPad", "Range", "Resize", "STFT", "Slice", "TopK", *_POOLS)
"""Operators that inference reads wrongly."""


def correct_nodes(
    graph: ir.Graph, proto: onnx.GraphProto, outer: Mapping[ir.Value, str] | None = None
) -> None:
    """Correct nodes that inference reads wrongly, for inference only, at any depth.

    Exporters give a Resize to sizes empty scales, too, and ONNX's inference takes them for as many
    as there are axes. A Slice of all that there is would get dimensions of new names, and one by
    unknown bounds, or a crop, knows none at all, nor does a TopK of an unknown number. A Range up
    to a dimension gets a new name for it. A pool that rounds up has too many windows below opset
    22, some that begin behind the image. An STFT of a signal of open length knows nothing.

    Args:
        graph: The graph.
        proto: The same for inference.
        outer: Names of values that it does not read (`counted_values`), if it stands alone.
    """
    for node, node_proto in zip(graph, proto.node, strict=True):
        for inner, inner_proto in subgraph_pairs(node, node_proto):
            correct_nodes(inner, inner_proto, outer)
        if not is_operator(node, CORRECTED):
            continue
        if node.op_type == "Resize":
            _leave_out_scales(node, node_proto)
        elif node.op_type == "TopK":
            if len(node.inputs) > 1 and constant_value(node.inputs[1]) is None:
                stand_in_sorted(node_proto)
        elif node.op_type == "STFT":
            stand_in_framed(node_proto, _number(node, 1), _frame_size(node))
        elif node.op_type in _POOLS:
            if _rounds_up(node):
                stand_in_pooled(node_proto)
        elif is_whole(node):
            pass_whole(node_proto)
        elif (axes := axes_of_cut(node)) is not None:
            stand_in_cut(node_proto, axes)
        elif (counted := counted_axis(node)) is not None:
            tensor, axis = counted
            name = (outer or {}).get(tensor) or name_of(tensor)
            stand_in_counted(node_proto, name, axis)


def _leave_out_scales(node: ir.Node, proto: onnx.NodeProto) -> None:
    """Leave out the scales of a Resize that are empty, since it has sizes."""
    scales = constant_value(node.inputs[2]) if len(node.inputs) > 3 else None
    if scales is not None and not scales.size:
        proto.input[2] = ""


def _number(node: ir.Node, position: int) -> int | None:
    """Return the constant number that is an input, None where there is none."""
    value = node.inputs[position] if position < len(node.inputs) else None
    known = None if value is None else constant_value(value)
    return int(known.reshape(-1)[0]) if known is not None and known.size == 1 else None


def _frame_size(node: ir.Node) -> int | None:
    """Return how long a frame of an STFT is: as its window, or as its last input says."""
    window = node.inputs[2] if len(node.inputs) > 2 else None
    if window is None:
        return _number(node, 3)
    known, made = constant_value(window), window.producer()
    if known is not None:
        return known.size
    return _number(made, 0) if made is not None and is_operator(made, _WINDOWS) else None


def _rounds_up(node: ir.Node) -> bool:
    is_evened = node.attributes.get_string("auto_pad", "NOTSET").startswith("SAME")
    return bool(node.attributes.get_int("ceil_mode", 0)) and not is_evened


def operators_in(graph: ir.Graph) -> frozenset[str]:
    """Return the operators of a graph, at any depth."""
    return frozenset(node.op_type for node in walk_nodes(graph))


def counted_values(graph: ir.Graph) -> list[ir.Value]:
    """Return the tensors outside of a graph to whose dimensions a Range counts."""
    nodes = list(walk_nodes(graph))
    found = [counted_axis(node) for node in nodes if node.op_type == "Range"]
    known = {v for g in with_subgraphs(graph) for v in (*g.inputs, *g.initializers.values())}
    known |= {*captured_values(graph), *(v for node in nodes for v in node.outputs)}
    asked = dict.fromkeys(counted[0] for counted in found if counted is not None)
    return [v for v in asked if v not in known]


def subgraph_pairs(node: ir.Node, proto: onnx.NodeProto) -> list[tuple[ir.Graph, onnx.GraphProto]]:
    """Return each graph that a node owns, and its proto."""
    owned = subgraphs(node)
    if not owned:
        return []
    protos = {attribute.name: attribute.g for attribute in proto.attribute}
    return [(graph, protos[name]) for name, graph in owned if name in protos]


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
    except onnx.shape_inference.InferenceError as error:
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
