"""Do given inputs fit a model, and keep the promises that it was rewritten with?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from passes.promises import Promises
from passes.tensors.io import TensorIo
from rewriter.feeding.input_specs import InputSpec, input_specs
from rewriter.feeding.tensor_io import check_elements, feeds_as_lists
from rewriter.feeding.texts import holds_texts, untext
from rewriter.model_files import models
from rewriter.option_values import dims_text

__all__ = ["InputCheck", "as_feeds", "check_feeds", "fits", "told_unlike"]


def as_feeds(inputs: object) -> dict[str, Any]:
    """Return given inputs as a feed, in which a sequence is a list.

    Args:
        inputs: Input name to array, list or tuple of arrays, or None.

    Raises:
        RewriteError: They are no mapping of names.
    """
    if not isinstance(inputs, Mapping) or not all(isinstance(name, str) for name in inputs):
        raise RewriteError(
            f"the inputs are of type {type(inputs).__name__}; give a dict of input names, each "
            "with an array, or with a list of arrays for a sequence"
        )
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in inputs.items()
    }


def check_feeds(model: Any, feeds: Mapping[str, Any], promises: Promises | None = None) -> None:
    """Refuse inputs that the model cannot take, or that break a promise.

    Args:
        model: The model (path, ModelProto, onnx_ir.Model or graphsurgeon Graph).
        feeds: Input name to array, list of arrays or None (an absent optional).
        promises: The promises to keep; None reads those that the model carries.

    Raises:
        RewriteError: A name is unknown, an input is missing, is no tensor or no sequence as
            declared, has another element type, or breaks a promise.
    """
    InputCheck(models.take(model).model, promises)(feeds)


def told_unlike(model: Any, feeds: Mapping[str, Any]) -> str:
    """Say which element of a sequence is not as the model declares; empty where there is none.

    Such an element is no error by itself: exporters write the shape of the first example.
    """
    for spec in input_specs(models.take(model).model, Promises()):
        given = feeds.get(spec.name)
        if not spec.is_sequence or spec.dims is None or not isinstance(given, list):
            continue
        for number, item in enumerate(given):
            if not fits(shape := np.shape(item), spec.dims):
                return (
                    f"element {number} of {spec.name!r} has shape {dims_text(shape)} and is "
                    f"declared as {dims_text(spec.dims)}"
                )
    return ""


class InputCheck:
    """The requirements on the inputs of one model, read once."""

    def __init__(self, model: ir.Model, promises: Promises | None = None) -> None:
        """Read the types of the inputs.

        Args:
            model: The model.
            promises: As for `check_feeds`.
        """
        self._promises = Promises.read(model) if promises is None else promises
        self._io = TensorIo.read(model)
        self._declared = {spec.name: spec for spec in input_specs(model, Promises())}

    def __call__(self, feeds: Mapping[str, Any]) -> None:
        """Refuse inputs that the model cannot take; see `check_feeds`."""
        feeds = feeds_as_lists(self._io, feeds)
        for name in feeds:
            if name not in self._declared:
                known = ", ".join(map(repr, self._declared)) or "none"
                raise RewriteError(f"the model has no input {name!r}; its inputs are: {known}")
        for name, spec in self._declared.items():
            if name in feeds:
                _check_value(spec, feeds[name], self._promises)
                if passed := self._io.inputs.get(name):
                    check_elements(name, passed, [np.shape(item) for item in feeds[name]])
            elif spec.is_required:
                raise RewriteError(f"input {name!r} is missing; give {_wanted(spec)}")


def _wanted(spec: InputSpec) -> str:
    element = "string" if spec.dtype == ir.DataType.STRING else spec.dtype.numpy().name
    return f"a list of {element} arrays" if spec.is_sequence else f"one {element} array"


def _check_value(spec: InputSpec, value: Any, promises: Promises) -> None:
    if value is None:
        if not spec.is_optional:
            raise RewriteError(f"input {spec.name!r} is None; give {_wanted(spec)}")
        return
    if spec.is_sequence != isinstance(value, list):
        given = "a list" if isinstance(value, list) else "no list"
        raise RewriteError(f"input {spec.name!r} is {given}; give {_wanted(spec)}")
    items = [np.asarray(item) for item in (value if spec.is_sequence else [value])]
    for number, item in enumerate(items):
        where = f"{spec.name!r}, element {number}," if spec.is_sequence else f"{spec.name!r}"
        if not _has_type(item, spec.dtype):
            given = untext(item) if item.dtype.kind == "O" else str(item.dtype)
            raise RewriteError(f"input {where} is of type {given}; give {_wanted(spec)}")
        _check_shape(spec, where, item.shape, promises)
    _check_uniform(spec, [item.shape for item in items], promises)


def _has_type(item: np.ndarray[Any, Any], dtype: ir.DataType) -> bool:
    if dtype == ir.DataType.STRING:
        return holds_texts(item)
    return item.dtype == dtype.numpy()


def _check_shape(spec: InputSpec, where: str, shape: tuple[int, ...], promises: Promises) -> None:
    if not spec.is_sequence and spec.dims is not None and not fits(shape, spec.dims):
        raise RewriteError(
            f"input {where} has shape {dims_text(shape)} and is declared as "
            f"{dims_text(spec.dims)}: give such a shape, or correct the type where the model is "
            "made"
        )
    if spec.name in promises.input_shapes:
        wanted = tuple(promises.input_shapes[spec.name])
        if not fits(shape, wanted):
            raise RewriteError(
                f"input {where} has shape {shape} and breaks the promise input_shapes, which says "
                f"{dims_text(wanted)}: give that shape, or rewrite the model without the promise"
            )
    if promises.trust_types and spec.dims is not None and not fits(shape, spec.dims):
        raise RewriteError(
            f"input {where} has shape {shape} and breaks the promise trust_types, since its "
            f"declared shape is {dims_text(spec.dims)}: give that shape, or rewrite the model "
            "without the promise"
        )


def fits(shape: tuple[int, ...], dims: tuple[int | str | None, ...]) -> bool:
    """Whether a shape has the rank of declared dimensions, and their numbers."""
    return len(shape) == len(dims) and all(
        not isinstance(dim, int) or dim == size for size, dim in zip(shape, dims, strict=True)
    )


def _check_uniform(spec: InputSpec, shapes: list[tuple[int, ...]], promises: Promises) -> None:
    if spec.name not in promises.uniform:
        return
    for number, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise RewriteError(
                f"input {spec.name!r} breaks the promise uniform: element {number} has shape "
                f"{shape} and element 0 has {shapes[0]}; give elements of one shape, or rewrite "
                "the model without the promise"
            )
