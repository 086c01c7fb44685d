"""The bytes of a model for a runtime that reads whole messages of tensors."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import onnx
from onnx.external_data_helper import load_external_data_for_model, uses_external_data

from rewriter.backends.session import BackendError, one_line
from rewriter.model_files.protos import all_tensors
from rewriter.target_table import find_target

__all__ = [
    "has_module",
    "refuse_ignored",
    "refuse_sequences",
    "require_cpu",
    "unless_installed",
    "with_weights",
]


def has_module(name: str) -> bool:
    """Return whether a module is installed, without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def unless_installed(backend: str, *modules: str) -> Callable[[], str]:
    """Return a function that says why a backend cannot be used; it says nothing where it can.

    Args:
        backend: The name of the backend, which is that of its extra, too.
        modules: The modules that it runs on; none for one of its own name.
    """

    def missing() -> str:
        if all(map(has_module, modules or (backend,))):
            return ""
        return f"{backend} is not installed; install seqmap[{backend}]"

    return missing


def require_cpu(device: str, runtime: str) -> None:
    """Refuse any device but the CPU.

    Raises:
        BackendError: Another one is asked for.
    """
    if device != "cpu":
        raise BackendError(f"{runtime} runs on cpu here, not on {device!r}", is_limit=True)


def with_weights(model: onnx.ModelProto, folder: Path | None) -> onnx.ModelProto:
    """Return the model with the weights that lie in other files.

    Args:
        model: The model; it is not changed.
        folder: Where they lie.

    Raises:
        BackendError: They cannot be read.
    """
    if folder is None or not any(uses_external_data(tensor) for tensor in all_tensors(model)):
        return model
    loaded = onnx.ModelProto()
    loaded.CopyFrom(model)
    try:
        load_external_data_for_model(loaded, str(folder))
    except Exception as error:
        message = f"the weights in {folder} cannot be read: {one_line(error)}"
        raise BackendError(message, is_limit=True) from error
    return loaded


def refuse_ignored(model: onnx.ModelProto, target: str) -> None:
    """Refuse a model with an attribute that the target takes no notice of.

    Raises:
        BackendError: The results would be others.
    """
    for node in _nodes(model.graph.node):
        for op_type, name in find_target(target).ignores:
            if node.op_type == op_type and any(a.name == name and a.i for a in node.attribute):
                raise BackendError(
                    f"{target} takes no notice of {name!r} of {op_type} and would give other "
                    "results",
                    is_limit=True,
                )


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g.node)


def refuse_sequences(model: onnx.ModelProto, runtime: str) -> None:
    """Refuse a model whose inputs or outputs are not all tensors.

    Raises:
        BackendError: One of them is a sequence, an optional or a map.
    """
    sides = (("input", model.graph.input), ("output", model.graph.output))
    for side, values in sides:
        for value in values:
            kind = value.type.WhichOneof("value")
            if kind not in ("tensor_type", None):
                what = {"sequence_type": "a sequence", "optional_type": "an optional"}
                raise BackendError(
                    f"{runtime} passes tensors only, and {side} {value.name!r} is "
                    f"{what.get(kind, 'no tensor')}; rewrite the model with tensor_io",
                    is_limit=True,
                )
