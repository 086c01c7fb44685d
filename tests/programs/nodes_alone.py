"""The nodes of a model one by one, on the values that the interpreter says they read."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.programs.interpreter import Ambiguous, Failure, Unsettled, run_model

__all__ = ["nodes_alone"]


def nodes_alone(
    model: onnx.ModelProto, feed: Mapping[str, Any]
) -> list[tuple[onnx.ModelProto, dict[str, Any]]]:
    """Return a model for each node of the main graph, and its inputs.

    Left out are nodes that read what has no type of its own, such as a sequence of nothing, and
    those behind a node that fails.
    """
    found: list[tuple[onnx.ModelProto, dict[str, Any]]] = []

    def note(node: onnx.NodeProto, values: Mapping[str, Any]) -> None:
        read = {name: values[name] for name in _names_read(node) if name in values}
        types = {name: _type_of(value) for name, value in read.items()}
        if None in types.values():
            return
        inputs = [helper.make_value_info(name, kind) for name, kind in types.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        alone = onnx.ModelProto(
            ir_version=model.ir_version,
            opset_import=model.opset_import,
            functions=model.functions,
            graph=helper.make_graph([node], "alone", inputs, outputs),
        )
        found.append((alone, read))

    with contextlib.suppress(Failure, Ambiguous):
        run_model(model, feed, before=note)
    return found


def _names_read(node: onnx.NodeProto) -> dict[str, None]:
    """Return the names that a node reads, in its subgraphs too."""
    names = dict.fromkeys(name for name in node.input if name)
    for attribute in node.attribute:
        for inner in attribute.g.node:
            names.update(_names_read(inner))
        names.update(dict.fromkeys(value.name for value in attribute.g.output))
    return names


def _type_of(value: Any) -> onnx.TypeProto | None:
    """Return the type of a value, None if it does not tell."""
    if isinstance(value, Unsettled) or value is None:
        return None
    if isinstance(value, list):
        element = _type_of(value[0]) if value else None
        return None if element is None else helper.make_sequence_type_proto(element)
    array = np.asarray(value)
    kind = onnx.TensorProto.STRING
    if array.dtype.kind not in "OUS":
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_type_proto(kind, None)
