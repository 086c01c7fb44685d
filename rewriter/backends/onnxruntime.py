"""onnxruntime as a backend, on any of its execution providers."""

from __future__ import annotations

import importlib
import importlib.util
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.backends import isolated
from rewriter.backends.binding import can_bind, run_bound
from rewriter.backends.profiling import Placement, read_profile
from rewriter.backends.session import (
    BackendError,
    PlacementError,
    Session,
    as_arrays,
    has_nothing,
    one_line,
)
from rewriter.backends.timed import run_watched
from rewriter.run_watch import OverBudgetError, current_watch

__all__ = ["DEVICES", "missing", "open_session", "plain", "provider_of"]

_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "directml": "DmlExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
}
DEVICES = (*_PROVIDERS, "any other provider's name")

# Providers that come as a package of their own and have to be registered: provider to module.
_PLUGINS = {"WebGpuExecutionProvider": "onnxruntime_ep_webgpu"}
_INSTALL = {
    "CUDAExecutionProvider": "install onnxruntime-gpu in place of onnxruntime",
    "TensorrtExecutionProvider": "install onnxruntime-gpu and TensorRT",
    "OpenVINOExecutionProvider": "install onnxruntime-openvino in place of onnxruntime",
    "WebGpuExecutionProvider": "install onnxruntime-ep-webgpu",
    "DmlExecutionProvider": "install onnxruntime-directml in place of onnxruntime",
    "MIGraphXExecutionProvider": "install onnxruntime-migraphx in place of onnxruntime",
}
# With a batch of 0 these end the process instead of failing.
_FRAGILE = {"LSTM", "GRU", "RNN", "Scan"}
# So does a Scan along one of these where nothing goes through it, whatever the model is fed.
_AXES = {"scan_input_axes", "scan_output_axes"}
_FATAL_ONLY = 4


def missing() -> str:
    """Return why this backend cannot be used; empty where it can."""
    if importlib.util.find_spec("onnxruntime") is None:
        return "onnxruntime is not installed; install seqmap[cpu]"
    return ""


def provider_of(device: str) -> str:
    """Return the execution provider that a device name stands for.

    Raises:
        BackendError: The name is neither a known device nor a provider's name.
    """
    if device.endswith("ExecutionProvider"):
        return device
    if device.lower() in _PROVIDERS:
        return _PROVIDERS[device.lower()]
    known = ", ".join(_PROVIDERS)
    raise BackendError(
        f"{device!r} is no device of onnxruntime; say one of {known}, or the full name of an "
        "execution provider"
    )


def open_session(
    model: onnx.ModelProto, folder: Path | None, device: str, threads: int | None = None
) -> Session:
    """Make a model ready to run.

    Args:
        model: The model.
        folder: Where its external weights lie.
        device: ``cpu``, ``cuda``, ... or the name of an execution provider.
        threads: Threads of one run; None lets onnxruntime choose.

    Raises:
        BackendError: onnxruntime refuses the model, or does not run it on that device.
    """
    reason = missing()
    if reason:
        raise BackendError(f"cannot run on onnxruntime: {reason}", is_limit=True)
    return OnnxruntimeSession(model, folder, device, threads=threads)


class OnnxruntimeSession:
    """A session that runs where it was asked to, or does not come to be."""

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: Path | None,
        device: str,
        *,
        whole: bool = False,
        threads: int | None = None,
    ) -> None:
        """Open a session.

        Args:
            model: The model.
            folder: Where its external weights lie.
            device: As for `open_session`.
            whole: Refuse a model of which another provider would run a part.
            threads: As for `open_session`.
        """
        self._source = (model.SerializeToString(), folder, device)
        nodes = [node for owner in (model.graph, *model.functions) for node in _nodes(owner)]
        self._is_fragile = any(node.op_type in _FRAGILE for node in nodes)
        self._is_brittle = any(map(_divides_by_what_it_scans, nodes))
        provider = provider_of(device)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                extra = {"session.disable_cpu_ep_fallback": "1"} if whole else {}
                self._session = _create(self._source[0], folder, provider, extra, threads=threads)
        except BackendError:
            raise
        except Exception as error:
            message = f"onnxruntime refuses the model: {plain(error)}"
            raise BackendError(message, is_limit=True) from error
        _require_provider(self._session, provider)
        self._provider = provider
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once; see :class:`rewriter.backends.session.Session`."""
        feeds = as_arrays(feeds)
        for name, value in feeds.items():
            _check_types(name, value)
        is_judged = current_watch() is not None
        if (self._is_fragile and has_nothing(feeds)) or (self._is_brittle and is_judged):
            return _run_apart(*self._source, feeds)
        return self.run_here(feeds)

    def run_here(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model in this process, whatever may become of it."""
        try:
            results = self._run_on_device(self._session, feeds)
        except OverBudgetError:
            raise
        except Exception as error:
            raise BackendError(f"onnxruntime fails: {plain(error)}") from error
        return dict(zip(self._outputs, results, strict=True))

    def placement(self, feeds: Mapping[str, Any]) -> Placement:
        """Run the model once more, and tell where its nodes ran and what was copied.

        Raises:
            BackendError: The model fails on these inputs.
        """
        data, folder, _ = self._source
        with tempfile.TemporaryDirectory() as place:
            try:
                session = _create(data, folder, self._provider, {}, str(Path(place) / "profile"))
                self._run_on_device(session, as_arrays(feeds))
            except Exception as error:
                raise BackendError(f"onnxruntime fails: {plain(error)}") from error
            return read_profile(Path(session.end_profiling()))

    def _run_on_device(self, session: Any, feeds: Mapping[str, Any]) -> list[Any]:
        if can_bind(session, self._provider, feeds):
            to_device = importlib.import_module("onnxruntime").OrtValue.ortvalue_from_numpy
            return run_bound(session, self._provider, feeds, to_device)
        if watch := current_watch():
            return run_watched(session, feeds, watch)
        return list(session.run(None, dict(feeds)))


