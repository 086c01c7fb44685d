"""IREE as a backend: the model is compiled for the CPU, then run."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from passes.sequence_operators import SEQUENCE_OPERATORS
from rewriter.backends.messages import require_cpu, unless_installed
from rewriter.backends.ordered import Function, open_ordered
from rewriter.backends.session import Session

__all__ = ["DEVICES", "missing", "open_session"]

DEVICES = ("cpu",)

# An open Scan gives one step; a SequenceLength and what an If yields may be wrong.
_NEVER = SEQUENCE_OPERATORS | {"If", "Scan"}

missing = unless_installed("iree", "iree.compiler", "iree.runtime")


def open_session(model: onnx.ModelProto, folder: Path | None, device: str) -> Session:
    """Compile a model.

    Args:
        model: The model.
        folder: Where its external weights lie.
        device: Only ``cpu``.

    Raises:
        BackendError: IREE refuses the model.
    """
    require_cpu(device, "IREE")
    return open_ordered(model, folder, "iree", "IREE", _compiled, never=_NEVER)


def _compiled(model: onnx.ModelProto) -> Function:
    _refuse_scatter(model)
    tools = importlib.import_module("iree.compiler.tools")
    runtime = importlib.import_module("iree.runtime")
    try:
        program = tools.compile_str(
            _imported(model),
            input_type="onnx",
            target_backends=["llvm-cpu"],
            extra_args=["--iree-llvmcpu-target-cpu=generic"],
        )
    except tools.CompilerToolError as error:
        unknown = sorted(set(re.findall(r'name = "onnx\.(\w+)"', str(error))))
        if not unknown:
            raise
        raise NotImplementedError(f"{', '.join(unknown)} is not implemented") from error
    entry = runtime.load_vm_flatbuffer(program, driver="local-sync")[_NAME]
    types = [
        onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        for value in model.graph.output
    ]

    def run(arrays: list[Any]) -> list[Any]:
        results = entry(*arrays)
        results = results if isinstance(results, tuple | list) else [results]
        # Its memory goes with its results, and its integers have no sign of their own.
        return [np.array(r.to_host()).view(dtype) for r, dtype in zip(results, types, strict=True)]

    return run


def _refuse_scatter(model: onnx.ModelProto) -> None:
    """Refuse to scatter as many numbers as are counted in a run: some of them get lost."""
    found = {node.op_type for node in model.graph.node if not _adds(node)}
    if {"NonZero", "ScatterElements"} <= found:
        raise NotImplementedError("ScatterElements of computed size is not implemented")


def _adds(node: onnx.NodeProto) -> bool:
    return any(a.name == "reduction" and a.s == b"add" for a in node.attribute)


_NAME = "model"


def _imported(model: onnx.ModelProto) -> str:
    """Return the model as IREE's compiler reads it, its shapes inferred."""
    importer = importlib.import_module("iree.compiler.extras.onnx_importer")
    context = importlib.import_module("iree.compiler.ir").Context()
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    inferred.graph.name = _NAME
    info = importer.ModelInfo(inferred)
    module = info.create_module(context=context).operation
    importer.NodeImporter.define_function(info.main_graph, module).import_all()
    return str(module.get_asm())
