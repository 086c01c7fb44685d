"""Nodes and types of the messages that ONNX's inference takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx

__all__ = ["all_dims", "graphs_of", "is_written", "types_of"]


def is_written(node: onnx.NodeProto, op_types: Collection[str]) -> bool:
    """Whether a node is one of some operators of ONNX's own."""
    return node.op_type in op_types and node.domain in ("", "ai.onnx")


def graphs_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the graphs that a node owns, but those of lists of graphs."""
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


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
