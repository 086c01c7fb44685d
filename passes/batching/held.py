"""What samples may hold that each have a part of one tensor, where the parts overlap.

In 1,000 iterations ``x[:i + 1]`` takes 500,500 rows; a loop has one part at a time, in the cache.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.promises import FuseOptions

__all__ = ["GATHERED", "MOST_HELD", "WHOLE", "Holding", "has_no_loop", "prefers_loop"]

MOST_HELD = 1 << 24
"""So many numbers may be held in any case."""


@dataclasses.dataclass(frozen=True)
class Holding:
    """Up to how much samples may hold so that they are faster than a loop.

    The numbers were measured under onnxruntime 1.32 on one core.

    Attributes:
        each: So many numbers may a sample have.
        row: A row takes as long as so many numbers.
        once: What runs once takes as long as so many numbers.
    """

    each: int
    row: int
    once: int

    def allows(self, numbers: int, rows: int, count: int, options: FuseOptions) -> bool:
        """Whether samples may hold what they do.

        Args:
            numbers: How many numbers they hold in all.
            rows: In how many rows.
            count: How many samples there are.
            options: What is asked of the rewrite.
        """
        if not prefers_loop(options):
            return numbers <= MOST_HELD
        return numbers + self.row * rows + self.once <= self.each * count

    def allows_each(self, numbers: int, rows: int) -> bool:
        """Whether every sample may hold so many rows, of so many numbers each."""
        return (numbers + self.row) * rows <= self.each

    def write(
        self,
        builder: Builder,
        numbers: ir.Value,
        rows: ir.Value,
        count: ir.Value,
        options: FuseOptions,
    ) -> ir.Value:
        """Record `allows` of int64 vectors ``[1]``, a boolean scalar."""
        most = builder.ints(MOST_HELD)
        if prefers_loop(options):
            placed = builder.op("Mul", [rows, builder.ints(self.row)])
            numbers = builder.op("Add", [numbers, placed])
            paid = builder.op("Mul", [count, builder.ints(self.each)])
            most = builder.op("Sub", [paid, builder.ints(self.once)])
        flag = builder.op("LessOrEqual", [numbers, most])
        return builder.op("Squeeze", [flag, builder.ints(0)])


GATHERED = Holding(450, 6, 2000)
"""Of rows that are gathered."""

WHOLE = Holding(11_000, 60, 11_000)
"""Of tensors that each sample has as a whole."""


def prefers_loop(options: FuseOptions) -> bool:
    """Whether a loop may run where it is faster."""
    return options.auto and not options.for_device and not has_no_loop(options)


def has_no_loop(options: FuseOptions) -> bool:
    """Whether nothing can ask what is held, or nothing can run instead."""
    return "Loop" in options.lacks or "If" in options.lacks
