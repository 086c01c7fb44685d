"""The body of a map as a model of its own, which ONNX's inference can type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from passes.graph.graphs import (
    captured_values,
    constant_value,
    is_operator,
    name_of,
    subgraphs,
    walk_nodes,
)
from passes.graph.names import name_values_apart
from passes.typing.corrected_nodes import correct_nodes, counted_values
from passes.typing.inference import show_constants, stand_in
from passes.typing.value_types import Typing, ValueType

__all__ = ["Erase", "body_as_model"]

_MOST_SCALES = 8
"""Resize of tensors of more axes is not known of any runtime."""

Erase: TypeAlias = Callable[[onnx.GraphProto], object]
"""Takes out of a body the types that it declares and that must not be relied on."""


def body_as_model(
    body: ir.Graph, typing: Typing, model: ir.Model, erase: Erase
) -> onnx.ModelProto:
    """Return a body as a model of its own, for inference.

    Args:
        body: The body; its values get names of their own.
        typing: Knows its inputs and what it captures.
        model: Tells the versions, and has the functions.
        erase: What becomes of the types that the body declares.
    """
    name_values_apart(body)  # what was fused in it may share names, by which inference goes
    proto = ir.serde.serialize_graph(body)
    erase(proto)
    captured = captured_values(body)
    asked = {v: f"{v.name}/counted_{at}" for at, v in enumerate(counted_values(body))}
    inputs = [_info(v, typing[v]) for v in (*body.inputs, *captured)]
    inputs += [_info(v, typing[v], name) for v, name in asked.items()]
    del proto.input[:]
    proto.input.extend(inputs)
    constants = {
        name_of(v): onnx.numpy_helper.from_array(array, v.name)
        for v in captured
        if (array := constant_value(v)) is not None and _may_decide_shape(array)
    }
    stand_in(proto.node)
    _stand_in_slices(body, proto)
    proto.initializer.extend(constants.values())
    show_constants(body, proto, constants)
    correct_nodes(body, proto, asked)
    whole = onnx.ModelProto(ir_version=model.ir_version, graph=proto)
    whole.functions.extend(map(ir.serde.serialize_function, _called(body, model)))
    for domain, version in model.opset_imports.items():
        whole.opset_import.add(domain=domain, version=version)
    return whole


def _may_decide_shape(array: np.ndarray) -> bool:
    """Whether some operator makes a shape of such a constant: whole numbers, or scales."""
    kind = array.dtype.kind
    return kind in "iub" or (kind == "f" and array.ndim == 1 and array.size <= _MOST_SCALES)


def _called(body: ir.Graph, model: ir.Model) -> list[ir.Function]:
    """Return the functions of the model, if the body calls one."""
    calls = {node.op_identifier() for node in walk_nodes(body)}
    return [] if calls.isdisjoint(model.functions) else list(model.functions.values())


def _stand_in_slices(graph: ir.Graph, proto: onnx.GraphProto) -> None:
    """Make Compress, for inference only, of each Slice along one axis by bounds of any value.

    ONNX's inference forgets all dimensions of such a Slice, and those of a Compress but one.
    """
    for node, node_proto in zip(graph, proto.node, strict=True):
        attributes = {a.name: a for a in node_proto.attribute}
        for name, inner in subgraphs(node):
            if "[" not in name:
                _stand_in_slices(inner, attributes[name].g)
        if not is_operator(node, "Slice") or len(node.inputs) < 4:
            continue
        axes = constant_value(node.inputs[3])
        if axes is not None and axes.size == 1 and constant_value(node.inputs[1]) is None:
            node_proto.op_type = "Compress"
            del node_proto.input[2:]
            node_proto.attribute.add(
                name="axis", type=onnx.AttributeProto.INT, i=int(axes.reshape(()).item())
            )


def _info(value: ir.Value, known: ValueType, name: str | None = None) -> onnx.ValueInfoProto:
    shape = (
        None
        if known.dims is None
        else ir.Shape([d if isinstance(d, int) else d or None for d in known.dims])
    )
    typed = ir.Value(name=name or value.name, type=known.type, shape=shape)
    return ir.serde.serialize_value(typed)
