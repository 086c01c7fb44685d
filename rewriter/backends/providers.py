"""Sessions of onnxruntime on an execution provider, and on no other."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewriter.backends.session import BackendError, PlacementError

__all__ = ["DEVICES", "PROVIDERS", "create", "provider_of", "register", "require_provider"]

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "directml": "DmlExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
}
DEVICES = (*PROVIDERS, "any other provider's name")

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
_FATAL_ONLY = 4


def provider_of(device: str) -> str:
    """Return the execution provider that a device name stands for.

    Raises:
        BackendError: The name is neither a known device nor a provider's name.
    """
    if device.endswith("ExecutionProvider"):
        return device
    if device.lower() in PROVIDERS:
        return PROVIDERS[device.lower()]
    known = ", ".join(PROVIDERS)
    raise BackendError(
        f"{device!r} is no device of onnxruntime; say one of {known}, or the full name of an "
        "execution provider"
    )


def create(
    data: bytes,
    folder: Path | None,
    provider: str,
    extra: Mapping[str, str],
    profile: str = "",
    threads: int | None = None,
) -> Any:
    """Make a session of onnxruntime.

    Args:
        data: The serialized model.
        folder: Where its external weights lie.
        provider: The full name of an execution provider.
        extra: Further entries of the session's configuration.
        profile: How the files of a profile begin; empty for none.
        threads: Threads of one run; None lets onnxruntime choose.

    Raises:
        BackendError: There is no such provider, or it finds no device.
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
    if provider == PROVIDERS["cpu"]:
        return onnxruntime.InferenceSession(data, options, providers=[provider])
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    register(onnxruntime, provider)
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
    chain = [provider, PROVIDERS["cpu"]]
    return onnxruntime.InferenceSession(data, options, providers=chain, enable_fallback=False)


def register(onnxruntime: Any, provider: str) -> None:
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


def require_provider(session: Any, provider: str) -> None:
    """Refuse a session that onnxruntime quietly moved to another provider."""
    actual = session.get_providers()[0]
    if actual != provider:
        raise BackendError(
            f"{provider} was asked for and onnxruntime runs on {actual} instead: its libraries, "
            "driver or device are missing; install them, or ask for that device",
            is_limit=True,
        )
    if provider == PROVIDERS["cpu"]:
        return
    placed = [part.ep_name for part in session.get_provider_graph_assignment_info()]
    if placed and provider not in placed:
        raise PlacementError(
            f"{provider} takes no node of this model, all of it would run on "
            f"{', '.join(sorted(set(placed)))}; ask for that device",
            is_limit=True,
        )
