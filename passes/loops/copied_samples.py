"""A map of a few samples without a loop: a copy of its body for each of them.

An If between two copies asks whether the one before was the last, for three samples at most::

    y = If(n < 2) {If(n == 1) {body(x[0])} else {nothing}}
        else {If(n > 3) {batched}
              else {y1 = body(x[0]); y2 = body(x[1])
                    If(n == 2) {Concat(y1, y2)}
                    else {y3 = body(x[2]); Concat(y1, y2, y3)}}}

One sample, where questions weigh most, stands behind two of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.loops.forms import LoopBody
from passes.loops.kept_axes import keep_axes
from passes.loops.write_if import Branch, no_samples, write_if
from passes.loops.writer import LoopWriter
from passes.site import MapResult, MapSite
from passes.typing import Typings

__all__ = ["CopiedSamples"]


class CopiedSamples:
    """Copies of the body of a map, each in a branch behind the one before it."""

    def __init__(self, site: MapSite, typings: Typings, most: int) -> None:
        """Set up the copies of a map.

        Args:
            site: The map.
            typings: Both typings of the model.
            most: How many copies there are.
        """
        self._site = site
        self._typings = typings
        self._most = most
        self._body = LoopBody.of(site)

    def write(self, builder: Builder, count: ir.Value) -> Sequence[ir.Value]:
        """Record the copies.

        Args:
            builder: Writes the branch.
            count: The number of samples, an int64 scalar, at least 1 and at most as many as there
                are copies.

        Returns:
            The value of each result.
        """
        return self._write_from(builder, count, [])

    def write_beside(
        self, builder: Builder, count: ir.Value, write_more: Branch
    ) -> Sequence[ir.Value]:
        """Record the copies, and what runs for more samples than there are copies.

        Args:
            builder: Writes the graph.
            count: The number of samples, an int64 scalar.
            write_more: Records what runs for more.

        Returns:
            The value of each result.
        """
        return self._write_if(
            builder,
            builder.op("Less", [count, builder.scalar(2)]),
            lambda inner: self._write_one_or_none(inner, count),
            lambda inner: self._write_several(inner, count, write_more),
        )

    def _write_several(
        self, builder: Builder, count: ir.Value, write_more: Branch
    ) -> Sequence[ir.Value]:
        if self._most == 1:
            return write_more(builder)
        return self._write_if(
            builder,
            builder.op("Greater", [count, builder.scalar(self._most)]),
            write_more,
            lambda inner: self._write_from(inner, count, [self._copy(inner, 0)]),
        )

    def _write_one_or_none(self, builder: Builder, count: ir.Value) -> Sequence[ir.Value]:
        return self._write_if(
            builder,
            builder.op("Equal", [count, builder.scalar(1)]),
            lambda one: self._join(one, [self._copy(one, 0)]),
            lambda none: no_samples(none, self._site, self._typings),
        )

    def _write_from(
        self, builder: Builder, count: ir.Value, samples: Sequence[Sequence[ir.Value]]
    ) -> Sequence[ir.Value]:
        """Record one more copy, and an If that asks whether it was the last.

        Args:
            builder: Writes the graph that the copy stands in.
            count: The number of samples, more than there are copies by now.
            samples: What each copy by now yields for each result.
        """
        by_now = [*samples, self._copy(builder, len(samples))]
        if len(by_now) >= self._most:
            return self._join(builder, by_now)
        return self._write_if(
            builder,
            builder.op("Equal", [count, builder.scalar(len(by_now))]),
            lambda inner: self._join(inner, by_now),
            lambda inner: self._write_from(inner, count, by_now),
        )

    def _write_if(
        self, builder: Builder, condition: ir.Value, write_then: Branch, write_else: Branch
    ) -> Sequence[ir.Value]:
        return write_if(builder, self._site, self._typings, condition, write_then, write_else)

    def _copy(self, builder: Builder, number: int) -> list[ir.Value]:
        """Record the body for one sample; return what it adds to each result."""
        first = len(builder.nodes)
        reads = [
            source.prepare(builder, self._typings.declared.dtype(inner))
            for inner, source in self._body.elements
        ]
        writer = LoopWriter(self._body, self._typings, {}, reads)
        outputs = writer.apply_body(builder, builder.scalar(number))
        parts = [_part(builder, result, outputs[result.output]) for result in self._site.results]
        keep_axes(builder, first)
        return parts

    def _join(self, builder: Builder, samples: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
        """Record the results of all copies."""
        parts = zip(*samples, strict=True)
        return [
            _joined(builder, result, of_result)
            for result, of_result in zip(self._site.results, parts, strict=True)
        ]


def _part(builder: Builder, result: MapResult, output: ir.Value) -> ir.Value:
    """Return what one sample adds to a result."""
    if result.kind != "stacked":
        return output
    return builder.op("Unsqueeze", [output, builder.ints(result.axis)])


def _joined(builder: Builder, result: MapResult, parts: Sequence[ir.Value]) -> ir.Value:
    """Return a result of the copies."""
    if result.kind == "sequence":
        return builder.op("SequenceConstruct", parts)
    return parts[0] if len(parts) == 1 else builder.op("Concat", parts, {"axis": result.axis})
