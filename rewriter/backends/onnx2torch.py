"""PyTorch as a backend, of a model that onnx2torch converts."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.backends.messages import unless_installed
from rewriter.backends.ordered import Function, open_ordered
from rewriter.backends.session import BackendError, Session

__all__ = ["DEVICES", "missing", "open_session"]

DEVICES = ("cpu", "cuda")

missing = unless_installed("onnx2torch", "onnx2torch", "torch")


def open_session(model: onnx.ModelProto, folder: Path | None, device: str) -> Session:
    """Convert a model.

    Args:
        model: The model.
        folder: Where its external weights lie.
        device: ``cpu`` or ``cuda``.

    Raises:
        BackendError: onnx2torch refuses the model, or PyTorch has no such device.
    """
    torch = importlib.import_module("torch")
    if device not in DEVICES or (device == "cuda" and not torch.cuda.is_available()):
        raise BackendError(f"PyTorch has no device {device!r} here; use cpu", is_limit=True)

    def make(model: onnx.ModelProto) -> Function:
        return _converted(model, device)

    return open_ordered(model, folder, "onnx2torch", "onnx2torch", make)


_PLACES = {
    "linear": ("half_pixel", "pytorch_half_pixel", "align_corners"),
    "cubic": ("half_pixel",),
    "nearest": ("asymmetric",),
}


def _refuse_resize(model: onnx.ModelProto) -> None:
    """Refuse a Resize that onnx2torch computes otherwise than its attributes say."""
    for node in model.graph.node:
        if node.op_type != "Resize":
            continue
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        mode = given.get("mode", b"nearest").decode()
        places = given.get("coordinate_transformation_mode", b"half_pixel").decode()
        is_known = given.get("cubic_coeff_a", -0.75) == -0.75
        if mode == "nearest":
            is_known = given.get("nearest_mode") == b"floor"
        if not is_known or places not in _PLACES.get(mode, ()):
            raise NotImplementedError(f"Resize of mode {mode} with {places} is not implemented")


def _converted(model: onnx.ModelProto, device: str) -> Function:
    _refuse_resize(model)
    torch = importlib.import_module("torch")
    module = importlib.import_module("onnx2torch").convert(model).to(device).eval()

    def run(arrays: list[Any]) -> list[Any]:
        given = [torch.from_numpy(np.array(array)).to(device) for array in arrays]
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = module(*given)
        results = results if isinstance(results, tuple | list) else [results]
        return [result.cpu().numpy() for result in results]

    return run
