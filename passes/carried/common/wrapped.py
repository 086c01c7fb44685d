"""A pattern that another one stands for: what it says of itself is what that one says."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.pattern import Pattern

__all__ = ["Wrapped"]


@dataclasses.dataclass(frozen=True)
class Wrapped(Pattern):
    """A carried value that is computed by the pattern of another.

    Attributes:
        form: The pattern; the initial value that it knows stands in no graph.
    """

    form: Pattern

    @property
    def name(self) -> str:  # type: ignore[override]
        """What the report calls it."""
        return self.form.name

    @property
    def rounds(self) -> bool:  # type: ignore[override]
        """Whether it rounds otherwise than the Loop."""
        return self.form.rounds

    @property
    def is_dear(self) -> bool:  # type: ignore[override]
        """Whether it may take many times the time and memory of the Loop."""
        return self.form.is_dear

    @property
    def cheap_from(self) -> int | None:  # type: ignore[override]
        """The opset from which on it does not."""
        return self.form.cheap_from

    @property
    def needs_sizes(self) -> bool:  # type: ignore[override]
        """Whether the sizes of what iterations give count where there are none."""
        return self.form.needs_sizes

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether the Loop copies in every iteration what it has appended so far."""
        return self.form.grows

    @property
    def between(self) -> tuple[ir.Value, ...]:  # type: ignore[override]
        """What the tensor is behind some of the writes of an iteration."""
        return self.form.between

    def begun(self, joined: Joined, initial: ir.Value) -> Pattern:
        """Return the pattern with an initial value that is recorded."""
        joined.typing.set(initial, joined.typing[self.form.carried.initial])
        carried = dataclasses.replace(self.form.carried, initial=initial)
        return dataclasses.replace(self.form, carried=carried)
