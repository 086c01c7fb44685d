"""What counts as a model, for type checkers, and the model inside of what an exporter gives."""

from __future__ import annotations

import os
from typing import Any, Protocol, TypeVar

import onnx
import onnx_ir as ir

__all__ = ["AnyModel", "GivesMessage", "SameKind", "model_inside"]


class _Program(Protocol):
    """An ``ONNXProgram`` of ``torch.onnx.export``."""

    @property
    def model(self) -> ir.Model: ...
    @property
    def model_proto(self) -> onnx.ModelProto: ...


class _Function(Protocol):
    """A function of onnxscript."""

    def to_model_proto(self, *args: Any, **named: Any) -> Any: ...


class _Graph(Protocol):
    """A graph of graphsurgeon, whose package is not imported for its type."""

    @property
    def nodes(self) -> Any: ...
    @property
    def opset(self) -> Any: ...
    def toposort(self, *args: Any, **named: Any) -> Any: ...


GivesMessage = str | os.PathLike[str] | _Function
"""What gives an ``onnx.ModelProto`` when it is rewritten."""
AnyModel = GivesMessage | onnx.ModelProto | ir.Model | _Program | _Graph
SameKind = TypeVar("SameKind", bound=onnx.ModelProto | ir.Model | _Program | _Graph)
"""What gives its own kind when it is rewritten."""


def model_inside(model: object) -> ir.Model | onnx.ModelProto | None:
    """Return the model of an ONNXProgram, or of a function of onnxscript; None for others."""
    inner = getattr(model, "model", None)
    if isinstance(inner, ir.Model) and hasattr(model, "model_proto"):
        return inner
    to_proto = getattr(model, "to_model_proto", None)
    return to_proto() if callable(to_proto) else None