def run_here(
    model: onnx.ModelProto, folder: Path | None, device: str, feeds: dict[str, Any]
) -> dict[str, Any]:
    """Run a model once, whatever may become of this process."""
    return OnnxruntimeSession(model, folder, device).run_here(feeds)


def _run_apart(
    data: bytes, folder: Path | None, device: str, feeds: dict[str, Any]
) -> dict[str, Any]:
    try:
        return isolated.run(__name__, data, folder, device, feeds, current_watch(), again=True)
    except BackendError as error:
        if "ended its process" not in str(error):
            raise
        where = " on inputs without elements" if has_nothing(feeds) else ""
        message = f"onnxruntime fails: {error}{where}"
        raise BackendError(message) from error


def _create(
    data: bytes,
    folder: Path | None,
    provider: str,
    extra: Mapping[str, str],
    profile: str = "",
    threads: int | None = None,
) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    for key, value in extra.items():
        options.add_session_config_entry(key, value)
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    # Failures come back as exceptions; the log would only repeat them on stderr.
    options.log_severity_level = _FATAL_ONLY
    if folder is not None:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(folder))
    if provider == _PROVIDERS["cpu"]:
        return onnxruntime.InferenceSession(data, options, providers=[provider])
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    _register(onnxruntime, provider)
    # A provider from a plugin is ignored when it is only named.
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == provider]
    if devices:
        options.add_provider_for_devices(devices[:1], {})
        return onnxruntime.InferenceSession(data, options, enable_fallback=False)
    if provider in _PLUGINS and importlib.util.find_spec(_PLUGINS[provider]):
        raise BackendError(f"{provider} finds no device here", is_limit=True)
    if provider not in onnxruntime.get_available_providers():
        remedy = _INSTALL.get(provider, "install an onnxruntime that has it")
        raise BackendError(f"this onnxruntime has no {provider}: {remedy}", is_limit=True)
    chain = [provider, _PROVIDERS["cpu"]]
    return onnxruntime.InferenceSession(data, options, providers=chain, enable_fallback=False)


def _register(onnxruntime: Any, provider: str) -> None:
    """Make the devices of a plugin known; one that has none now may have some later."""

    def is_known() -> bool:
        return any(device.ep_name == provider for device in onnxruntime.get_ep_devices())

    module = _PLUGINS.get(provider)
    if module is None or importlib.util.find_spec(module) is None or is_known():
        return
    path = importlib.import_module(module).get_library_path()
    onnxruntime.register_execution_provider_library(module, path)
    if not is_known():
        onnxruntime.unregister_execution_provider_library(module)


def _require_provider(session: Any, provider: str) -> None:
    """Refuse a session that onnxruntime quietly moved to another provider."""
    actual = session.get_providers()[0]
    if actual != provider:
        raise BackendError(
            f"{provider} was asked for and onnxruntime runs on {actual} instead: its libraries, "
            "driver or device are missing; install them, or ask for that device",
            is_limit=True,
        )
    if provider == _PROVIDERS["cpu"]:
        return
    placed = [part.ep_name for part in session.get_provider_graph_assignment_info()]
    if placed and provider not in placed:
        raise PlacementError(
            f"{provider} takes no node of this model, all of it would run on "
            f"{', '.join(sorted(set(placed)))}; ask for that device",
            is_limit=True,
        )


def _check_types(name: str, value: Any) -> None:
    for item in value if isinstance(value, list) else [value]:
        dtype = np.asarray(item).dtype
        # 2: registered from outside numpy, as the types of ml_dtypes are.
        if dtype.isbuiltin == 2:
            raise BackendError(
                f"onnxruntime takes no {dtype} arrays (input {name!r}); run on the backend "
                "'reference'",
                is_limit=True,
            )


def _nodes(owner: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph or function, those of graphs inside of them too."""
    for node in owner.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _divides_by_what_it_scans(node: onnx.NodeProto) -> bool:
    return node.op_type == "Scan" and any(
        attribute.name in _AXES and any(attribute.ints) for attribute in node.attribute
    )


def plain(error: BaseException) -> str:
    """Return onnxruntime's message without its codes and the places in its source."""
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error))
    text = re.sub(r"/onnxruntime_src/\S+:\d+ .*?[)>] (?=[A-Z])", "", text, flags=re.DOTALL)
    text = re.sub(r"ONNX Runtime only \*guarantees\*.*?(?=Current official)", "", text)
    return one_line(RuntimeError(text))
