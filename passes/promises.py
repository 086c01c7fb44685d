"""Promises of the caller, and their place in the metadata of a model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import Any, cast

import onnx_ir as ir

from passes.graph.metadata import dims_of, read_record

__all__ = ["PROMISES_KEY", "Promises"]

PROMISES_KEY = "seqmap.promises"


@dataclasses.dataclass(frozen=True)
class Promises:
    """Facts that no analysis can prove and that the caller guarantees.

    Attributes:
        uniform: Names of sequences whose elements all have one shape.
        input_shapes: Shape of a tensor input, or of every element of a sequence input;
            ``None`` stands for an unknown dimension.
        trust_types: All declared numbers in sequence element types hold.
    """

    uniform: frozenset[str] = frozenset()
    input_shapes: Mapping[str, tuple[int | None, ...]] = dataclasses.field(default_factory=dict)
    trust_types: bool = False

    def __bool__(self) -> bool:
        return bool(self.uniform or self.input_shapes or self.trust_types)

    def without_shapes(self, names: Collection[str | None]) -> Promises:
        """Return the promises without the shapes of some inputs."""
        shapes = {name: dims for name, dims in self.input_shapes.items() if name not in names}
        return dataclasses.replace(self, input_shapes=shapes)

    def write(self, model: ir.Model) -> None:
        """Record the promises in the model's metadata; no promise leaves no trace."""
        if not self:
            return
        record: dict[str, object] = {}
        if self.uniform:
            record["uniform"] = sorted(self.uniform)
        if self.input_shapes:
            record["input_shapes"] = {k: list(v) for k, v in sorted(self.input_shapes.items())}
        if self.trust_types:
            record["trust_types"] = True
        model.metadata_props[PROMISES_KEY] = json.dumps(record)

    @classmethod
    def read(cls, model: ir.Model) -> Promises:
        """Return the promises that a rewritten model carries (none: an empty record).

        Raises:
            RewriteError: The record is not of the form that `write` gives it.
        """
        return read_record(model, PROMISES_KEY, cls._from_dict)

    @classmethod
    def _from_dict(cls, record: Any) -> Promises:
        names = record.get("uniform", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("uniform is a list of names")
        shapes = {k: dims_of(v) for k, v in record.get("input_shapes", {}).items()}
        if any(isinstance(dim, str) for dims in shapes.values() for dim in dims):
            raise TypeError("a promised dimension is a number or null")
        return cls(
            uniform=frozenset(names),
            input_shapes=cast(dict[str, tuple[int | None, ...]], shapes),
            trust_types=record.get("trust_types", False) is True,
        )
