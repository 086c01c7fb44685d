"""Erases the declared dimensions that inference may not rely on, and adds those promised.

Symbols of the elements of sequences stand for another number in each element.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import onnx
import onnx_ir as ir

from passes.flat_views import ENDS, read_view
from passes.graph.graphs import is_operator, subgraphs
from passes.promises import Promises
from passes.typing.protos import graphs_of, is_written
from passes.typing.value_types import Typing, ValueType

__all__ = [
    "INFERENCE_PREFIX",
    "enter_promises",
    "erase",
    "erase_body",
    "forget_element_symbols",
    "name_elements",
    "show_views",
]

INFERENCE_PREFIX = "unk__"


def erase(proto: onnx.ModelProto, *, ranks: bool, numbers: bool = False) -> None:
    """Forget the dimensions of sequences, and of all types that may derive from them.

    Args:
        proto: Changed in place.
        ranks: Whether the ranks stay.
        numbers: Whether those dimensions stay that are numbers; symbols promise nothing.
    """
    for value in proto.graph.input:
        if value.type.HasField("tensor_type"):
            _name_dims(value)
        else:
            _erase_dims(value.type, ranks=ranks, numbers=numbers)
    for value in (*proto.graph.output, *_without_initializers(proto.graph)):
        _erase_dims(value.type, ranks=ranks, numbers=numbers)
    _erase_nodes(proto.graph.node, ranks=ranks, numbers=numbers)
    for function in proto.functions:
        _erase_nodes(function.node, ranks=ranks, numbers=numbers)


def erase_body(body: onnx.GraphProto, *, ranks: bool = True) -> None:
    """Forget the dimensions of all that a body declares but of its inputs; see `erase`."""
    for value in (*body.output, *_without_initializers(body)):
        _erase_dims(value.type, ranks=ranks)
    _erase_nodes(body.node, ranks=ranks)


def _without_initializers(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return what is written of the values of a graph; the type of an initializer is a fact."""
    initializers = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.value_info if value.name not in initializers]


def _name_dims(value: onnx.ValueInfoProto, prefix: str = "") -> None:
    """Give each unknown dimension of a tensor a symbol of its own.

    It is one number for all samples, or, with the prefix of symbols that inference makes, one in
    each application of a body. That two of them are equal, nobody checks.
    """
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value"):
            dim.dim_param = f"{prefix}{value.name}.{axis}"


def _erase_nodes(nodes: Iterable[onnx.NodeProto], *, ranks: bool, numbers: bool = False) -> None:
    for node in nodes:
        for graph in graphs_of(node):
            # A Loop gives its iteration number the rank that the body declares.
            kept = graph.input[0].name if node.op_type == "Loop" and graph.input else None
            for value in (*graph.input, *graph.output, *_without_initializers(graph)):
                keeps_rank = ranks or value.name == kept
                _erase_dims(value.type, ranks=keeps_rank, numbers=numbers)
            if kept is not None:
                _hold_one(graph.input[0])
            if node.op_type == "SequenceMap":
                for value in graph.input:
                    _name_dims(value, INFERENCE_PREFIX)
            _erase_nodes(graph.node, ranks=ranks, numbers=numbers)


def _hold_one(number: onnx.ValueInfoProto) -> None:
    """Say of an iteration number that it is one number, whether it is a vector or a scalar."""
    dims = number.type.tensor_type.shape.dim
    if len(dims) == 1:
        dims[0].dim_value = 1


def _erase_dims(type_: onnx.TypeProto, *, ranks: bool, numbers: bool = False) -> None:
    """Forget the dimensions of a type, at any depth."""
    match type_.WhichOneof("value"):
        case "tensor_type":
            if not ranks:
                type_.tensor_type.ClearField("shape")
            for dim in type_.tensor_type.shape.dim:
                if not (numbers and dim.HasField("dim_value")):
                    dim.Clear()
        case "sequence_type":
            _erase_dims(type_.sequence_type.elem_type, ranks=ranks, numbers=numbers)
        case "optional_type":
            _erase_dims(type_.optional_type.elem_type, ranks=ranks, numbers=numbers)


def show_views(graph: ir.Graph, proto: onnx.GraphProto) -> None:
    """Declare the elements of a view as its operators make them, which inference cannot tell."""
    for node, node_proto in zip(graph, proto.node, strict=True):
        view = read_view(node.outputs[0]) if _may_be_view(node) else None
        if view is None:
            continue
        (body,) = (a.g for a in node_proto.attribute if a.name == "body")
        shape = body.output[0].type.tensor_type.shape
        shape.Clear()
        for known in view.dims:
            dim = shape.dim.add()
            if known is not None:
                dim.dim_value = known


