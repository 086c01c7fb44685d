"""Finds, moves and copies weights that lie in other files than the model."""

from __future__ import annotations

import dataclasses
import filecmp
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx
import onnx_ir as ir

from rewriter.errors import ModelError, ModelWarning
from rewriter.model_files.model_facts import external_tensors
from rewriter.model_files.protos import all_tensors

__all__ = [
    "Copy",
    "folders",
    "locations",
    "place",
    "require",
    "settle",
]


@dataclasses.dataclass(frozen=True)
class Copy:
    """One weight file that is to be copied beside the model."""

    source: Path
    target: Path


def settle(model: ir.Model, folder: Path) -> None:
    """Remember the folder that the recorded locations of a model are relative to."""
    for tensor in external_tensors(model):
        tensor.base_dir = str(folder)


def require(model: ir.Model) -> None:
    """Refuse a model whose weights are not where it says, without reading them.

    Of a model that does not know its folder nothing can be said.

    Raises:
        ModelError: A file is missing.
    """
    for tensor in external_tensors(model):
        if not tensor.base_dir:
            continue
        path = Path(tensor.base_dir) / tensor.location
        if not path.is_file():
            raise ModelError(f"the weights {path} are missing: put them beside the model")


def folders(model: ir.Model) -> dict[str, Path | None]:
    """Return the folder of every recorded location, None where it is not known.

    Raises:
        ModelError: If one location stands for files in two folders.
    """
    found: dict[str, Path | None] = {}
    for tensor in external_tensors(model):
        location = os.fspath(tensor.location)
        folder = Path(tensor.base_dir).absolute() if tensor.base_dir else None
        if found.setdefault(location, folder) != folder:
            raise ModelError(
                f"the weights {location!r} lie in two folders, {found[location]} and {folder}: "
                "save the parts of the model with different names for their weights"
            )
    return found


def locations(proto: onnx.ModelProto) -> list[str]:
    """Return the recorded locations of a model, each once, in order."""
    return list(dict.fromkeys(_location(tensor) for tensor in _external(proto)))


def place(
    proto: onnx.ModelProto,
    known: Mapping[str, Path | None],
    out: Path,
    copy_weights: bool,
) -> list[Copy]:
    """Decide how a model at a new place finds its weights; nothing is written yet.

    Args:
        proto: The model; its locations do not lead out of its folder.
        known: The folder of every location, None where it is not known.
        out: The model file that will be written.
        copy_weights: Whether the weights may be copied beside it.

    Returns:
        The copies to be made.

    Raises:
        ModelError: If a location would not lead to the weights.
    """
    copies: list[Copy] = []
    for location in locations(proto):
        folder = known.get(location)
        source = folder / location if folder else None
        target = out.parent / location
        for weights in (source, target):
            if weights is not None and _same(weights, out):
                raise ModelError(f"{out} holds weights of the model: choose another name")
        if not copy_weights:
            _must_hold(location, folder, out)
            continue
        if source is None and not target.exists():
            raise ModelError(
                f"it is not known where the weights {location!r} lie: pass the model as a path"
            )
        source = source or target
        if not source.is_file():
            raise ModelError(f"the weights {source} are missing: put them beside the model")
        if _must_copy(source, target):
            copies.append(Copy(source, target))
    return copies


def _must_hold(location: str, folder: Path | None, out: Path) -> None:
    target = out.parent / location
    source = folder / location if folder else target
    if source.exists() or folder is None:
        holds = _same(source, target)
    else:  # weights that are elsewhere today still lead to the same place tomorrow
        holds = _same(folder, out.parent)
    if not holds:
        where = f"lie in {folder}" if folder else "are not there"
        raise ModelError(
            f"{out} would not find its weights {location!r}, which {where}: "
            "write it beside the weights, or copy them with --copy-weights (copy_weights=True)"
        )
    if target.is_symlink():
        warnings.warn(
            f"the weights {location!r} of {out} lie behind a symbolic link, which onnxruntime and "
            "onnx.checker refuse: copy them with --copy-weights",
            ModelWarning,
            stacklevel=4,
        )


def _must_copy(source: Path, target: Path) -> bool:
    if _same(source, target):
        return target.is_symlink()  # runtimes refuse links: put the bytes in the link's place
    if not target.exists():
        return True
    if filecmp.cmp(source, target):
        return False
    raise ModelError(
        f"{target} exists and holds other weights than {source}: remove it, or choose another "
        "folder"
    )


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _external(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    external = onnx.TensorProto.EXTERNAL
    return (tensor for tensor in all_tensors(proto) if tensor.data_location == external)


def _location(tensor: onnx.TensorProto) -> str:
    return next(entry.value for entry in tensor.external_data if entry.key == "location")
