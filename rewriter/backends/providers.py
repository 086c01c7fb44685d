"""The execution providers of onnxruntime: their names, their packages, and a session on one."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewriter.backends.session import BackendError, PlacementError, one_line

__all__ = [
    "DEVICES",
    "NO_FALLBACK",
    "create_session",
    "load_libraries",
    "missing",
    "plain",
    "provider_of",
    "register_plugin",
    "require_provider",
    "settings_of",
]

_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "webgpu-int64": "WebGpuExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "directml": "DmlExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
}
_SETTINGS = {"webgpu-int64": {"ep.webgpuexecutionprovider.enableInt64": "1"}}
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
# Their libraries may come as packages of Python, in folders where no loader looks.
_NVIDIA = ("CUDAExecutionProvider", "TensorrtExecutionProvider")
_FATAL_ONLY = 4
NO_FALLBACK = "session.disable_cpu_ep_fallback"
"""A session is refused unless the device takes every node; some runtimes force it on."""


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


def settings_of(device: str) -> Mapping[str, str]:
    """Return the entries of a session's configuration that make a device of its provider."""
    return _SETTINGS.get(device.lower(), {})


def create_session(
    data: bytes,
    folder: Path | None,
    provider: str,
    extra: Mapping[str, str],
    profile: str = "",
    threads: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Any:
    """Open a session of onnxruntime on one provider.

    Args:
        data: The model.
        folder: Where its external weights lie.
        provider: The execution provider.
        extra: Entries of the configuration.
        profile: What the name of a profile begins with; empty for none.
        threads: Threads of one run; None lets onnxruntime choose.
        settings: Options of the provider.

    Raises:
        BackendError: This onnxruntime does not have the provider, or it finds no device.
    """
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
    register_plugin(onnxruntime, provider)
    load_libraries(onnxruntime, provider)
    # A provider from a plugin is ignored when it is only named.
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == provider]
    if devices:
        options.add_provider_for_devices(devices[:1], dict(settings or {}))
        return onnxruntime.InferenceSession(data, options, enable_fallback=False)
    if provider in _PLUGINS and importlib.util.find_spec(_PLUGINS[provider]):
        raise BackendError(f"{provider} finds no device here", is_limit=True)
    if provider not in onnxruntime.get_available_providers():
        remedy = _INSTALL.get(provider, "install an onnxruntime that has it")
        raise BackendError(f"this onnxruntime has no {provider}: {remedy}", is_limit=True)
    chain = [(provider, dict(settings or {}))]
    if NO_FALLBACK not in extra:
        chain.append((_PROVIDERS["cpu"], {}))
    return onnxruntime.InferenceSession(data, options, providers=chain, enable_fallback=False)


def register_plugin(onnxruntime: Any, provider: str) -> None:
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


def load_libraries(onnxruntime: Any, provider: str) -> None:
    """Load CUDA's libraries where they are packages, as ``onnxruntime-gpu[cuda]`` installs them.

    What is missing is told when the provider does not start; onnxruntime would print it here.
    """
    if provider in _NVIDIA and importlib.util.find_spec("nvidia"):
        with contextlib.redirect_stdout(io.StringIO()):
            onnxruntime.preload_dlls()


def require_provider(session: Any, provider: str) -> None:
    """Refuse a session that onnxruntime quietly moved to another provider.

    Args:
        session: The session.
        provider: The provider that was asked for.

    Raises:
        BackendError: It runs on another one.
        PlacementError: It runs on that one, which takes no node.
    """
    actual = session.get_providers()[0]
    if actual != provider:
        how = ""
        if provider == _PROVIDERS["cuda"]:
            how = " (pip install 'onnxruntime-gpu[cuda,cudnn]' brings the libraries)"
        raise BackendError(
            f"{provider} was asked for and onnxruntime runs on {actual} instead: its libraries, "
            f"driver or device are missing; install them{how}, or ask for that device",
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


def plain(error: BaseException) -> str:
    """Return onnxruntime's message without its codes and the places in its source."""
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error))
    text = re.sub(r"/onnxruntime_src/\S+:\d+ .*?[)>] (?=[A-Z])", "", text, flags=re.DOTALL)
    text = re.sub(r"ONNX Runtime only \*guarantees\*.*?(?=Current official)", "", text)
    return one_line(RuntimeError(text))
