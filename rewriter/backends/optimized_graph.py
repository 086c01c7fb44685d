"""A model as onnxruntime has it when it decides where nodes run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx

from passes.graph.opsets import schema_of
from rewriter.backends.providers import missing, plain
from rewriter.backends.session import BackendError

__all__ = ["OPENED_KEY", "all_nodes_of", "before_placement"]

OPENED_KEY = "seqmap.opened"
"""On a node that yields the result of an operator that onnxruntime opened: its inputs, as JSON."""
_HIDDEN = "seqmap.hidden "
# Operators that other providers compute and the CPU's has to open: a like operator, unopened.
_STAND_INS = {"HardSwish": "Softsign"}


def before_placement(model: onnx.ModelProto, folder: Path | None) -> onnx.ModelProto:
    """Return a model with onnxruntime's basic optimizations, and the types that it infers.

    They come before nodes are placed, whatever the provider: the CPU's session shows them.

    Args:
        model: The model; it is used up.
        folder: Where its external weights lie.

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
    for node in all_nodes_of(written.graph):
        if node.doc_string.startswith(_HIDDEN):
            node.op_type = node.doc_string.removeprefix(_HIDDEN)
        given = functions.get(node.output[0]) if node.output else None
        if given is not None and given.op_type != node.op_type:
            node.metadata_props.add(key=OPENED_KEY, value=json.dumps(list(given.input)))
    return written


def _hide(graph: onnx.GraphProto) -> None:
    """Put stand-ins for what the CPU's provider would open."""
    for node in all_nodes_of(graph):
        if node.op_type in _STAND_INS and not node.domain:
            node.doc_string = _HIDDEN + node.op_type
            node.op_type = _STAND_INS[node.op_type]


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
    for node in owner.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes_of(attribute.g)
