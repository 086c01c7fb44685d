"""Converts ONNX's messages to the IR and back, and keeps what the IR has no place for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import onnx_ir as ir

from rewriter.errors import ModelError
from rewriter.model_files import structure
from rewriter.model_files.sequence_types import forget_open_sequences, mend_sequences

__all__ = ["all_graphs", "all_tensors", "from_proto", "one_line", "root", "to_proto"]

_Part = onnx.GraphProto | onnx.FunctionProto | onnx.TensorProto
_KEPT = "seqmap.kept"  # in `Model.meta`: a ModelProto with only what the IR has no place for


def from_proto(proto: onnx.ModelProto, name: str = "the model") -> ir.Model:
    """Make a model of the IR out of a message, which it takes over and may change.

    Types that hold a map (of ONNX-ML) and training graphs are kept aside; :func:`to_proto` puts
    them back. A negative dimension, by which some converters say that it is not known, is read
    so, and nodes that are not topologically sorted are sorted. A sequence whose element type is
    not told has that of what is inserted into it or read of it.

    Args:
        proto: The message; the caller uses it no more.
        name: What to call the model in an error.

    Returns:
        The model; external tensors have no folder yet.

    Raises:
        ModelError: If its structure is not that of a model, or the IR cannot hold it.
    """
    kept = onnx.ModelProto()
    kept.training_info.extend(proto.training_info)
    graphs = list(all_graphs(proto))
    for graph in graphs:
        if graph.sparse_initializer:
            raise ModelError(
                f"{name} has the sparse initializer {graph.sparse_initializer[0].values.name!r}, "
                "which is not supported: store it as a dense one"
            )
        for info in _infos(graph):
            if _holds_map(info.type):
                kept.graph.value_info.add().CopyFrom(info)
                info.ClearField("type")
    infos = [*itertools.chain(*map(_infos, graphs), *(f.value_info for f in proto.functions))]
    for info in infos:
        _forget_negative(info.type)
    for graph in graphs:
        _type_alike(graph)
    untyped = forget_open_sequences(infos)
    for imports in (proto.opset_import, *(f.opset_import for f in proto.functions)):
        for opset in imports:
            if opset.domain == "ai.onnx":  # the IR calls the default domain "" on nodes only
                opset.domain = ""
    structure.check_message(proto, name)
    try:
        model = ir.from_proto(proto)
    except Exception as error:  # the IR wraps whatever goes wrong, of any kind
        raise ModelError(f"{name} is not a valid ONNX model: {one_line(root(error))}") from error
    if kept.ByteSize():
        model.meta[_KEPT] = kept
    mend_sequences(model, untyped)
    return model


def _type_alike(graph: onnx.GraphProto) -> None:
    """Give an output that is an input the input's type: the IR keeps one type for both."""
    given = {info.name: info.type for info in graph.input if info.HasField("type")}
    for info in graph.output:
        if info.name in given:
            info.type.CopyFrom(given[info.name])


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """Return the message for a model, with what :func:`from_proto` kept aside put back.

    Declared types of optional values between nodes are left out where ONNX infers them:
    onnx-graphsurgeon and onnxslim cannot export a model that has any.
    """
    proto = ir.to_proto(model)
    for part in list(_parts(proto)):
        if isinstance(part, onnx.TensorProto):
            _undouble(part.metadata_props)
        else:
            _forget_optional_types(part)
    kept = model.meta.get(_KEPT)
    if kept is not None:
        proto.training_info.extend(kept.training_info)
        types = {info.name: info.type for info in kept.graph.value_info}
        for infos in (proto.graph.input, proto.graph.output):
            for info in infos:
                if info.name in types and not info.HasField("type"):
                    info.type.CopyFrom(types[info.name])
    return proto


def all_graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the main graph and every subgraph, those in model-local functions included."""
    return (part for part in _parts(proto) if isinstance(part, onnx.GraphProto))


def all_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor: initializers and attributes of all graphs and functions."""
    return (part for part in _parts(proto) if isinstance(part, onnx.TensorProto))


def one_line(error: object) -> str:
    """Return an error's text on one line, without the final full stop."""
    return " ".join(str(error).split()).rstrip(".")


def _parts(proto: onnx.ModelProto) -> Iterator[_Part]:
    """Yield every graph, function and tensor."""
    stack: list[_Part] = [*reversed(proto.functions), proto.graph]
    while stack:
        item = stack.pop()
        yield item
        if isinstance(item, onnx.TensorProto):
            continue
        if isinstance(item, onnx.GraphProto):
            stack.extend(reversed(item.initializer))
        for node in item.node:
            for attribute in node.attribute:
                if attribute.type in _HOLDERS:
                    stack += _HOLDERS[attribute.type](attribute)


_HOLDERS: dict[int, Callable[[onnx.AttributeProto], list[Any]]] = {
    onnx.AttributeProto.TENSOR: lambda attribute: [attribute.t],
    onnx.AttributeProto.TENSORS: lambda attribute: list(attribute.tensors),
    onnx.AttributeProto.GRAPH: lambda attribute: [attribute.g],
    onnx.AttributeProto.GRAPHS: lambda attribute: list(attribute.graphs),
}


def _undouble(entries: Any) -> None:
    """Drop repeated metadata: the IR writes that of a tensor twice, once more on every trip."""
    unique = {entry.key: entry.value for entry in entries}
    if len(unique) < len(entries):
        del entries[:]
        for key, value in unique.items():
            entries.add(key=key, value=value)


def _infos(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return what a graph says of its values."""
    return [*graph.input, *graph.output, *graph.value_info]


def _forget_negative(type_: onnx.TypeProto) -> None:
    match type_.WhichOneof("value"):
        case "sequence_type":
            _forget_negative(type_.sequence_type.elem_type)
        case "optional_type":
            _forget_negative(type_.optional_type.elem_type)
        case "tensor_type":
            for dim in type_.tensor_type.shape.dim:
                if dim.dim_value < 0:
                    dim.Clear()


def _forget_optional_types(owner: onnx.GraphProto | onnx.FunctionProto) -> None:
    if not any(info.type.HasField("optional_type") for info in owner.value_info):
        return
    inferred = {name for n in owner.node if n.domain in ("", "ai.onnx") for name in n.output}
    for index in reversed(range(len(owner.value_info))):
        info = owner.value_info[index]
        if info.type.HasField("optional_type") and info.name in inferred:
            del owner.value_info[index]


def _holds_map(type_: onnx.TypeProto) -> bool:
    match type_.WhichOneof("value"):
        case "map_type":
            return True
        case "sequence_type":
            return _holds_map(type_.sequence_type.elem_type)
        case "optional_type":
            return _holds_map(type_.optional_type.elem_type)
    return False


def root(error: BaseException) -> BaseException:
    """Return the first cause of an error: the IR nests one per level of the model."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
