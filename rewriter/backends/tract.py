"""tract as a backend."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.backends.fixed_shapes import with_fixed_shapes
from rewriter.backends.messages import (
    refuse_ignored,
    refuse_sequences,
    require_cpu,
    unless_installed,
    with_weights,
)
from rewriter.backends.session import BackendError, Session, as_arrays, one_line

__all__ = ["DEVICES", "TractSession", "missing", "open_session"]

DEVICES = ("cpu",)

_MATMULS = {"MatMul", "Gemm", "Einsum"}
_TYPES = {
    np.dtype(np.bool_): "bool",
    **{
        np.dtype(f"{kind}{size // 8}"): f"{kind}{size}"
        for kind in "iu"
        for size in (8, 16, 32, 64)
    },
    **{np.dtype(f"f{size // 8}"): f"f{size}" for size in (16, 32, 64)},
}

missing = unless_installed("tract")


def open_session(model: onnx.ModelProto, folder: Path | None, device: str) -> Session:
    """Make a model ready to run.

    Args:
        model: The model.
        folder: Where its external weights lie.
        device: Only ``cpu``.

    Raises:
        BackendError: tract refuses the model.
    """
    require_cpu(device, "tract")
    refuse_sequences(model, "tract")
    refuse_ignored(model, "tract")
    if _scans_with_matmul(model.graph.node):
        raise BackendError(
            "tract does not return from optimising a Scan with a MatMul in its body",
            is_limit=True,
        )
    return TractSession(with_weights(model, folder))


class TractSession:
    """A model with symbols for its open dimensions or, where tract needs them, with numbers."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._source = model
        self._model = _without_claims(model)
        self._outputs = [output.name for output in model.graph.output]
        self._inputs = _inputs(_read(self._model))
        self._prepared: dict[Any, Any] = {}
        try:
            self._prepared[None] = _read(self._model).into_model().into_runnable()
        except Exception:
            if not any(_is_open(value) for value in model.graph.input):
                self._prepared[None] = self._for_declared_shapes()

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once; see :class:`rewriter.backends.session.Session`."""
        arrays = as_arrays(feeds)
        given = [arrays[name] for name in self._inputs]
        if None not in self._prepared:
            return self._run(self._for_shapes(given), given)
        try:
            return self._run(self._prepared[None], given)
        except BackendError as error:
            # A size in a result may be a symbol still: then numbers for the dimensions help.
            try:
                runnable = self._for_shapes(given)
            except BackendError:
                raise error from None
            return self._run(runnable, given)

    def run_as_given(self, feeds: Mapping[str, Any], *, with_shapes: bool) -> dict[str, Any]:
        """Run the model as tract takes it; see :func:`rewriter.backends.run_as_given`."""
        arrays = as_arrays(feeds)
        given = [arrays[name] for name in self._inputs]
        try:
            runnable = _runnable(self._source, given if with_shapes else [])
        except Exception as error:
            raise _refusal(error) from error
        return self._run(runnable, given)

    def _run(self, runnable: Any, given: list[Any]) -> dict[str, Any]:
        try:
            results = [_array(value) for value in runnable.run(given)]
        except Exception as error:
            raise BackendError(f"tract fails: {_plain(error)}") from error
        return dict(zip(self._outputs, results, strict=True))

    def _for_shapes(self, arrays: list[Any]) -> Any:
        key = tuple((array.shape, array.dtype) for array in arrays)
        if key not in self._prepared:
            try:
                self._prepared[key] = _runnable(self._model, arrays)
            except Exception:
                shapes = {n: a.shape for n, a in zip(self._inputs, arrays, strict=True)}
                self._prepared[key] = self._fixed(shapes, arrays)
        return self._prepared[key]

    def _for_declared_shapes(self) -> Any:
        shapes = {
            value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in self._model.graph.input
        }
        return self._fixed(shapes, [])

    def _fixed(self, shapes: Mapping[str, Sequence[int]], arrays: list[Any]) -> Any:
        try:
            return _runnable(with_fixed_shapes(self._model, shapes), arrays)
        except Exception as error:
            raise _refusal(error) from error


def _read(model: onnx.ModelProto) -> Any:
    import tract

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        try:
            return tract.onnx().load(path)
        except Exception as error:
            raise _refusal(error) from error


def _runnable(model: onnx.ModelProto, arrays: list[Any]) -> Any:
    """Return a model made ready for arrays of these shapes and types, or for what it declares."""
    read = _read(model)
    for number, array in enumerate(arrays):
        dims = [*map(str, array.shape), _TYPES[array.dtype]]
        read.set_input_fact(number, ",".join(dims))
    return read.into_model().into_runnable()


def _array(value: Any) -> Any:
    """Return a result; a dimension that tract holds as an expression is an int64."""
    import tract

    try:
        return value.to_numpy()
    except tract.TractError:
        return value.convert_to(tract.DatumType.I64).to_numpy()


def _inputs(model: Any) -> list[str]:
    return [model.input_name(number) for number in range(model.input_count())]


def _refusal(error: Exception) -> BackendError:
    if isinstance(error, BackendError):
        return error
    return BackendError(f"tract refuses the model: {_plain(error)}", is_limit=True)


def _plain(error: Exception) -> str:
    return one_line(RuntimeError(str(error).partition("Stack backtrace")[0]))


def _without_claims(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without the shapes that it declares of its outputs and inner values.

    Runtimes do not enforce them, and exporters write false ones; tract would take them as facts.
    """
    stripped = onnx.ModelProto()
    stripped.CopyFrom(model)
    del stripped.graph.value_info[:]
    for output in stripped.graph.output:
        output.type.tensor_type.ClearField("shape")
    return stripped


def _is_open(value: onnx.ValueInfoProto) -> bool:
    type_ = value.type.tensor_type
    return not type_.HasField("shape") or any(
        not dim.HasField("dim_value") for dim in type_.shape.dim
    )


def _scans_with_matmul(nodes: Any) -> bool:
    for node in nodes:
        for attribute in node.attribute:
            inner = attribute.g.node
            if node.op_type == "Scan" and any(n.op_type in _MATMULS for n in inner):
                return True
            if _scans_with_matmul(inner):
                return True
    return False
