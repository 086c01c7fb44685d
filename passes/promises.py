"""What the caller vouches for, and its place in the model's metadata."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping

import onnx_ir as ir

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
        """Return the promises that a rewritten model carries (none: an empty record)."""
        record = json.loads(model.metadata_props.get(PROMISES_KEY, "{}"))
        return cls(
            uniform=frozenset(record.get("uniform", ())),
            input_shapes={k: tuple(v) for k, v in record.get("input_shapes", {}).items()},
            trust_types=bool(record.get("trust_types", False)),
        )
