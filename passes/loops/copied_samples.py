"""A map of a few samples without a loop: a copy of its body for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.builder import Builder
from passes.graphs import constant_value, is_default_domain
from passes.loops.forms import LoopBody
from passes.loops.write_if import Branch, no_samples, write_if
from passes.loops.writer import LoopWriter
from passes.site import MapResult, MapSite
from passes.typing import Typings

__all__ = ["CopiedSamples"]


class CopiedSamples:
    """Copies of the body of a map, as many as there are samples.

    One sample has a copy of its own. For more, each If asks whether the copies so far are all, and
    its other branch adds the next one: ``n`` samples take ``n`` copies, and as many are written as
    there can be samples, with one more. No samples and one are asked for in a branch of their own,
    so that two are not asked more often than one.
    """

    def __init__(self, site: MapSite, typings: Typings) -> None:
        """Set up the copies of a map."""
        self._site = site
        self._typings = typings
        self._body = LoopBody.of(site)

    def write(
        self, builder: Builder, count: ir.Value, most: int, *, is_some: bool
    ) -> Sequence[ir.Value]:
        """Record the copies behind questions for the number of samples.

        Args:
            builder: Writes the graph that the map stands in.
            count: The number of samples, an int64 scalar.
            most: As many as there can be.
            is_some: Whether there is at least one.

        Returns:
            The value of each result.
        """

        def write_one(inner: Builder) -> Sequence[ir.Value]:
            return self._joined(inner, [self._copy(inner, 0)])

        def write_more(inner: Builder) -> Sequence[ir.Value]:
            return self._write_next(inner, count, [self._copy(inner, 0)], most)

        def write_one_or(others: Branch) -> Branch:
            return lambda inner: self._choose(
                inner, inner.op("Equal", [count, inner.scalar(1)]), write_one, others
            )

        if is_some:
            write = write_one if most == 1 else write_one_or(write_more)
            return write(builder)
        write = write_one_or(self._write_none)
        if most == 1:
            return write(builder)
        is_more = builder.op("Greater", [count, builder.scalar(1)])
        return self._choose(builder, is_more, write_more, write)

    def _write_next(
        self, builder: Builder, count: ir.Value, before: list[list[ir.Value]], most: int
    ) -> Sequence[ir.Value]:
        """Record one more copy; there are at least as many samples."""
        samples = [*before, self._copy(builder, len(before))]
        if len(samples) == most:
            return self._joined(builder, samples)
        is_all = builder.op("Equal", [count, builder.scalar(len(samples))])
        return self._choose(
            builder,
            is_all,
            lambda inner: self._joined(inner, samples),
            lambda inner: self._write_next(inner, count, samples, most),
        )

    def _choose(
        self, builder: Builder, condition: ir.Value, write_then: Branch, write_else: Branch
    ) -> Sequence[ir.Value]:
        return write_if(builder, self._site, self._typings, condition, write_then, write_else)

    def _write_none(self, builder: Builder) -> Sequence[ir.Value]:
        return no_samples(builder, self._site, self._typings)

    def _copy(self, builder: Builder, number: int) -> list[ir.Value]:
        """Record the body for one sample and return its outputs."""
        sources = [
            source.prepare(builder, self._typings.declared.dtype(inner))
            for inner, source in self._body.elements
        ]
        writer = LoopWriter(self._body, self._typings, {}, sources)
        first = len(builder.nodes)
        outputs = writer.apply_body(builder, builder.scalar(number))
        _read_rows_at_once(builder, first)
        return outputs

    def _joined(self, builder: Builder, samples: list[list[ir.Value]]) -> list[ir.Value]:
        return [
            _joined(builder, result, [sample[result.output] for sample in samples])
            for result in self._site.results
        ]


def _read_rows_at_once(builder: Builder, first: int) -> None:
    """Let one Gather read what is read at a constant position and gets its axis of 1 back.

    Loops that scripts export read the bounds of a Slice so: ``Unsqueeze(Gather(x, 2), [0])`` is
    ``Gather(x, [2])``.

    Args:
        builder: Holds the nodes.
        first: Which is the first of them.
    """
    for node in builder.nodes[first:]:
        read = (
            node.inputs[0].producer() if node.op_type == "Unsqueeze" and node.inputs[0] else None
        )
        if read is None or read.op_type != "Gather" or not is_default_domain(read):
            continue
        axis, position = read.attributes.get_int("axis", 0), constant_value(read.inputs[1])
        axes = node.attributes.get_ints("axes")
        if axes is None:
            given = constant_value(node.inputs[1]) if len(node.inputs) > 1 else None
            axes = None if given is None else given.tolist()
        if position is None or position.ndim or axis is None or axis < 0 or axes != [axis]:
            continue
        constants = Builder(builder.origin)
        positions = constants.ints(int(position))
        place = builder.nodes.index(node)
        builder.nodes[place:place] = constants.nodes
        node.op_type = "Gather"
        node.resize_inputs(2)
        node.replace_input_with(0, read.inputs[0])
        node.replace_input_with(1, positions)
        node.attributes.clear()
        node.attributes["axis"] = ir.AttrInt64("axis", axis)


def _joined(builder: Builder, result: MapResult, values: list[ir.Value]) -> ir.Value:
    if result.kind == "sequence":
        return builder.op("SequenceConstruct", values)
    if result.kind == "stacked":
        axes = builder.ints(result.axis)
        values = [builder.op("Unsqueeze", [value, axes]) for value in values]
        if len(values) == 1:
            return values[0]
    return builder.op("Concat", values, {"axis": result.axis})
