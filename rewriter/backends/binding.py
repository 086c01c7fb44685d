"""Runs an onnxruntime session with its inputs and outputs on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rewriter.backends.session import has_nothing

__all__ = ["can_bind", "device_memory", "run_bound"]

# Providers whose device has memory of its own, and what onnxruntime's OrtValue calls the device.
_MEMORY = {
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "cuda",
    "WebGpuExecutionProvider": "gpu",
}


def device_memory(provider: str) -> str:
    """Return what onnxruntime's OrtValue calls the memory of a provider's device."""
    return _MEMORY.get(provider, "cpu")


def can_bind(session: Any, provider: str, feeds: Mapping[str, Any]) -> bool:
    """Return whether inputs and outputs can lie on the device of a provider.

    All have to be tensors of numbers, and the inputs must not be empty.

    Args:
        session: An onnxruntime session.
        provider: The provider that it was asked to run on.
        feeds: The inputs.
    """
    if provider not in _MEMORY or has_nothing(feeds):
        return False
    types = [value.type for value in (*session.get_inputs(), *session.get_outputs())]
    if not all(type_.startswith("tensor(") and "string" not in type_ for type_ in types):
        return False
    return all(isinstance(value, np.ndarray) for value in feeds.values())


def run_bound(
    session: Any, provider: str, feeds: Mapping[str, Any], to_device: Callable[..., Any]
) -> list[Any]:
    """Run a session once, bound to the device, and copy the outputs back.

    Args:
        session: An onnxruntime session that `can_bind`.
        provider: The provider.
        feeds: The inputs.
        to_device: onnxruntime's ``OrtValue.ortvalue_from_numpy``.

    Returns:
        The outputs in order.
    """
    device = device_memory(provider)
    binding = session.io_binding()
    for value in session.get_inputs():
        if value.name in feeds:
            array = np.asarray(feeds[value.name], order="C")
            binding.bind_ortvalue_input(value.name, to_device(array, device, 0))
    for value in session.get_outputs():
        binding.bind_output(value.name, device)
    session.run_with_iobinding(binding)
    return list(binding.copy_outputs_to_cpu())
