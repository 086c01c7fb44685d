"""Finds the inputs that hold samples, and turns one sample into arrays of their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from rewriter.feeding.feed_checks import fits
from rewriter.feeding.input_specs import InputSpec, input_specs
from rewriter.feeding.texts import holds_texts, untext
from rewriter.option_values import dims_text

__all__ = ["as_array", "element_type", "sampled_inputs"]

Array = np.ndarray[Any, Any]


def sampled_inputs(model: ir.Model, shared: Mapping[str, Any]) -> list[InputSpec]:
    """Return the inputs that hold a value for each sample.

    Args:
        model: The model.
        shared: The inputs that are the same for every sample, by name.

    Raises:
        RewriteError: There is none, a shared one is unknown, or a required one is left.
    """
    specs = input_specs(model)
    names = [spec.name for spec in specs]
    if unknown := [name for name in shared if name not in names]:
        raise RewriteError(f"the model has no input {unknown[0]!r}; its inputs are: {names}")
    needed = [spec for spec in specs if spec.name not in shared and spec.is_required]
    found = [spec for spec in needed if spec.is_sequence or _has_open_rows(spec)]
    if not found:
        raise RewriteError(
            "no input of the model holds samples: each is shared, or has a fixed first dimension; "
            "give a model that takes a sequence, or a tensor whose first dimension is open"
        )
    taken = {spec.name for spec in found}
    if left := [spec.name for spec in needed if spec.name not in taken]:
        raise RewriteError(
            f"input {left[0]!r} does not hold samples; give its value in "
            f"shared={{{left[0]!r}: ...}}"
        )
    return found


def _has_open_rows(spec: InputSpec) -> bool:
    return spec.dims is not None and bool(spec.dims) and not isinstance(spec.dims[0], int)


def as_array(spec: InputSpec, value: Any) -> Array:
    """Return the value of one sample as an array of an input's type.

    No integer or text changes. A list of whole numbers is one of floats where these are wanted:
    JSON writes 1.0 as 1.

    Raises:
        RewriteError: It is a list of lists of unequal lengths, or of another type or shape, or
            masked.
    """
    array = _of_type(spec, value)
    if not spec.is_sequence and spec.dims is not None and not fits(array.shape, spec.dims[1:]):
        raise RewriteError(
            f"the value for input {spec.name!r} has shape {dims_text(array.shape)}, and one "
            f"sample has {dims_text(spec.dims[1:])}: the first axis of the input counts the "
            "samples"
        )
    return array


def _of_type(spec: InputSpec, value: Any) -> Array:
    wanted = element_type(spec)
    if np.ma.is_masked(value):
        raise RewriteError(f"the value for input {spec.name!r} has masked numbers; fill them")
    try:
        array = np.asarray(value)
    except ValueError:
        raise RewriteError(
            f"the value for input {spec.name!r} is no tensor: its rows differ in length"
        ) from None
    if wanted.kind == "O":
        return _texts(spec, value, array)
    if not array.size and not isinstance(value, np.ndarray):
        return array.astype(wanted)  # an empty list is of any type
    if not isinstance(value, np.ndarray | np.generic) and _are_floats(array, wanted):
        return array.astype(wanted)
    array = _typed(array, wanted)
    # Beside others in one array a value would become of their type.
    if array.dtype.kind != wanted.kind:
        raise RewriteError(
            f"the value for input {spec.name!r} is of type {array.dtype}; give {wanted.name}"
        )
    return array


def _are_floats(array: Array, wanted: np.dtype[Any]) -> bool:
    """Whether whole numbers are floats of a type, each of them."""
    if wanted.kind != "f" or array.dtype.kind not in "iu":
        return False
    most = 2 ** (np.finfo(wanted).nmant + 1)
    return bool(((array <= most) & (array >= -most)).all())


def _texts(spec: InputSpec, value: Any, array: Array) -> Array:
    """Return an array of texts; ``[1, "a"]`` is none, although numpy makes two texts of it."""
    array = array if isinstance(value, np.ndarray) else np.asarray(value, dtype=object)
    if array.size and not holds_texts(array):
        given = untext(array) if array.dtype.kind == "O" else array.dtype
        raise RewriteError(f"the value for input {spec.name!r} is of type {given}; give strings")
    return array.astype(object)


def element_type(spec: InputSpec) -> np.dtype[Any]:
    """Return the element type of an input's arrays; object for strings."""
    return np.dtype(object) if spec.dtype == ir.DataType.STRING else spec.dtype.numpy()


def _typed(value: Array, wanted: np.dtype[Any]) -> Array:
    """Return an array as another type of its kind where each integer stays, each float finite.

    Signed and unsigned integers are of one kind: JSON and pandas know none without a sign.
    """
    one, other = (_WHOLE if kind in _WHOLE else kind for kind in (value.dtype.kind, wanted.kind))
    if value.dtype == wanted or one != other or wanted.kind not in "iuf":
        return value
    with np.errstate(over="ignore"):
        found = value.astype(wanted)
    if wanted.kind == "f":
        return value if (np.isinf(found) & np.isfinite(value)).any() else found
    is_kept = (found.astype(value.dtype) == value) & ((found < 0) == (value < 0))
    return found if is_kept.all() else value


_WHOLE = "iu"
