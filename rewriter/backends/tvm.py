"""TVM as a backend, by its frontend for ONNX models of Relax."""

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

missing = unless_installed("tvm")


def open_session(model: onnx.ModelProto, folder: Path | None, device: str) -> Session:
    """Compile a model.

    Args:
        model: The model.
        folder: Where its external weights lie.
        device: Only ``cpu``.

    Raises:
        BackendError: TVM refuses the model.
    """
    require_cpu(device, "TVM")
    return open_ordered(model, folder, "tvm", "TVM", _compiled)


def _compiled(model: onnx.ModelProto) -> Function:
    tvm = importlib.import_module("tvm")
    relax = importlib.import_module("tvm.relax")
    frontend = importlib.import_module("tvm.relax.frontend.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = frontend.from_onnx(model, keep_params_in_input=False)
    for step in (relax.transform.DecomposeOpsForInference(), relax.transform.LegalizeOps()):
        module = step(module)
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())

    def run(arrays: list[Any]) -> list[Any]:
        if any(array.size == 0 for array in arrays):
            # Its sum of no numbers is whatever lies in memory.
            raise NotImplementedError("inputs without elements")
        return list(_flat(machine["main"](*map(tvm.runtime.tensor, arrays))))

    return run


def _flat(results: Any) -> list[Any]:
    if hasattr(results, "numpy"):
        return [results.numpy()]
    if all(isinstance(result, int) for result in results):
        return [np.array(results, np.int64)]  # a shape
    return [array for result in results for array in _flat(result)]
