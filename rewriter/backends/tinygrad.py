"""tinygrad as a backend."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.backends.messages import unless_installed
from rewriter.backends.ordered import Function, open_ordered
from rewriter.backends.session import BackendError, Session, one_line

__all__ = ["DEVICES", "missing", "open_session"]

# Its CPU needs clang; python runs anywhere, slowly.
DEVICES = ("cpu", "python", "any other that tinygrad has")

missing = unless_installed("tinygrad")


def open_session(model: onnx.ModelProto, folder: Path | None, device: str) -> Session:
    """Make a model ready; inputs tell the shapes, and what tinygrad lacks shows in a run.

    Args:
        model: The model.
        folder: Where its external weights lie.
        device: ``cpu``, ``python``, ... as tinygrad names its devices.

    Raises:
        BackendError: tinygrad has no such device, or the model cannot be run on it.
    """
    tinygrad = importlib.import_module("tinygrad")
    name = device.upper()
    try:
        tinygrad.Device[name]  # it is opened when it is named
    except Exception as error:
        message = f"tinygrad has no device {device!r} here: {one_line(error)}"
        raise BackendError(message, is_limit=True) from error

    def make(sized: onnx.ModelProto) -> Function:
        return _made(sized, name)

    return open_ordered(model, folder, "tinygrad", "tinygrad", make, needs="shapes")


def _made(model: onnx.ModelProto, device: str) -> Function:
    tinygrad = importlib.import_module("tinygrad")
    data = np.frombuffer(_with_long_ranges(model).SerializeToString(), np.uint8)

    def run(arrays: list[Any]) -> list[Any]:
        with warnings.catch_warnings(), tinygrad.Context(DEV=device):
            warnings.simplefilter("ignore")
            given = map(tinygrad.Tensor, arrays)
            results = runner(dict(zip(runner.graph_inputs, given, strict=True)))
            return [results[value.name].numpy() for value in model.graph.output]

    with tinygrad.Context(DEV=device):
        runner = importlib.import_module("tinygrad.nn.onnx").OnnxRunner(tinygrad.Tensor(data))
    return run


def _with_long_ranges(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with a Cast after each Range of int64: tinygrad makes them int32."""
    inferred = onnx.shape_inference.infer_shapes(model)
    values = [*inferred.graph.value_info, *inferred.graph.output]
    longs = {v.name for v in values if v.type.tensor_type.elem_type == onnx.TensorProto.INT64}
    new = onnx.ModelProto()
    new.CopyFrom(model)
    del new.graph.node[:]
    for node in model.graph.node:
        added = new.graph.node.add()
        added.CopyFrom(node)
        if node.op_type == "Range" and node.output[0] in longs:
            added.output[0] = f"{node.output[0]}/int32"
            cast = onnx.helper.make_node(
                "Cast", added.output, node.output, to=onnx.TensorProto.INT64
            )
            new.graph.node.append(cast)
    return new