def _may_be_view(node: ir.Node) -> bool:
    if node.op_type != "SequenceMap":
        return False
    ends = (v.producer() for _, body in subgraphs(node) for v in body.outputs)
    return any(is_operator(end, ENDS) for end in ends)


def enter_promises(proto: onnx.GraphProto, promises: Promises) -> None:
    """Declare the inputs of the main graph, or their elements, as they are promised to be."""
    for value in proto.input:
        dims = promises.input_shapes.get(value.name)
        if dims is None:
            continue
        type_ = value.type
        if type_.HasField("sequence_type"):
            type_ = type_.sequence_type.elem_type
        _set_dims(type_, ValueType(None, dims))


def _set_dims(type_: onnx.TypeProto, known: ValueType) -> None:
    """Put the numbers that are known into a tensor type, and its rank."""
    if known.dims is None:
        return
    if known.type is not None:
        type_.tensor_type.elem_type = known.type.dtype
    old = list(type_.tensor_type.shape.dim)
    type_.tensor_type.shape.Clear()
    for axis, known_dim in enumerate(known.dims):
        dim = type_.tensor_type.shape.dim.add()
        if isinstance(known_dim, int):
            dim.dim_value = known_dim
        elif len(old) == len(known.dims):
            dim.CopyFrom(old[axis])


def name_elements(proto: onnx.GraphProto, inferred: onnx.GraphProto) -> bool:
    """Give the elements that maps read symbols of their own where their bodies declare no shape.

    Args:
        proto: A graph before inference; inputs of bodies gain shapes.
        inferred: The same after inference.

    Returns:
        Whether there was such an element, so that inference has to be done again.
    """
    found = False
    for node, typed in zip(proto.node, inferred.node, strict=True):
        if not node.attribute:
            continue
        for attribute, typed_attribute in zip(node.attribute, typed.attribute, strict=True):
            if not attribute.HasField("g"):
                continue
            found |= name_elements(attribute.g, typed_attribute.g)
            if is_written(node, {"SequenceMap"}):
                inputs = zip(attribute.g.input, typed_attribute.g.input, strict=True)
                for value, known in inputs:
                    found |= _name(value, known.type)
    return found


def _name(value: onnx.ValueInfoProto, known: onnx.TypeProto) -> bool:
    """Give a value the shape that is known of it, if it has none and symbols are in that."""
    dims = known.tensor_type.shape.dim
    symbols = [dim.dim_param for dim in dims if not dim.HasField("dim_value")]
    if value.type.tensor_type.HasField("shape") or not symbols:
        return False
    value.type.CopyFrom(known)
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value") and not _is_named(dim.dim_param):
            dim.dim_param = f"{INFERENCE_PREFIX}{value.name}.{axis}"
    return True


def _is_named(symbol: str) -> bool:
    """Whether a symbol stands for a dimension of an input of the model."""
    return bool(symbol) and not symbol.startswith(INFERENCE_PREFIX)


def forget_element_symbols(
    typing: Typing, graph: ir.Graph, lost: Iterable[str | None] = ()
) -> None:
    """Take symbols that came from the type of a sequence out of all types.

    ONNX's inference gives every element the symbols of its sequence, so that two elements of
    different shape seem to have one. A symbol that a tensor had before stands for one number.

    Args:
        typing: The types of the graph and of all graphs in it.
        graph: A graph.
        lost: Symbols of the elements of sequences that it captures.
    """
    _forget(typing, graph, set(), {symbol for symbol in lost if symbol})


def _forget(typing: Typing, graph: ir.Graph, known: set[str], lost: set[str]) -> None:
    """Forget symbols in a graph.

    Args:
        typing: The types.
        graph: The graph.
        known: Symbols that stand for one number there; gains those of its nodes.
        lost: Symbols of elements; a graph inside hands them on to what it yields.
    """
    for value in graph.inputs:
        _enter(typing, value, known, lost)
    for node in graph:
        for _, inner in subgraphs(node):
            _forget(typing, inner, set(known), lost)
        for value in node.outputs:
            _enter(typing, value, known, lost)


def _enter(typing: Typing, value: ir.Value, known: set[str], lost: set[str]) -> None:
    entry = typing[value]
    if entry.dims is None:
        return
    symbols = {d for d in entry.dims if isinstance(d, str) and not typing.is_one_number(d)}
    if isinstance(entry.type, ir.TensorType):
        known |= symbols - lost
    else:
        lost |= symbols - known
    if not lost.isdisjoint(symbols):
        dims = tuple(None if d in lost else d for d in entry.dims)
        typing.set(value, dataclasses.replace(entry, dims=dims))
