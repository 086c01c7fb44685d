"""Nodes and types of the messages that ONNX's inference takes and gives."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx
import onnx_ir as ir

from passes.graph.graphs import subgraphs
from passes.typing.value_types import UNKNOWN, ValueType

__all__ = [
    "all_dims",
    "graphs_of",
    "is_written",
    "join_outputs",
    "may_own",
    "subgraph_pairs",
    "tell_outputs_apart",
    "types_of",
    "value_type",
]


def is_written(node: onnx.NodeProto, op_types: Collection[str]) -> bool:
    """Whether a node is one of some operators of ONNX's own."""
    return node.op_type in op_types and node.domain in ("", "ai.onnx")


_OWNERS = frozenset({"FlexAttention", "If", "Loop", "Scan", "SequenceMap"})
"""ONNX's own operators that have graphs."""


def may_own(node: onnx.NodeProto) -> bool:
    """Whether a node may have graphs: to look at its attributes is slow."""
    return node.op_type in _OWNERS or node.domain not in ("", "ai.onnx")


def graphs_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the graphs that a node owns."""
    if not may_own(node):
        return []
    found = []
    for attribute in node.attribute:
        found += [attribute.g] if attribute.HasField("g") else []
        found += attribute.graphs
    return found


def types_of(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """Return the types that a graph states, by the names of its values."""
    values = (*graph.value_info, *graph.input, *graph.output)
    return {value.name: value.type for value in values if value.type.WhichOneof("value")}


def all_dims(graph: onnx.GraphProto) -> Iterator[list[int]]:
    """Yield the dimensions of every kind of tensor, and of the elements of sequences, once.

    Most values of a large model have one of few types.
    """
    for tensor in graph.initializer:
        yield list(tensor.dims)
    kinds = {
        info.type.SerializeToString(): info.type
        for infos in (graph.input, graph.output, graph.value_info)
        for info in infos
    }
    for held in kinds.values():
        while kind := held.WhichOneof("value"):
            if kind == "tensor_type":
                yield [dim.dim_value for dim in held.tensor_type.shape.dim]
                break
            if kind not in ("sequence_type", "optional_type"):
                break
            held = getattr(held, kind).elem_type
    for node in graph.node:
        for inner in graphs_of(node):
            yield from all_dims(inner)


def value_type(proto: onnx.TypeProto, known: dict[bytes, ValueType]) -> ValueType:
    """Return what a type says; ``known`` holds the types that were read before."""
    key = proto.SerializeToString()
    found = known.get(key)
    if found is None:
        found = known[key] = _read_type(proto)
    # Each value has a type of its own, which may be written later.
    if isinstance(found.type, ir.TensorType):
        return ValueType(ir.TensorType(found.type.dtype), found.dims)
    return _read_type(proto)


def _read_type(proto: onnx.TypeProto) -> ValueType:
    if not _has_element_type(proto):
        return UNKNOWN  # inference failed in the body of the map that yields the value
    if proto.HasField("tensor_type"):
        return ValueType(ir.TensorType(ir.DataType(proto.tensor_type.elem_type)), _dims(proto))
    return ValueType(ir.serde.deserialize_type_proto_for_type(proto), _dims(proto))


def _has_element_type(proto: onnx.TypeProto) -> bool:
    match proto.WhichOneof("value"):
        case None:
            return False
        case "tensor_type":
            return proto.tensor_type.elem_type != onnx.TensorProto.UNDEFINED
        case "sequence_type":
            return _has_element_type(proto.sequence_type.elem_type)
        case "optional_type":
            return _has_element_type(proto.optional_type.elem_type)
    return False  # a map, which the IR has no type for


def _dims(proto: onnx.TypeProto) -> tuple[int | str | None, ...] | None:
    match proto.WhichOneof("value"):
        case "tensor_type" if proto.tensor_type.HasField("shape"):
            return tuple(map(_dim, proto.tensor_type.shape.dim))
        case "sequence_type":
            return _dims(proto.sequence_type.elem_type)
        case "optional_type":
            return _dims(proto.optional_type.elem_type)
    return None


_MARK = "seqmap: a further place of an output"


def tell_outputs_apart(graph: onnx.GraphProto) -> bool:
    """Give each further place of an output a name of its own; return whether there is any.

    ONNX's inference gives the type of a value that a branch or a body yields in two places to the
    last of them alone, and the first is left without a rank. With an Identity for each further
    place all have one.
    """
    found = False
    for inner in _inner_graphs(graph):
        seen: set[str] = set()
        for at, value in enumerate(inner.output):
            if value.name in seen:
                name = f"{value.name} at {at}"
                inner.node.add(op_type="Identity", name=_MARK, input=[value.name], output=[name])
                value.name = name
                found = True
            seen.add(value.name)
    return found


def join_outputs(graph: onnx.GraphProto) -> None:
    """Undo `tell_outputs_apart`."""
    for inner in _inner_graphs(graph):
        given = {node.output[0]: node.input[0] for node in inner.node if node.name == _MARK}
        while inner.node and inner.node[-1].name == _MARK:
            inner.node.pop()
        for value in inner.output:
            value.name = given.get(value.name, value.name)
        for at in reversed(range(len(inner.value_info))):
            if inner.value_info[at].name in given:
                del inner.value_info[at]


def _inner_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    for node in graph.node:
        for inner in graphs_of(node):
            yield inner
            yield from _inner_graphs(inner)


def subgraph_pairs(node: ir.Node, proto: onnx.NodeProto) -> list[tuple[ir.Graph, onnx.GraphProto]]:
    """Return each graph that a node owns, and its proto."""
    owned = subgraphs(node)
    if not owned:
        return []
    protos = {attribute.name: attribute.g for attribute in proto.attribute}
    return [(graph, protos[name]) for name, graph in owned if name in protos]


def _dim(proto: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """Return a dimension; a number less than 0, which inference may find, tells nothing."""
    if not proto.HasField("dim_value"):
        return proto.dim_param or None
    return proto.dim_value if proto.dim_value >= 0 else None
