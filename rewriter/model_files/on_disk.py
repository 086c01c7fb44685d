"""Models in files: read, refused where they are not safe to be read, and written."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import onnx
import onnx_ir as ir

from rewriter.errors import ModelError
from rewriter.model_files import external_data, files, graphsurgeon, protos, weights
from rewriter.model_files.bounds import check_bounds
from rewriter.model_files.fields import check_fields
from rewriter.model_files.kinds import AnyModel, model_inside
from rewriter.model_files.model_facts import external_tensors

__all__ = ["check_message", "from_message", "load", "save"]


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
    check_message(proto, folder, name)
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
    elif (inner := model_inside(model)) is not None:
        return _message(inner, folder)
    else:
        raise ModelError(f"only a model can be saved, not a {type(model).__name__}")
    check_message(proto, folder)
    return proto, dict.fromkeys(weights.locations(proto), folder)


def check_message(
    proto: onnx.ModelProto, folder: Path | None = None, name: str = "the model"
) -> None:
    """Refuse a message that is not safe to be read any further."""
    check_fields(proto, name)
    check_bounds(proto, name)
    external_data.check_message(proto, folder)
