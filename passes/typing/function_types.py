"""Types inside of model-local functions, which declare none for their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx
import onnx_ir as ir

from passes.graph.graphs import with_subgraphs
from passes.typing.inference import infer, read_graph
from passes.typing.protos import graphs_of
from passes.typing.value_types import Typing, ValueType

__all__ = ["read_functions"]


def read_functions(
    typing: Typing, model: ir.Model, proto: onnx.ModelProto, inferred: onnx.ModelProto
) -> None:
    """Type the values inside functions from the types at their calls.

    A function that is called with several types keeps what all calls agree on.
    """
    protos = {_key(f): f for f in proto.functions}
    pending: list[tuple[onnx.GraphProto, dict[str, onnx.TypeProto]]] = [(inferred.graph, {})]
    merged: dict[ir.Value, ValueType] = {}
    while pending:
        graph, outer = pending.pop()
        types = outer | {v.name: v.type for v in (*graph.value_info, *graph.input, *graph.output)}
        for node in graph.node:
            pending += [(inner, types) for inner in graphs_of(node)]
            key = (node.domain, node.op_type, node.overload)
            if key not in protos:
                continue
            body = _typed_call(proto, protos[key], node, types)
            table = Typing()
            read_graph(table, model.functions[key].graph, body)
            for value in _values_of(model.functions[key].graph):
                type_ = table[value]
                merged[value] = merged[value].agreed(type_) if value in merged else type_
            pending.append((body, {}))
    for value, type_ in merged.items():
        typing.set(value, type_)


def _key(function: onnx.FunctionProto) -> ir.OperatorIdentifier:
    return function.domain, function.name, function.overload


def _values_of(graph: ir.Graph) -> Iterator[ir.Value]:
    for inner in with_subgraphs(graph):
        yield from (*inner.inputs, *(out for node in inner for out in node.outputs))


def _typed_call(
    model: onnx.ModelProto,
    function: onnx.FunctionProto,
    call: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
) -> onnx.GraphProto:
    """Return the body of a function as a graph, inferred from the types at one call."""
    inputs = []
    for i, name in enumerate(function.input):
        actual = call.input[i] if i < len(call.input) else ""
        inputs.append(onnx.ValueInfoProto(name=name, type=types.get(actual)))
    graph = onnx.GraphProto(
        name=function.name,
        node=function.node,
        input=inputs,
        output=[onnx.ValueInfoProto(name=name) for name in function.output],
    )
    given = {a.name: a for a in (*function.attribute_proto, *call.attribute)}
    _bind_attributes(graph.node, given)
    standalone = onnx.ModelProto(
        ir_version=model.ir_version,
        opset_import=function.opset_import,
        graph=graph,
        functions=[f for f in model.functions if _key(f) != _key(function)],
    )
    return infer(standalone).graph


def _bind_attributes(
    nodes: Iterable[onnx.NodeProto], given: Mapping[str, onnx.AttributeProto]
) -> None:
    for node in nodes:
        for attribute in list(node.attribute):
            if attribute.HasField("g"):
                _bind_attributes(attribute.g.node, given)
            if not attribute.ref_attr_name:
                continue
            if attribute.ref_attr_name in given:
                name = attribute.name
                attribute.CopyFrom(given[attribute.ref_attr_name])
                attribute.name = name
            else:
                node.attribute.remove(attribute)
