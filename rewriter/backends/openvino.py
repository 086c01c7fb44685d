"""OpenVINO as a backend."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.backends import isolated
from rewriter.backends.messages import (
    refuse_ignored,
    refuse_sequences,
    unless_installed,
    with_weights,
)
from rewriter.backends.session import BackendError, Session, as_arrays, one_line

__all__ = ["DEVICES", "missing", "open_session"]

DEVICES = ("cpu", "gpu", "npu", "auto")

# Without the hint a CPU that has bfloat16 computes in it.
_OPTIONS = {"INFERENCE_PRECISION_HINT": "f32"}

missing = unless_installed("openvino")


def open_session(model: onnx.ModelProto, folder: Path | None, device: str) -> Session:
    """Make a model ready to run, in float32.

    Args:
        model: The model.
        folder: Where its external weights lie.
        device: ``cpu``, ``gpu``, ... as OpenVINO names its devices.

    Raises:
        BackendError: OpenVINO refuses the model, or has no such device.
    """
    refuse_sequences(model, "OpenVINO")
    refuse_ignored(model, "openvino")
    session = _open_here(model, folder, device)
    if _appends_in_loop(model.graph.node):
        return _ApartSession(model, folder, device)
    return session


def _open_here(model: onnx.ModelProto, folder: Path | None, device: str) -> Session:
    import openvino

    core = openvino.Core()
    name = device.upper()
    known = [found.split(".")[0] for found in core.available_devices]
    if name not in (*known, "AUTO"):
        raise BackendError(
            f"OpenVINO has no device {device!r} here; it has {', '.join(known).lower()}",
            is_limit=True,
        )
    try:
        graph = core.read_model(with_weights(model, folder).SerializeToString())
    except BackendError:
        raise
    except Exception as error:
        raise _refusal(error) from error
    return _OpenvinoSession(core, name, graph, [output.name for output in model.graph.output])


class _ApartSession:
    """Runs in a process of its own: a Loop that appends to a sequence may end it."""

    def __init__(self, model: onnx.ModelProto, folder: Path | None, device: str) -> None:
        self._source = (with_weights(model, folder).SerializeToString(), None, device)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once; see :class:`rewriter.backends.session.Session`."""
        try:
            return isolated.run(__name__, *self._source, as_arrays(feeds))
        except BackendError as error:
            raise BackendError(f"OpenVINO fails: {error}", error.is_limit) from error


def run_here(
    model: onnx.ModelProto, folder: Path | None, device: str, feeds: dict[str, Any]
) -> dict[str, Any]:
    """Run a model once, whatever may become of this process."""
    return _open_here(model, folder, device).run(feeds)


def _appends_in_loop(nodes: Iterable[onnx.NodeProto], in_loop: bool = False) -> bool:
    return any(
        (in_loop and node.op_type == "SequenceInsert")
        or any(
            _appends_in_loop(attribute.g.node, in_loop or node.op_type == "Loop")
            for attribute in node.attribute
        )
        for node in nodes
    )


class _OpenvinoSession:
    """A model whose inputs of unknown rank get the ranks of the feeds, which OpenVINO needs."""

    def __init__(self, core: Any, device: str, graph: Any, outputs: list[str]) -> None:
        self._core = core
        self._device = device
        self._graph = graph
        self._outputs = outputs
        self._open = [
            name
            for value in graph.inputs
            if value.partial_shape.rank.is_dynamic
            for name in value.names
        ]
        self._requests: dict[tuple[int, ...], Any] = {}
        if not self._open:
            self._request({})

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once; see :class:`rewriter.backends.session.Session`."""
        arrays = as_arrays(feeds)
        request, inputs = self._request(arrays)
        try:
            results = request.infer({k: v for k, v in arrays.items() if k in inputs})
            values = [results[number] for number in range(len(self._outputs))]
        except Exception as error:
            raise BackendError(f"OpenVINO fails: {_plain(error)}") from error
        # The request owns the memory of its results.
        return dict(zip(self._outputs, map(np.array, values), strict=True))

    def _request(self, arrays: Mapping[str, Any]) -> Any:
        ranks = tuple(arrays[name].ndim for name in self._open)
        if ranks not in self._requests:
            try:
                graph = self._graph.clone()
                if ranks:
                    graph.reshape(
                        {n: [-1] * rank for n, rank in zip(self._open, ranks, strict=True)}
                    )
                compiled = self._core.compile_model(graph, self._device, _OPTIONS)
            except Exception as error:
                raise _refusal(error) from error
            # An input that nothing reads is gone.
            inputs = {name for value in compiled.inputs for name in value.names}
            self._requests[ranks] = (compiled.create_infer_request(), inputs)
        return self._requests[ranks]


def _refusal(error: Exception) -> BackendError:
    return BackendError(f"OpenVINO refuses the model: {_plain(error)}", is_limit=True)


def _plain(error: BaseException) -> str:
    """Return OpenVINO's message without the places in its source."""
    text = re.sub(r"(Exception from|Check '.*?' failed at) src/\S+:\d+:", "", str(error))
    text = re.sub(r"FrontEnd API failed with \w+:|To facilitate the conversion.*", "", text)
    return one_line(RuntimeError(text))
