"""Feeds and expected outputs in npz files.

A tensor is ``in__NAME``; a sequence is ``in__NAME__0``, ``in__NAME__1``, ... with its length in
``in__NAME__len``, which may be left out where the length is not 0. Outputs are ``out__I``, by
position, alike. An optional without a value is left out. Where no name has a prefix, all are those
of inputs: ``NAME``, ``NAME__0``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from passes.tensors.io import PassedSequence, TensorIo
from rewriter.feeding.input_specs import InputSpec, input_specs
from rewriter.feeding.npz_files import open_npz, reading
from rewriter.model_files import models

__all__ = ["plain_array", "read_expected", "read_feeds", "write_feeds"]

Array = np.ndarray[Any, Any]
Source = str | os.PathLike[str] | Mapping[str, Array]


def read_feeds(source: Source, model: Any) -> dict[str, Any]:
    """Read the inputs of a model.

    Args:
        source: An npz file, or its arrays by key.
        model: The model (path, ModelProto, onnx_ir.Model or graphsurgeon Graph); its types say
            which inputs are sequences.

    Returns:
        Input name to array, list of arrays (a sequence) or None (an absent optional).

    Raises:
        RewriteError: The file cannot be read, lacks an input, or holds one that the model has
            not.
    """
    arrays, label = _arrays(source)
    held = ", ".join(arrays) or "nothing"
    prefix = "in__"
    if arrays and not any(key.startswith(("in__", "out__")) for key in arrays):
        arrays, prefix = {f"in__{key}": array for key, array in arrays.items()}, ""
    values: dict[str, Any] = {}
    unread = {key for key in arrays if key.startswith("in__")}
    value: Any
    taken = models.take(model).model
    passed = TensorIo.read(taken).inputs
    for spec in input_specs(taken):
        key = f"in__{spec.name}"
        if spec.name in passed and key in arrays:
            value, used = _tensor(arrays, spec, passed[spec.name], values)
        elif spec.is_sequence:
            value, used = _sequence(arrays, key, spec.dtype, label)
        else:
            used = {key} & unread
            value = _restore(arrays[key], spec.dtype) if used else None
        unread -= used
        if value is not None:
            values[spec.name] = value
        elif spec.is_optional:
            values[spec.name] = None
        elif spec.is_required:
            wanted = f"{prefix}{spec.name}"
            if spec.is_sequence:
                wanted = f"{wanted}__len or {wanted}__0"
            raise RewriteError(
                f"{label} has no input {spec.name!r}: add an array {wanted}; it holds {held}"
            )
    if unread:
        names = sorted(prefix + key.removeprefix("in__") for key in unread)
        raise RewriteError(
            f"{label} has arrays that belong to no input of the model: "
            f"{', '.join(names)}; rename or remove them"
        )
    return values


def read_expected(source: Source, model: Any) -> dict[str, Any] | None:
    """Read the outputs that a model should give; None where the file holds none.

    Args:
        source: An npz file, or its arrays by key.
        model: The model.

    Returns:
        Output name to array or list of arrays.

    Raises:
        RewriteError: The file cannot be read, or lacks an output while it has another.
    """
    arrays, label = _arrays(source)
    if not any(key.startswith("out__") for key in arrays):
        return None
    values: dict[str, Any] = {}
    value: Any
    for number, output in enumerate(models.take(model).model.graph.outputs):
        key = f"out__{number}"
        dtype = output.dtype or ir.DataType.UNDEFINED
        if key in arrays:
            value = _restore(arrays[key], dtype)
        else:
            value, _ = _sequence(arrays, key, dtype, label)
        if value is None:
            raise RewriteError(f"{label} has no output {number} ({output.name!r}): add {key}")
        values[output.name or key] = value
    return values


def write_feeds(path: str | os.PathLike[str], feeds: Mapping[str, Any]) -> None:
    """Write one feed, so that :func:`read_feeds` gives it back.

    Args:
        path: The file, overwritten if there is one.
        feeds: Input name to array, list of arrays or None.
    """
    arrays: dict[str, Any] = {}
    for name, value in feeds.items():
        if isinstance(value, list):
            arrays[f"in__{name}__len"] = np.array(len(value), np.int64)
            arrays.update({f"in__{name}__{i}": plain_array(item) for i, item in enumerate(value)})
        elif value is not None:
            arrays[f"in__{name}"] = plain_array(value)
    with Path(path).open("wb") as file:
        np.savez(file, **arrays)


def _arrays(source: Source) -> tuple[Mapping[str, Array], str]:
    if isinstance(source, Mapping):
        return source, "the npz data"
    label = f"{os.fspath(source)}"
    with open_npz(label, "inputs") as file, reading(label, "inputs"):
        return {key: file[key] for key in file.files}, label


def _sequence(
    arrays: Mapping[str, Array], key: str, dtype: ir.DataType, label: str
) -> tuple[list[Array] | None, set[str]]:
    used = set()
    if f"{key}__len" in arrays:
        used.add(f"{key}__len")
        length = int(arrays[f"{key}__len"])
    elif f"{key}__0" in arrays:
        length = 0
        while f"{key}__{length}" in arrays:
            length += 1
    else:
        return None, used
    keys = [f"{key}__{i}" for i in range(length)]
    missing = [name for name in keys if name not in arrays]
    if missing:
        raise RewriteError(
            f"{label} says that {key} has {length} elements and lacks {missing[0]}; add it or "
            f"correct {key}__len"
        )
    return [_restore(arrays[name], dtype) for name in keys], used | set(keys)


def _tensor(
    arrays: Mapping[str, Array], spec: InputSpec, passed: PassedSequence, values: dict[str, Any]
) -> tuple[Array, set[str]]:
    """Read a sequence that is given as a tensor, and enter its lengths if it has any."""
    used = {f"in__{spec.name}"}
    if (key := f"in__{passed.lengths}") in arrays:
        values[passed.lengths] = arrays[key]
        used.add(key)
    return _restore(arrays[f"in__{spec.name}"], spec.dtype), used


def plain_array(value: Any) -> Array:
    """Return the array in a form that npz can hold without pickle."""
    array = np.asarray(value)
    return array.astype(np.str_) if array.dtype.kind == "O" else array


def _restore(array: Array, dtype: ir.DataType) -> Array:
    """Undo what npz does to strings and to types that numpy does not have."""
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype.kind == "V" and dtype != ir.DataType.UNDEFINED:
        return array.view(dtype.numpy())
    return array
