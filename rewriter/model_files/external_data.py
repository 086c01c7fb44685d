"""External data stays inside of the model's folder, and inside of its file.

A model says where its weights lie. One from a stranger may name any file of this machine, so a
place that leads out of the folder is refused when the model is read, before anything is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PureWindowsPath

import onnx
import onnx_ir as ir

from rewriter.errors import ModelError
from rewriter.model_files.tensor_bytes import AGAIN, size_in_bytes

__all__ = ["check_message", "check_place", "check_tensor"]

_KEEP_INSIDE = "put the file into the folder of the model, and export the model again"
_SHOWN = 80  # characters of a name that is too long
_DIGITS = 19  # of the largest number that int64 holds


def check_message(proto: onnx.ModelProto, folder: Path | None) -> None:
    """Refuse a message with a tensor that lies outside of its folder or of its file.

    Args:
        proto: The message.
        folder: The folder of the model; None where it is not known, and then only the recorded
            locations are looked at.

    Raises:
        ModelError: The first tensor whose place is not allowed.
    """
    places: set[str] = set()
    for tensor in _every_tensor(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            _check(tensor, folder, places)


def check_tensor(tensor: ir.ExternalTensor) -> None:
    """Refuse a tensor of the IR that lies outside of its folder or of its file.

    Raises:
        ModelError: Its place is not allowed.
    """
    label = f"the external tensor {tensor.name!r}"
    folder = Path(tensor.base_dir) if tensor.base_dir else None
    location = os.fspath(tensor.location)
    check_place(location, folder, label)
    _check_type(tensor.dtype, label)
    offset, length = tensor.offset or 0, tensor.length
    if offset < 0 or (length is not None and length < 0):
        raise ModelError(f"{label} has the offset {offset} and the length {length}: {AGAIN}")
    if folder is not None:
        _check_end(folder / location, offset + max(length or 0, tensor.nbytes), label)


def check_place(location: str, folder: Path | None, label: str) -> None:
    """Refuse a location that leads out of a folder, by its name or through links.

    Args:
        location: What the model says.
        folder: The folder of the model; None where it is not known.
        label: What lies there, for messages.

    Raises:
        ModelError: It leads out, or names no file.
    """
    if not location:
        raise ModelError(f"{label} has no location: {AGAIN}")
    if "\0" in location:
        raise ModelError(f"the location {location!r} of {label} is not the name of a file")
    # A name of the other system is read as such too: the model may be used there.
    elsewhere = PureWindowsPath(location)
    if os.path.isabs(location) or elsewhere.anchor or os.pardir in elsewhere.parts:
        raise ModelError(f"{label} lies at {location!r}, outside of its folder: {_KEEP_INSIDE}")
    if folder is None:
        return
    try:
        (folder / location).is_file()
    except OSError as error:  # a name that is too long for the system
        raise ModelError(
            f"the location {location[:_SHOWN]!r}... of {label} is not the name of a file"
        ) from error
    inside = os.path.realpath(folder)
    if os.path.commonpath([inside, os.path.realpath(folder / location)]) != inside:
        raise ModelError(
            f"{label} lies at {location!r}, which links lead out of {folder}: {_KEEP_INSIDE}"
        )


def _every_tensor(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors of a message, wherever they stand: sparse ones and training included."""
    stack: list[onnx.GraphProto | onnx.FunctionProto | onnx.NodeProto] = [proto.graph]
    stack += proto.functions
    for training in proto.training_info:
        stack += [training.initialization, training.algorithm]
    while stack:
        item = stack.pop()
        if isinstance(item, onnx.GraphProto):
            yield from item.initializer
            yield from _parts(item.sparse_initializer)
        attributes = (
            item.attribute
            if isinstance(item, onnx.NodeProto)
            else item.attribute_proto
            if isinstance(item, onnx.FunctionProto)
            else ()
        )
        for attribute in attributes:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("sparse_tensor"):
                yield from _parts([attribute.sparse_tensor])
            if attribute.HasField("g"):
                stack.append(attribute.g)
            yield from attribute.tensors
            yield from _parts(attribute.sparse_tensors)
            stack += attribute.graphs
        if not isinstance(item, onnx.NodeProto):
            stack += item.node


def _parts(tensors: Iterable[onnx.SparseTensorProto]) -> Iterator[onnx.TensorProto]:
    for tensor in tensors:
        yield from (tensor.values, tensor.indices)


def _check(tensor: onnx.TensorProto, folder: Path | None, places: set[str]) -> None:
    label = f"the external tensor {tensor.name!r}"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if len(entries) < len(tensor.external_data):
        raise ModelError(f"{label} says twice where it lies: {AGAIN}")
    location = entries.get("location", "")
    if location not in places:
        check_place(location, folder, label)
        places.add(location)
    _check_type(tensor.data_type, label)
    offset = _number(entries.get("offset", "0"), "offset", label)
    length = _number(entries.get("length", "0"), "length", label)
    if folder is not None:
        _check_end(folder / location, offset + max(length, _size(tensor)), label)


def _check_type(dtype: int, label: str) -> None:
    if dtype == onnx.TensorProto.STRING:
        raise ModelError(f"{label} holds strings, which cannot lie in a file: {AGAIN}")


def _size(tensor: onnx.TensorProto) -> int:
    """Return the bytes of a tensor, 0 where its type or shape is refused later."""
    known = tensor.data_type in {one.value for one in ir.DataType} - {0}
    return size_in_bytes(tensor) if known and all(dim >= 0 for dim in tensor.dims) else 0


def _number(text: str, what: str, label: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        shown = text if len(text) <= 2 * _DIGITS else f"{text[:_DIGITS]}..."
        raise ModelError(
            f"the {what} {shown!r} of {label} is not a number of bytes from 0: {AGAIN}"
        )
    return int(text)


def _check_end(path: Path, end: int, label: str) -> None:
    """Refuse a tensor that ends behind its file; a file that is missing may come later."""
    if not path.is_file():
        return
    size = path.stat().st_size
    if end > size:
        raise ModelError(
            f"the weights {path} are too short: the file has {size} bytes, and {label} ends at "
            f"{end}; copy or export them again"
        )
