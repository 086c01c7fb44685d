"""Lists for models that pass sequences as tensors, and tensors back to lists."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from passes.errors import RewriteError
from passes.tensors.io import PassedSequence, TensorIo

__all__ = ["as_tensors", "check_elements", "feeds_as_lists", "outputs_as_lists"]

Array = np.ndarray[Any, Any]


def feeds_as_lists(io: TensorIo, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return feeds with a list for each sequence that is given as a tensor.

    Raises:
        RewriteError: The lengths of a packed tensor are missing, or do not add up to its rows.
    """
    return _as_lists(io.inputs, feeds, "input")


def outputs_as_lists(io: TensorIo, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs with a list for each sequence that is given as a tensor.

    Raises:
        RewriteError: The lengths of a packed tensor do not add up to its rows.
    """
    return _as_lists(io.outputs, outputs, "output")


def _as_lists(
    passed: Mapping[str, PassedSequence], values: Mapping[str, Any], side: str
) -> dict[str, Any]:
    found = dict(values)
    for name, one in passed.items():
        if isinstance(found.get(name), list) or found.get(name) is None:
            continue
        tensor = np.asarray(found[name])
        if one.form == "stacked":
            if not tensor.ndim:
                raise RewriteError(f"{side} {name!r} is a scalar; give one row for each element")
            found[name] = list(map(np.asarray, tensor))
            continue
        if one.lengths not in found:
            raise RewriteError(
                f"{side} {name!r} is {one.form}: give {one.lengths!r} too, or a list"
            )
        lengths = np.asarray(found.pop(one.lengths))
        if one.form in ("flat", "padded"):
            read = _elements if one.form == "flat" else _cut_elements
            found[name] = read(name, one, tensor, lengths, side)
            continue
        if not tensor.ndim or (lengths < 0).any() or lengths.sum() != tensor.shape[0]:
            raise RewriteError(
                f"{side} {name!r} has shape {tensor.shape}, and {one.lengths!r} are "
                f"{lengths.tolist()}: the lengths must add up to the first dimension"
            )
        found[name] = np.split(tensor, np.cumsum(lengths)[:-1]) if lengths.size else []
    return found


def _elements(
    name: str, passed: PassedSequence, rows: Array, sizes: Array, side: str
) -> list[Array]:
    """Return the elements that lie one behind the other, by their sizes."""
    first, behind = passed.span
    dims = passed.dims or ()
    lead, rest = [d for d in dims[:first] if isinstance(d, int)], dims[behind:]
    fits = rows.ndim == 1 + len(rest) and sizes.ndim == 2 and sizes.shape[1] == behind - first
    areas = np.prod(sizes, axis=1) * math.prod(lead) if fits else sizes
    if not fits or (sizes < 0).any() or areas.sum() != rows.shape[0]:
        raise RewriteError(
            f"{side} {name!r} has shape {rows.shape}, and {passed.lengths!r} are "
            f"{sizes.tolist()}: their products must add up to the first dimension"
        )
    cut = np.split(rows, np.cumsum(areas)[:-1]) if len(areas) else []
    shapes = ([*lead, *size, *rows.shape[1:]] for size in sizes.tolist())
    return [one.reshape(shape) for one, shape in zip(cut, shapes, strict=True)]


def _cut_elements(
    name: str, passed: PassedSequence, padded: Array, sizes: Array, side: str
) -> list[Array]:
    """Return the elements that are padded to the largest, by their sizes."""
    first, behind = passed.span
    room = padded.shape[first + 1 : behind + 1]
    fits = padded.ndim == 1 + len(passed.dims or ()) and sizes.shape == (
        len(padded),
        behind - first,
    )
    if not fits or (sizes < 0).any() or (sizes > room).any():
        raise RewriteError(
            f"{side} {name!r} has shape {padded.shape}, and {passed.lengths!r} are "
            f"{sizes.tolist()}: give one row for each element, no larger than the tensor"
        )
    return [one[_corner(first, size)] for one, size in zip(padded, sizes, strict=True)]


def _corner(first: int, size: Sequence[int]) -> tuple[slice, ...]:
    """Return where an element of this size lies in what is padded."""
    return (*(slice(None) for _ in range(first)), *(slice(int(end)) for end in size))


def check_elements(name: str, passed: PassedSequence, shapes: Sequence[tuple[int, ...]]) -> None:
    """Refuse elements that one tensor cannot hold.

    Raises:
        RewriteError: The elements differ where the tensor has one size, or have another one than
            the model takes.
    """
    first, behind = passed.span
    for number, shape in enumerate(shapes):
        known = () if passed.dims is None else passed.dims
        fits = passed.dims is None or (
            len(shape) == len(known)
            and all(
                not isinstance(dim, int) or dim == size or first <= axis < behind
                for axis, (dim, size) in enumerate(zip(known, shape, strict=True))
            )
        )
        if not fits or shape[behind:] != shapes[0][behind:]:
            wanted = "" if passed.dims is None else f" [{_text(passed)}]"
            raise RewriteError(
                f"input {name!r}, element {number}, has shape {shape}: the model takes the "
                f"elements as one {passed.form} tensor{wanted}, so that they must agree; give "
                "such elements, or rewrite the model without tensor_io"
            )


def _text(passed: PassedSequence) -> str:
    dims = [str(d) if isinstance(d, int) else "?" for d in passed.dims or ()]
    if passed.form in ("flat", "padded"):
        return ",".join(dims)
    return ",".join(["sum of lengths", *dims[1:]] if passed.form == "packed" else ["B", *dims])


def as_tensors(
    name: str, passed: PassedSequence, value: Sequence[Any], dtype: Any
) -> dict[str, Array]:
    """Return the tensor, and its lengths, that stand for the elements of a list.

    Raises:
        RewriteError: The elements do not fit into one tensor.
    """
    items = [np.asarray(item) for item in value]
    check_elements(name, passed, [item.shape for item in items])
    first, behind = passed.span
    is_padded = passed.form == "padded"
    if items and is_padded:
        tensor = _padded(items)
    elif items and passed.form == "flat":
        tensor = np.concatenate([item.reshape(-1, *item.shape[behind:]) for item in items])
    elif items:
        tensor = np.concatenate(items) if behind else np.stack(items)
    else:
        # What is not known is 1: operators may be undefined on a dimension of 0.
        dims = [d if isinstance(d, int) else 1 for d in passed.dims or ()]
        tensor = np.empty((0, *dims[0 if is_padded else behind :]), dtype)
    found = {name: tensor}
    if passed.form in ("flat", "padded"):
        sizes = [item.shape[first:behind] for item in items]
        found[passed.lengths] = np.array(sizes, np.int64).reshape(len(items), behind - first)
    elif behind:
        found[passed.lengths] = np.array([len(item) for item in items], np.int64)
    return found


def _padded(items: Sequence[Array]) -> Array:
    """Return arrays of one rank in one, each padded with zeros to the size of the largest."""
    shape = np.max([item.shape for item in items], axis=0)
    tensor = np.zeros((len(items), *shape), items[0].dtype)
    for row, item in zip(tensor, items, strict=True):
        row[_corner(0, item.shape)] = item
    return tensor
