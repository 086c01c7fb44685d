"""The number of iterations of a Loop or Scan, as an affine expression."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.numbers.integers import Linear
from passes.numbers.written_numbers import write_number

__all__ = ["TripCount"]


@dataclasses.dataclass(frozen=True)
class TripCount:
    """The number of iterations.

    Attributes:
        number: The number, 0 or more; what it is if ``gate`` is true.
        gate: A boolean without which nothing runs; None where there is none.
        by_condition: Whether the condition decides it, and not the trip count alone.
        bound: What the number is if it is not 0; simpler than the number.
    """

    number: Linear
    bound: Linear
    gate: ir.Value | None = None
    by_condition: bool = False

    @property
    def static(self) -> int | None:
        """The number, if it is the same in every run."""
        return self.number.number if self.gate is None else None

    def write(self, builder: Builder) -> ir.Value:
        """Record the number as an int64 vector ``[1]``."""
        value = write_number(builder, self.number)
        if self.gate is None:
            return value
        gate = builder.op("Reshape", [self.gate, builder.ints(1)])
        return builder.op("Where", [gate, value, builder.ints(0)])
