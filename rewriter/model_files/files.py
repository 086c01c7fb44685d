"""Model files: `.onnxtxt` holds ONNX text, every other name ONNX's binary form."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError

from rewriter.errors import ModelError
from rewriter.model_files.protos import one_line
from rewriter.model_files.text import parse, to_text

__all__ = [
    "copy_file",
    "decode",
    "encode",
    "read",
    "reason",
    "refuse_link",
    "require_folder",
    "require_place",
    "write",
]

LIMIT = 2**31 - 1  # bytes that one protobuf message can hold
_URL = re.compile(r"(https?|s3|gs|hf|file):/+")
_TEXT = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"<", b"#")
_LFS = b"version https://git-lfs"
_KINDS = (
    (0, b"PK\x03\x04", "a zip archive, as PyTorch and Keras write: export it to ONNX first"),
    (0, b"\x80\x02", "a pickle, as torch.save writes: export the model with torch.onnx.export"),
    (0, b"\x80\x04", "a pickle: convert the model in it, one of scikit-learn with skl2onnx"),
    (0, b"\x80\x05", "a pickle: convert the model in it, one of scikit-learn with skl2onnx"),
    (0, b"<!DOCTYPE html", "a page of the web: download the model that it shows"),
    (0, b"<html", "a page of the web: download the model that it shows"),
    (0, b"\x89HDF", "an HDF5 file, as Keras writes: convert the model with tf2onnx"),
    (4, b"TFL3", "a TensorFlow Lite model: convert it with tf2onnx"),
    (4, b"ORTM", "in onnxruntime's own format: use the ONNX model that it was made from"),
    (0, b"version https://git-lfs", "a pointer of Git LFS: run git lfs pull"),
    (0, b"\x1f\x8b", "compressed by gzip: unpack it first"),
)
"""Where a mark stands in a file, the mark, and what the file is and what to do."""


def read(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Read a model file; external data is neither read nor looked for.

    Args:
        path: The file.

    Returns:
        The message, with at least a graph and the opsets that it imports.

    Raises:
        ModelError: If there is no such file, or what it holds is not a model.
    """
    if not os.fspath(path):
        raise ModelError("the name of the model file is empty")
    if _URL.match(os.fspath(path)):
        # A path has lost one of the two slashes.
        address = _URL.sub(r"\1://", os.fspath(path), count=1)
        raise ModelError(f"{address} is an address: download the model, and name the file")
    path = Path(path)
    if path.is_dir():
        raise ModelError(
            f"{path} is a folder: name the model file in it; seqmap scan takes folders"
        )
    try:
        if path.stat().st_size > LIMIT:
            raise ModelError(
                f"{path} is larger than the 2 GB that one ONNX file can hold: "
                "store the weights as external data"
            )
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {reason(error)}") from error
    if not data:
        raise ModelError(f"{path} is empty: export the model again")
    if data.startswith(_LFS):
        raise ModelError(
            f"{path} is a Git LFS pointer: fetch the model itself with `git lfs pull`"
        )
    if path.suffix == ".onnxtxt":
        return parse(data, str(path))
    return _decode(data, str(path))


def decode(data: bytes, name: str) -> onnx.ModelProto:
    """Read a model whose first bytes tell its form: text has a byte order mark, ``<`` or ``#``.

    Args:
        data: The bytes.
        name: What errors call them.

    Raises:
        ModelError: They are no model.
    """
    if not data:
        raise ModelError(f"{name} is empty: export the model again")
    return parse(data, name) if data.lstrip().startswith(_TEXT) else _decode(data, name)


def encode(proto: onnx.ModelProto, path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of the file for a model; one model always has the same bytes.

    Args:
        proto: The model.
        path: Where the bytes will go; the suffix says in which form.

    Raises:
        ModelError: If the form cannot hold the model.
    """
    if Path(path).suffix == ".onnxtxt":
        return to_text(proto, str(path)).encode()
    try:
        if proto.ByteSize() <= LIMIT:
            return proto.SerializeToString(deterministic=True)
    except (EncodeError, ValueError):
        pass  # how the protobuf runtimes say that a message is too large
    raise ModelError(
        f"{path} would be larger than the 2 GB that one ONNX file can hold: "
        "store the weights as external data"
    )


def write(data: bytes, path: str | os.PathLike[str]) -> None:
    """Put a file in its place in one step: readers see the old one or the new one, whole.

    A symbolic link is neither followed, since others may share what it leads to, nor replaced.
    The mode of a file that was there is kept.

    Args:
        data: What the file is to hold.
        path: The file.

    Raises:
        ModelError: If it cannot be written; what was there stays as it was.
    """
    path = Path(path)
    refuse_link(path)
    _place(path, lambda part: part.write_bytes(data))


def refuse_link(path: Path) -> None:
    """Refuse to write where a symbolic link is.

    Raises:
        ModelError: One is there.
    """
    if path.is_symlink():
        raise ModelError(
            f"cannot write {path}: it is a symbolic link to {os.readlink(path)}; name that file, "
            "or remove the link"
        )


def require_folder(path: Path) -> None:
    """Refuse a file to be written in a folder that does not exist.

    Raises:
        ModelError: There is no such folder.
    """
    if not path.parent.is_dir():
        raise ModelError(f"cannot write {path}: there is no folder {path.parent}; make it first")


def require_place(path: Path) -> None:
    """Refuse a folder in which no file can be made; what is made to find out is removed.

    Raises:
        ModelError: No file can be made there.
    """
    part = _part(path)
    try:
        part.touch()
        part.unlink()
    except OSError as error:
        raise ModelError(f"cannot write {path}: {reason(error)}; choose another place") from error


def copy_file(source: Path, target: Path) -> None:
    """Copy a file into its place in one step, as :func:`write` does."""
    _place(target, lambda part: shutil.copy2(source, part))


def _place(path: Path, fill: Callable[[Path], object]) -> None:
    require_folder(path)
    if path.is_dir():
        raise ModelError(f"cannot write {path}: it is a folder")
    if path.exists() and not path.is_file():
        raise ModelError(f"cannot write {path}: it is not a regular file")
    part = _part(path)
    try:
        fill(part)
        if path.is_file():
            part.chmod(path.stat().st_mode)
        os.replace(part, path)
    except OSError as error:
        raise ModelError(f"cannot write {path}: {reason(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def _part(path: Path) -> Path:
    """Return a name for a file on its way to its place.

    The system's own temporary folder may lie on another disk, where a rename is a copy.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def _decode(data: bytes, name: str) -> onnx.ModelProto:
    if kind := _other_kind(data):
        raise ModelError(f"{name} is {kind}")
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError(f"{name} is not an ONNX model, or is cut short") from error
    # Some files of other kinds, and models cut between two fields, decode without an error.
    if not proto.HasField("graph") and not proto.opset_import:
        raise ModelError(f"{name} is not an ONNX model, or is cut short")
    if not proto.HasField("graph") or not proto.opset_import:
        missing = "opset" if proto.HasField("graph") else "graph"
        raise ModelError(f"{name} is cut short: it has no {missing}")
    return proto


def reason(error: OSError) -> str:
    """Return what the system says of an error, in one line."""
    return (error.strerror or one_line(error)).lower()


def _other_kind(data: bytes) -> str | None:
    """Return what a file is that is no ONNX model, and what to do; None where nothing tells.

    Args:
        data: The bytes of the file.
    """
    for start, mark, told in _KINDS:
        if data.startswith(mark, start):
            return told
    return None
