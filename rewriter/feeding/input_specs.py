"""The record of a model's inputs, by its types and the caller's promises."""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from passes.promises import Promises
from passes.tensors.io import PassedSequence, TensorIo
from passes.typing.value_types import dim_of

__all__ = ["Dim", "InputSpec", "input_specs"]

Dim = int | str | None
"""A dimension: a number, a symbol, or unknown."""


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """One graph input.

    Attributes:
        name: Its name.
        dtype: Its element type.
        dims: Dimensions of the tensor, or of every element of the sequence; None where not even
            the rank is known.
        is_sequence: Whether it is a sequence.
        is_optional: Whether None is a value of its type.
        is_required: Whether it has no default among the initializers.
        is_uniform: Whether all elements are promised to have one shape.
        declared: The dimensions with the declared numbers of elements where a promise leaves them
            open.
    """

    name: str
    dtype: ir.DataType
    dims: tuple[Dim, ...] | None
    is_sequence: bool = False
    is_optional: bool = False
    is_required: bool = True
    is_uniform: bool = False
    declared: tuple[Dim, ...] | None = None

    @property
    def is_open(self) -> bool:
        """Whether its shape, or that of its elements, is not all numbers."""
        return self.dims is None or any(not isinstance(dim, int) for dim in self.dims)

    @property
    def may_be_ragged(self) -> bool:
        """Whether elements may differ in shape."""
        return self.is_sequence and self.is_open and not self.is_uniform


def input_specs(model: ir.Model, promises: Promises | None = None) -> list[InputSpec]:
    """Read the specification of every graph input, in order.

    An input that passes a sequence as a tensor is a sequence here, and its lengths are none.

    Args:
        model: The model.
        promises: What the caller promises; None reads the promises the model carries.

    Raises:
        RewriteError: An input has a type that feeds cannot express, such as a map, or more
            dimensions than arrays can have.
    """
    promises = Promises.read(model) if promises is None else promises
    # A promise about a value inside can only be kept by inputs that are uniform themselves.
    names = {value.name for value in model.graph.inputs}
    all_uniform = bool(promises.uniform - names)
    io = TensorIo.read(model)
    lengths = {passed.lengths for passed in io.inputs.values()}
    return [
        _spec(value, model, promises, io.inputs.get(value.name or ""), is_uniform=all_uniform)
        for value in model.graph.inputs
        if value.name not in lengths
    ]


def _spec(
    value: ir.Value,
    model: ir.Model,
    promises: Promises,
    passed: PassedSequence | None,
    *,
    is_uniform: bool,
) -> InputSpec:
    """Read the specification of one input.

    Args:
        value: The input.
        model: The model.
        promises: What is promised of it.
        passed: The sequence that it passes as a tensor, if it does.
        is_uniform: Whether every sequence has elements of one shape.

    Raises:
        RewriteError: See `input_specs`.
    """
    kind = value.type
    is_optional = isinstance(kind, ir.OptionalType)
    if isinstance(kind, ir.OptionalType):
        kind = kind.elem_type
    is_sequence = isinstance(kind, ir.SequenceType)
    if isinstance(kind, ir.SequenceType):
        kind = kind.elem_type
    if not _is_known(kind) or value.name is None:
        raise RewriteError(
            f"input {value.name!r} is of type {value.type}, for which no values can be given: "
            "only tensors, sequences of tensors and optionals of both are known; declare "
            "such a type for it"
        )
    dims = None if value.shape is None else tuple(dim_of(dim) for dim in value.shape)
    if passed is not None:
        dims = passed.dims
    promised = promises.input_shapes.get(value.name)
    declared = dims if promised is None else _merge(dims, tuple(promised))
    dims = declared
    if promised is not None and (is_sequence or passed) and not promises.trust_types:
        dims = _opened(declared, tuple(promised))
    _check_rank(value.name, dims)
    return InputSpec(
        name=value.name,
        dtype=kind.dtype,
        dims=dims,
        is_sequence=is_sequence or passed is not None,
        is_optional=is_optional,
        is_required=value.name not in model.graph.initializers and not is_optional,
        is_uniform=is_uniform
        or value.name in promises.uniform
        or (passed is not None and passed.form == "stacked"),
        declared=declared,
    )


def _is_known(kind: ir.TypeProtocol | None) -> TypeGuard[ir.TensorType]:
    return isinstance(kind, ir.TensorType) and kind.dtype != ir.DataType.UNDEFINED


def _check_rank(name: str, dims: tuple[Dim, ...] | None) -> None:
    try:
        np.empty((0,) * len(dims or ()))
    except ValueError as error:
        raise RewriteError(
            f"input {name!r} has {len(dims or ())} dimensions, more than arrays of numpy can "
            "have: no values can be given for it"
        ) from error


def _merge(declared: tuple[Dim, ...] | None, promised: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return the promised dimensions, and the declared ones where the promise leaves them open."""
    if declared is None or len(declared) != len(promised):
        return promised
    return tuple(
        given if isinstance(given, int) else known
        for known, given in zip(declared, promised, strict=True)
    )


def _opened(dims: tuple[Dim, ...] | None, promised: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """Return the dimensions without the numbers that a promise leaves open."""
    if dims is None or len(dims) != len(promised):
        return dims
    return tuple(
        None if isinstance(known, int) and not isinstance(given, int) else known
        for known, given in zip(dims, promised, strict=True)
    )
