"""Records in the metadata of a model: what seqmap wrote, or what somebody else did."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import onnx_ir as ir

from passes.errors import RewriteError

__all__ = ["dims_of", "read_record"]

_Record = TypeVar("_Record")
_Dims = tuple[int | str | None, ...]


def read_record(model: ir.Model, key: str, make: Callable[[Any], _Record]) -> _Record:
    """Return what a record of the model's metadata says; an empty one where there is none.

    Args:
        model: The model.
        key: The key of the metadata.
        make: Makes it from plain values, and stumbles over values of another kind.

    Raises:
        RewriteError: The record is not of the form that seqmap writes.
    """
    try:
        return make(json.loads(model.metadata_props.get(key, "{}")))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RewriteError(
            f"The metadata {key!r} of the model is not what seqmap writes: take it out of the "
            "model, or rewrite the model as it was before."
        ) from error


def dims_of(values: Any) -> _Dims:
    """Return dimensions that a record holds.

    Raises:
        TypeError: They are no list, or one is neither a number, a name nor None.
        ValueError: One is negative.
    """
    if not isinstance(values, list):
        raise TypeError("dimensions are a list")
    for dim in values:
        if isinstance(dim, bool) or not isinstance(dim, int | str | None):
            raise TypeError("a dimension is a number, a name or null")
        if isinstance(dim, int) and dim < 0:
            raise ValueError("a dimension is not negative")
    return tuple(values)
