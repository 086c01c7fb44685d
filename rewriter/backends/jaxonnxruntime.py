"""JAX as a backend, by jaxonnxruntime."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.backends.messages import require_cpu, unless_installed
from rewriter.backends.ordered import Function, open_ordered
from rewriter.backends.session import Session

__all__ = ["DEVICES", "missing", "open_session"]

DEVICES = ("cpu",)

missing = unless_installed("jaxonnxruntime", "jaxonnxruntime", "jax", "absl")


def open_session(model: onnx.ModelProto, folder: Path | None, device: str) -> Session:
    """Make a model ready to be traced, which takes inputs: what JAX lacks shows in a run.

    Args:
        model: The model.
        folder: Where its external weights lie.
        device: Only ``cpu``.

    Raises:
        BackendError: The model cannot be run on JAX.
    """
    require_cpu(device, "JAX")
    return open_ordered(model, folder, "jaxonnxruntime", "jaxonnxruntime", _traced)


def _traced(model: onnx.ModelProto) -> Function:
    jax = importlib.import_module("jax")
    entry = importlib.import_module("jaxonnxruntime.call_onnx")
    config = importlib.import_module("jaxonnxruntime.config_class")

    def run(arrays: list[Any]) -> list[Any]:
        with (
            warnings.catch_warnings(),
            jax.enable_x64(True),
            jax.default_device(jax.devices("cpu")[0]),
            config.jaxort_only_allow_initializers_as_static_args(False),
        ):
            warnings.simplefilter("ignore")
            function, weights = entry.call_onnx_model(model, arrays)
            return [np.asarray(result) for result in function(weights, arrays)]

    return run
