"""To and from graphs of onnx-graphsurgeon, whose package is imported only when one is met."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import onnx

from rewriter.errors import ModelError
from rewriter.model_files.protos import one_line

__all__ = ["from_proto", "is_graph", "to_proto"]


def is_graph(model: object) -> bool:
    """Say whether an object is a graph of graphsurgeon."""
    package = sys.modules.get("onnx_graphsurgeon")
    return package is not None and isinstance(model, package.Graph)


def to_proto(graph: Any) -> onnx.ModelProto:
    """Return the message for a graph of graphsurgeon, which stays as it is.

    Raises:
        ModelError: If graphsurgeon cannot export the graph.
    """
    import onnx_graphsurgeon as gs

    try:
        with _own_domains(graph):
            proto = gs.export_onnx(graph)
    except Exception as error:  # graphsurgeon lets errors of every kind through
        raise ModelError(f"graphsurgeon cannot export the graph: {one_line(error)}") from error
    _unshadow(graph, proto.graph, {})
    return proto


def from_proto(proto: onnx.ModelProto, original: Any) -> Any:
    """Return a graph of graphsurgeon for a message, which it takes over.

    Graphsurgeon reads no element shape of a sequence: inputs and outputs get the types that they
    had in the graph that was handed in.

    Args:
        proto: The message; the caller uses it no more.
        original: The graph that the caller of the rewrite handed in.
    """
    import onnx_graphsurgeon as gs

    graph = gs.import_onnx(proto)
    known = {tensor.name: tensor for tensor in (*original.inputs, *original.outputs)}
    for tensor in (*graph.inputs, *graph.outputs):
        before = known.get(tensor.name)
        if before is not None and getattr(before, "type", None) == tensor.type:
            tensor.dtype = before.dtype
            tensor.shape = before.shape if before.shape is None else list(before.shape)
    return graph


@contextlib.contextmanager
def _own_domains(graph: Any) -> Iterator[None]:
    """Let the exporter add imports to a copy: it extends the list that it finds."""
    owners = [graph, *graph.functions]
    before = [owner.import_domains for owner in owners]
    for owner, domains in zip(owners, before, strict=True):
        owner.import_domains = None if domains is None else list(domains)
    try:
        yield
    finally:
        for owner, domains in zip(owners, before, strict=True):
            owner.import_domains = domains


def _unshadow(graph: Any, proto: onnx.GraphProto, outer: dict[str, Any]) -> None:
    """Drop the copies of outer initializers that the exporter writes into every body."""
    visible = outer | graph.tensors()
    for index in reversed(range(len(proto.initializer))):
        name = proto.initializer[index].name
        if name in outer and outer[name] is visible[name]:
            del proto.initializer[index]
    for node, written in zip(graph.nodes, proto.node, strict=True):
        bodies = {name: body for name, body in node.attrs.items() if is_graph(body)}
        for attribute in written.attribute:
            if attribute.name in bodies:
                _unshadow(bodies[attribute.name], attribute.g, visible)
