"""Checks the values of options: names, shapes, and that a model has them."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn, SupportsIndex, cast

import onnx_ir as ir

from passes.errors import RewriteError
from rewriter.errors import suggestion

__all__ = [
    "LARGEST_DIM",
    "Dims",
    "check_agrees",
    "check_is_sequence",
    "check_known",
    "dims_text",
    "read_names",
    "read_shapes",
    "refuse_flag",
]

Dims = Sequence[int | str | None]
LARGEST_DIM = 2**63 - 1
"""ONNX counts in int64."""


def read_names(field: str, given: object) -> tuple[str, ...]:
    """Return the names that are given for a field; a string is one name.

    Raises:
        RewriteError: Something else is given.
    """
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Iterable) or isinstance(names, bytes):
        raise RewriteError(f"{field} is {given!r}: give a list of names")
    names = tuple(names)
    for name in names:
        if not isinstance(name, str):
            raise RewriteError(f"{field} holds {name!r}, which is no name: give a list of names")
    return names


def read_shapes(given: object) -> dict[str, tuple[int | str | None, ...]]:
    """Return the shapes that are given for inputs, by name.

    Raises:
        RewriteError: Something else is given, or a dimension is none.
    """
    if not isinstance(given or {}, Mapping):
        raise RewriteError(f"input_shapes is {given!r}: give a dict of names and dimensions")
    shapes = cast(Mapping[str, object], given or {})
    return {name: _dims(name, dims) for name, dims in shapes.items()}


def _dims(name: str, given: object) -> tuple[int | str | None, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise RewriteError(
            f"the shape {given!r} is promised for {name!r}: give a list of dimensions, each a "
            "number, or a name or None for an unknown one"
        )
    return tuple(_dim(name, dim) for dim in given)


def _dim(name: str, given: object) -> int | str | None:
    if given is None or isinstance(given, str):
        return given
    number = None
    if not isinstance(given, bool):
        with contextlib.suppress(TypeError):
            number = operator.index(cast(SupportsIndex, given))
    if number is None or not 0 <= number <= LARGEST_DIM:
        raise RewriteError(
            f"the dimension {given!r} is promised for {name!r}: give a number from 0 to "
            f"{LARGEST_DIM}, or a name or None for an unknown one"
        )
    return number


def refuse_flag(field: str, given: object) -> NoReturn:
    """Refuse what is neither True nor False, such as the text of an option.

    Raises:
        RewriteError: Names the field.
    """
    raise RewriteError(f"{field} is {given!r}: give True or False")


def check_known(what: str, choose: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Refuse names that are not known.

    Raises:
        RewriteError: Says which one, and those to choose from.
    """
    for name in names:
        if name not in known:
            meant = suggestion(str(name), known)
            raise RewriteError(f"unknown {what} {name!r}: {choose} {', '.join(known)}{meant}")


def check_agrees(value: ir.Value, promised: tuple[int | None, ...]) -> None:
    """Refuse a promised shape that no value of the declared type has.

    Raises:
        RewriteError: The ranks, or two numbers, contradict each other.
    """
    if value.shape is None:
        return
    declared = [dim if isinstance(dim, int) else None for dim in value.shape]
    if len(declared) == len(promised) and all(
        None in (one, other) or one == other for one, other in zip(declared, promised, strict=True)
    ):
        return
    what = "elements of" if isinstance(value.type, ir.SequenceType) else "input"
    raise RewriteError(
        f"the shape {dims_text(promised)} is promised for {what} {value.name!r}, whose declared "
        f"shape is {dims_text([str(dim) for dim in value.shape])}: correct the promise, or the "
        "type where the model is made"
    )


def check_is_sequence(name: str, what: str, sequences: Iterable[str]) -> None:
    """Refuse a name that is not among the sequence inputs of a model.

    Args:
        name: The name.
        what: What was said of it.
        sequences: The names of the sequence inputs.

    Raises:
        RewriteError: Says which there are.
    """
    if name in sequences:
        return
    known = f"its sequence inputs are: {', '.join(sorted(sequences))}"
    left_out = known if sequences else f"it has none: leave {name!r} out"
    raise RewriteError(f"{name!r} is {what}, but is no sequence input of the model; {left_out}")


def dims_text(dims: Sequence[int | str | None]) -> str:
    """Return dimensions for the reader, with ``?`` for one that is not known."""
    return "[" + ",".join("?" if dim is None else str(dim) for dim in dims) + "]"
