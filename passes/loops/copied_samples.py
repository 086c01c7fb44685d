"""A map of a few samples without a loop: a copy of its body for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.loops.forms import LoopBody
from passes.loops.kept_axes import keep_axes
from passes.loops.write_if import no_samples, write_if
from passes.loops.writer import LoopWriter
from passes.site import MapResult, MapSite
from passes.typing import Typings

__all__ = ["CopiedSamples"]


class CopiedSamples:
    """Copies of the body of a map, as many as there are samples: a branch for each number."""

    def __init__(self, site: MapSite, typings: Typings) -> None:
        """Set up the copies of a map."""
        self._site = site
        self._typings = typings
        self._body = LoopBody.of(site)

    def write(
        self, builder: Builder, count: ir.Value, most: int, *, is_some: bool
    ) -> Sequence[ir.Value]:
        """Record the copies.

        Args:
            builder: Writes the branch.
            count: The number of samples, an int64 scalar, at most as many as there are copies.
            most: How many copies there are.
            is_some: Whether there is at least one sample.

        Returns:
            The value of each result.
        """
        numbers = list(range(1, most + 1))
        if not is_some:
            numbers.insert(most - 1, 0)
        return self._write_one_of(builder, count, numbers)

    def _write_one_of(
        self, builder: Builder, count: ir.Value, numbers: Sequence[int]
    ) -> Sequence[ir.Value]:
        """Record a branch for each number of samples, those that are asked first in front."""
        number, *others = numbers
        if not others:
            return self._write_copies(builder, number)
        return write_if(
            builder,
            self._site,
            self._typings,
            builder.op("Equal", [count, builder.scalar(number)]),
            lambda inner: self._write_copies(inner, number),
            lambda inner: self._write_one_of(inner, count, others),
        )

    def _write_copies(self, builder: Builder, count: int) -> list[ir.Value]:
        if not count:
            return no_samples(builder, self._site, self._typings)
        first = len(builder.nodes)
        samples = [self._copy(builder, number) for number in range(count)]
        joined = [
            _joined(builder, result, [sample[result.output] for sample in samples])
            for result in self._site.results
        ]
        keep_axes(builder, first)
        return joined

    def _copy(self, builder: Builder, number: int) -> list[ir.Value]:
        """Record the body for one sample and return its outputs."""
        reads = [
            source.prepare(builder, self._typings.declared.dtype(inner))
            for inner, source in self._body.elements
        ]
        writer = LoopWriter(self._body, self._typings, {}, reads)
        return writer.apply_body(builder, builder.scalar(number))


def _joined(builder: Builder, result: MapResult, values: list[ir.Value]) -> ir.Value:
    """Return a result of the copies."""
    if result.kind == "sequence":
        return builder.op("SequenceConstruct", values)
    if result.kind == "concatenated":
        return builder.op("Concat", values, {"axis": result.axis})
    axes = builder.ints(result.axis)
    rows = [builder.op("Unsqueeze", [value, axes]) for value in values]
    return rows[0] if len(rows) == 1 else builder.op("Concat", rows, {"axis": result.axis})
