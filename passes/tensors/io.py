"""The record of sequences that are passed as tensors, in the metadata of a model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

import onnx_ir as ir

from passes.graph.metadata import dims_of, read_record

__all__ = ["TENSOR_IO_KEY", "PassedSequence", "Refusal", "TensorIo"]

TENSOR_IO_KEY = "seqmap.tensor_io"

_BESIDE = {"packed": "lengths", "flat": "sizes", "padded": "sizes"}
"""The name of the second tensor of a form in the record."""


@dataclasses.dataclass(frozen=True)
class PassedSequence:
    """How a model takes or gives one sequence.

    Attributes:
        form: ``stacked``: one tensor ``[B, *s]``. ``packed``: one tensor ``[sum(len_i), *rest]``,
            and a second one, int64 ``[B]``, with the lengths. ``flat``: one tensor
            ``[P, *rest]``, the elements row-major one behind the other, and a second one, int64
            ``[B, k]``, with their sizes along the ``k`` axes from the first that may differ to
            the last. Packed is the case in which the first axis alone may differ. ``padded``:
            one tensor ``[B, *s]``, each element with anything behind it up to the size of the
            largest, and the same sizes.
        dims: What was known of the dimensions of an element; None if not even the rank was.
        lengths: Name of the input or output with the lengths, or the sizes; empty for a stacked
            one.
    """

    form: Literal["stacked", "packed", "flat", "padded"]
    dims: tuple[int | str | None, ...] | None
    lengths: str = ""

    @property
    def span(self) -> tuple[int, int]:
        """The first axis of an element that the lengths or sizes tell, and the one behind."""
        if self.form in ("flat", "padded") and self.dims is not None:
            ragged = [axis for axis, dim in enumerate(self.dims) if not isinstance(dim, int)]
            return ragged[0], ragged[-1] + 1
        return 0, int(self.form == "packed")


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Why an input or output stays a sequence.

    Attributes:
        side: ``input`` or ``output``.
        name: Its name.
        reason: What is in the way, in one clause.
        remedy: What the user can do about it.
    """

    side: Literal["input", "output"]
    name: str
    reason: str
    remedy: str


@dataclasses.dataclass
class TensorIo:
    """All sequences that a model passes as tensors.

    Attributes:
        inputs: How each input is taken, by name.
        outputs: How each output is given, by name.
        assumptions: What was relied on without a promise; not part of the metadata.
    """

    inputs: dict[str, PassedSequence] = dataclasses.field(default_factory=dict)
    outputs: dict[str, PassedSequence] = dataclasses.field(default_factory=dict)
    assumptions: list[str] = dataclasses.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain dicts, lists and strings, fit for JSON."""
        return {"inputs": _to_dict(self.inputs), "outputs": _to_dict(self.outputs)}

    def write(self, model: ir.Model) -> None:
        """Record it in the model's metadata; nothing passed leaves no trace."""
        if self:
            model.metadata_props[TENSOR_IO_KEY] = json.dumps(self.to_dict())

    @classmethod
    def read(cls, model: ir.Model) -> TensorIo:
        """Return what a rewritten model carries (nothing: an empty record).

        Raises:
            RewriteError: The record is not of the form that `write` gives it.
        """
        return read_record(
            model,
            TENSOR_IO_KEY,
            lambda record: cls(
                _from_dict(record.get("inputs", {})), _from_dict(record.get("outputs", {}))
            ),
        )


def _to_dict(passed: Mapping[str, PassedSequence]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, one in passed.items():
        found[name] = {
            "form": one.form,
            "dims": None if one.dims is None else list(one.dims),
        }
        if one.lengths:
            found[name][_BESIDE[one.form]] = one.lengths
    return found


def _from_dict(record: Mapping[str, Any]) -> dict[str, PassedSequence]:
    passed = {
        name: PassedSequence(
            one["form"],
            None if one["dims"] is None else dims_of(one["dims"]),
            one.get(_BESIDE.get(one["form"], ""), ""),
        )
        for name, one in record.items()
    }
    for one in passed.values():
        if one.form not in ("stacked", *_BESIDE) or not isinstance(one.lengths, str):
            raise ValueError(
                "a form is stacked, packed, flat or padded, and lengths or sizes are a name"
            )
        if one.form in ("flat", "padded") and all(isinstance(dim, int) for dim in one.dims or ()):
            raise ValueError(f"elements that are {one.form} have a dimension that is not known")
    return passed
