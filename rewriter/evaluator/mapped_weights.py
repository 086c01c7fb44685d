"""Reads weights that lie in other files; large ones stay there, and are mapped into memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx.external_data_helper import load_external_data_for_model, uses_external_data

from rewriter.evaluator.reference_operator import EvaluationError
from rewriter.model_files import external_data, protos

__all__ = ["mapped", "with_small_weights"]

_LARGE = 2**20
"""Elements of a tensor that is mapped; inference may look into smaller ones."""


def with_small_weights(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """Return a model with its external weights, except for large initializers of its graph.

    Args:
        model: The model; it is not changed.
        folder: Where the weights lie.

    Raises:
        EvaluationError: They cannot be read.
    """
    if not any(map(uses_external_data, protos.all_tensors(model))):
        return model
    loaded = onnx.ModelProto()
    loaded.CopyFrom(model)
    del loaded.graph.initializer[:]
    large: list[onnx.TensorProto] = []
    for tensor in model.graph.initializer:
        is_large = uses_external_data(tensor) and np.prod(tensor.dims, dtype=object) > _LARGE
        (large if is_large else loaded.graph.initializer).append(tensor)
    try:
        load_external_data_for_model(loaded, str(folder))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise _unreadable(folder, error) from error
    loaded.graph.initializer.extend(large)
    return loaded


def mapped(initializer: onnx.TensorProto, folder: Path) -> np.ndarray:
    """Return external weights as an array that the system reads from the file where it is used.

    Raises:
        EvaluationError: They cannot be read.
    """
    tensor = ir.from_proto(initializer)
    assert isinstance(tensor, ir.ExternalTensor)
    tensor.base_dir = str(folder)
    external_data.check_tensor(tensor)
    try:
        return tensor.numpy()
    except (OSError, ValueError) as error:
        raise _unreadable(folder, error) from error


def _unreadable(folder: Path, error: Exception) -> EvaluationError:
    return EvaluationError(f"the weights in {folder} cannot be read: {protos.one_line(error)}")
