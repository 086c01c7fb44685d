"""Models in and out: a path, a message, a model of the IR or a graph of graphsurgeon."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import os
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from rewriter.errors import ModelError, ModelWarning
from rewriter.model_files import external_data, files, graphsurgeon, protos, weights
from rewriter.model_files.bounds import check_bounds
from rewriter.model_files.fields import check_fields
from rewriter.model_files.kinds import AnyModel
from rewriter.model_files.model_copies import clone
from rewriter.model_files.model_facts import external_tensors

__all__ = [
    "AnyModel",
    "ModelError",
    "ModelKind",
    "ModelWarning",
    "Taken",
    "folder_of",
    "from_message",
    "give",
    "load",
    "save",
    "take",
]


_CONVERTERS = (
    ("sklearn", "skl2onnx.to_onnx"),
    ("keras", "tf2onnx.convert.from_keras"),
    ("tensorflow", "tf2onnx.convert"),
    ("torch", "torch.onnx.export"),
    ("onnxruntime", "onnx.load of the file that it was opened from"),
)
"""Packages whose objects are taken for models, and what makes a model of one."""


class ModelKind(enum.Enum):
    """The kind of model that a caller handed in, and so gets back."""

    PATH = "path"
    PROTO = "proto"
    IR = "ir"
    GRAPHSURGEON = "graphsurgeon"
    PROGRAM = "program"


@dataclasses.dataclass(frozen=True)
class Taken:
    """A model that may be changed, and what it was made from.

    Attributes:
        model: The working copy; changing it never changes `original`.
        kind: What the caller handed in.
        folder: The folder that external weights are relative to, None where it is not known.
        original: What the caller handed in.
    """

    model: ir.Model
    kind: ModelKind
    folder: Path | None
    original: AnyModel


def take(model: AnyModel) -> Taken:
    """Make a working copy of a model of any kind.

    Args:
        model: A path, an ``onnx.ModelProto``, an ``onnx_ir.Model``, an
            ``onnx_graphsurgeon.Graph``, an ``ONNXProgram`` of ``torch.onnx.export``, or a function
            of onnxscript; it is never changed.

    Returns:
        The copy. The weights of an ``onnx_ir.Model`` are shared with it, not copied; external
        weights are not read.

    Raises:
        ModelError: If it is none of these, or cannot be read.
    """
    if isinstance(model, str | os.PathLike):
        return Taken(load(model), ModelKind.PATH, Path(model).absolute().parent, model)
    if isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)  # renaming an initializer of the IR writes into its message
        _check_message(proto)
        return Taken(protos.from_proto(proto), ModelKind.PROTO, None, model)
    if isinstance(model, ir.Model):
        for tensor in external_tensors(model):
            external_data.check_tensor(tensor)
        return Taken(clone(model), ModelKind.IR, folder_of(model), model)
    if graphsurgeon.is_graph(model):
        proto = graphsurgeon.to_proto(model)
        _check_message(proto)
        return Taken(protos.from_proto(proto), ModelKind.GRAPHSURGEON, None, model)
    inner = _inside(model)
    if isinstance(inner, ir.Model):
        return dataclasses.replace(take(inner), kind=ModelKind.PROGRAM, original=model)
    if inner is not None:
        return take(inner)
    raise ModelError(
        "a model is a path, an onnx.ModelProto, an onnx_ir.Model, an onnx_graphsurgeon.Graph, an "
        "ONNXProgram of torch.onnx.export or a function of onnxscript; this is of type "
        f"{type(model).__name__}{_meant(model)}"
    )


def _inside(model: object) -> ir.Model | onnx.ModelProto | None:
    """Return the model of an ONNXProgram, or of a function of onnxscript; None for others."""
    inner = getattr(model, "model", None)
    if isinstance(inner, ir.Model) and hasattr(model, "model_proto"):
        return inner
    to_proto = getattr(model, "to_model_proto", None)
    return to_proto() if callable(to_proto) else None


def _meant(model: object) -> str:
    """Return how to make a model of what is none; empty where nothing tells."""
    if isinstance(model, bytes | bytearray | memoryview):
        return ": onnx.load_model_from_string makes a model of bytes"
    if isinstance(model, onnx.GraphProto):
        return ": onnx.helper.make_model makes a model of a graph"
    if hasattr(model, "read"):
        return ": give its path, or what onnx.load reads from it"
    bases = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    told = (f": {converter} makes a model of it" for of, converter in _CONVERTERS if of in bases)
    return next(told, "")


def give(taken: Taken, model: ir.Model) -> AnyModel:
    """Return a rewritten model as the kind that was taken.

    A path and a function of onnxscript give an ``onnx.ModelProto``.

    Args:
        taken: What the rewrite started from.
        model: The result, usually ``taken.model`` after the passes.
    """
    if taken.kind is ModelKind.IR:
        return model
    if taken.kind is ModelKind.PROGRAM:
        program: Any = copy.copy(taken.original)
        program.model = model
        return program
    proto = protos.to_proto(model)
    if taken.kind is ModelKind.GRAPHSURGEON:
        return graphsurgeon.from_proto(proto, taken.original)
    return proto


def load(path: str | os.PathLike[str]) -> ir.Model:
    """Read a model file; weights in other files stay there, unread.

    Args:
        path: A `.onnxtxt` file holds ONNX text, any other the binary form.

    Returns:
        The model. It remembers the folder of the file, so that its weights are found later.

    Raises:
        ModelError: If there is no such file, it does not hold a model, or its weights are said
            to lie outside of its folder or behind the end of their file.
    """
    return from_message(files.read(path), Path(path).absolute().parent, os.fspath(path))


def from_message(proto: onnx.ModelProto, folder: Path, name: str = "the model") -> ir.Model:
    """Make a model of a message that was read from a file.

    Args:
        proto: The message.
        folder: Where its weights lie.
        name: What errors call it.

    Raises:
        ModelError: As for `load`.
    """
    _check_message(proto, folder, name)
    model = protos.from_proto(proto, name)
    weights.settle(model, folder)
    return model


def save(
    model: AnyModel,
    path: str | os.PathLike[str],
    copy_weights: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> None:
    """Write a model file in one step; a failure leaves every file as it was.

    External weights stay in their files, unread, and the recorded locations are kept, so the
    model must be written where they hold: beside its weights. Text (`.onnxtxt`) keeps the doc
    string and metadata of the model, but has no place for those of its parts.

    Args:
        model: A model of any kind but a path.
        path: The file; it may be the one that the model was read from.
        copy_weights: Copy the files of external weights beside `path` where they are not there,
            under the same names.
        folder: Where the weights of a message lie; an ``onnx_ir.Model`` knows it by itself.

    Raises:
        ModelError: If the file cannot be written, or would not find its weights.
    """
    proto, known = _message(model, None if folder is None else Path(folder).absolute())
    out = Path(path).absolute()
    copies = weights.place(proto, known, out, copy_weights)
    data = files.encode(proto, path)
    with contextlib.ExitStack() as undo:
        for one in copies:
            one.target.parent.mkdir(parents=True, exist_ok=True)
            files.copy_file(one.source, one.target)
            undo.callback(one.target.unlink)
        files.write(data, path)
        undo.pop_all()


def folder_of(model: ir.Model) -> Path | None:
    """Return the folder that a model's external weights are relative to, None if not known."""
    for tensor in external_tensors(model):
        if tensor.base_dir:
            return Path(tensor.base_dir).absolute()
    return None


def _message(
    model: AnyModel, folder: Path | None
) -> tuple[onnx.ModelProto, dict[str, Path | None]]:
    """Return a message that may be changed, and the folder of every location in it."""
    if isinstance(model, ir.Model):
        for tensor in external_tensors(model):
            external_data.check_tensor(tensor)
        known = {k: v or folder for k, v in weights.folders(model).items()}
        return protos.to_proto(model), known
    if isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
    elif graphsurgeon.is_graph(model):
        proto = graphsurgeon.to_proto(model)
    elif (inner := _inside(model)) is not None:
        return _message(inner, folder)
    else:
        raise ModelError(f"only a model can be saved, not a {type(model).__name__}")
    _check_message(proto, folder)
    return proto, dict.fromkeys(weights.locations(proto), folder)


def _check_message(
    proto: onnx.ModelProto, folder: Path | None = None, name: str = "the model"
) -> None:
    """Refuse a message that is not safe to be read any further."""
    check_fields(proto, name)
    check_bounds(proto, name)
    external_data.check_message(proto, folder)
