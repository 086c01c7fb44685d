"""A model as onnxruntime has it when it decides where nodes run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx

from passes.device.host_loops import HOST_LAYER, LAYER_KEY
from passes.graph.opsets import schema_of
from rewriter.backends.providers import missing, plain
from rewriter.backends.session import BackendError

__all__ = ["OPENED_KEY", "all_nodes_of", "before_placement", "layer_settings"]

OPENED_KEY = "seqmap.opened"
"""On a node that yields the result of an operator that onnxruntime opened: its inputs, as JSON."""
_HIDDEN = "seqmap.hidden "
_READER = "seqmap.reader "
_LAYER = "seqmap.layer "
# Operators that other providers compute and the CPU's has to open: a like operator, unopened.
_STAND_INS = {"HardSwish": "Softsign"}


def before_placement(
    model: onnx.ModelProto, folder: Path | None, *, every_cast: bool = False
) -> onnx.ModelProto:
    """Return a model with onnxruntime's basic optimizations, and the types that it infers.

    They come before nodes are placed, whatever the provider: the CPU's session shows them.

    Args:
        model: The model; it is used up.
        folder: Where its external weights lie.
        every_cast: Whether Casts that follow one another stay, but for those that undo one
            another. onnxruntime makes one of them when nodes have been placed, unless a provider
            comes as a plugin.

    Raises:
        BackendError: onnxruntime is not installed, or refuses the model.
    """
    if reason := missing():
        raise BackendError(reason, is_limit=True)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    if folder is not None:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(folder))
    functions = _functions(model.graph)
    _hide(model.graph)
    _keep_layers(model.graph)
    if every_cast:
        _keep_casts(model.graph)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        try:
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise BackendError(plain(error), is_limit=True) from error
        written = onnx.load(path)
    _drop_readers(written.graph)
    for node in all_nodes_of(written.graph):
        if node.doc_string.startswith(_HIDDEN):
            node.op_type = node.doc_string.removeprefix(_HIDDEN)
        if node.doc_string.startswith(_LAYER):
            node.metadata_props.add(key=LAYER_KEY, value=node.doc_string.removeprefix(_LAYER))
        given = functions.get(node.output[0]) if node.output else None
        if given is not None and given.op_type != node.op_type:
            node.metadata_props.add(key=OPENED_KEY, value=json.dumps(list(given.input)))
    return written


def _hide(graph: onnx.GraphProto) -> None:
    """Put stand-ins for what the CPU's provider would open."""
    for node in all_nodes_of(graph):
        if node.op_type in _STAND_INS and not node.domain and not _layer_of(node):
            node.doc_string = _HIDDEN + node.op_type
            node.op_type = _STAND_INS[node.op_type]


def _keep_layers(graph: onnx.GraphProto) -> None:
    """Hand the layer of a loop on in its description: onnxruntime writes no annotations."""
    for node in all_nodes_of(graph):
        if node.op_type in ("Loop", "Scan") and (layer := _layer_of(node)):
            node.doc_string = _LAYER + layer


def layer_settings(model: onnx.ModelProto) -> dict[str, str]:
    """Return the entry of a session's configuration that keeps loops of a model on the host."""
    return dict([HOST_LAYER]) if any(map(_layer_of, all_nodes_of(model.graph))) else {}


def _layer_of(node: onnx.NodeProto) -> str:
    return next((entry.value for entry in node.metadata_props if entry.key == LAYER_KEY), "")


def _keep_casts(graph: onnx.GraphProto) -> None:
    """Let a Cast that another follows have a further reader, for which onnxruntime keeps both."""
    casts = [node for node in graph.node if node.op_type == "Cast" and not node.domain]
    followed = {node.output[0] for node in casts} & {node.input[0] for node in casts}
    for name in sorted(followed):
        graph.node.append(onnx.helper.make_node("Size", [name], [_READER + name]))
    for inner in _graphs_in(graph):
        _keep_casts(inner)


def _drop_readers(graph: onnx.GraphProto) -> None:
    for node in list(graph.node):
        if node.output and node.output[0].startswith(_READER):
            graph.node.remove(node)
    for inner in _graphs_in(graph):
        _drop_readers(inner)


def _functions(graph: onnx.GraphProto) -> dict[str, onnx.NodeProto]:
    """Return the nodes whose operator ONNX defines by others, by their first result."""
    found = {}
    for node in all_nodes_of(graph):
        schema: Any = schema_of(node.op_type) if not node.domain and node.output else None
        if schema and (schema.has_function or schema.has_context_dependent_function):
            found[node.output[0]] = node
    return found


def all_nodes_of(owner: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """List the nodes of a graph or function, and of the graphs inside of them."""
    yield from owner.node
    for inner in _graphs_in(owner):
        yield from all_nodes_of(inner)


def _graphs_in(owner: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.GraphProto]:
    for node in owner.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
