"""A map of a few samples without a loop: a copy of its body for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_operator
from passes.loops.forms import LoopBody
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
        if is_some:
            return self._write_some(builder, count, most)
        return write_if(
            builder,
            self._site,
            self._typings,
            builder.op("Greater", [count, builder.scalar(0)]),
            lambda inner: self._write_some(inner, count, most),
            lambda inner: no_samples(inner, self._site, self._typings),
        )

    def _write_some(
        self, builder: Builder, count: ir.Value, most: int, least: int = 1
    ) -> Sequence[ir.Value]:
        if most == least:
            return self._write_copies(builder, most)
        return write_if(
            builder,
            self._site,
            self._typings,
            builder.op("Equal", [count, builder.scalar(least)]),
            lambda inner: self._write_copies(inner, least),
            lambda inner: self._write_some(inner, count, most, least + 1),
        )

    def _write_copies(self, builder: Builder, count: int) -> list[ir.Value]:
        samples = [self._copy(builder, number) for number in range(count)]
        return [
            _joined(builder, result, [sample[result.output] for sample in samples])
            for result in self._site.results
        ]

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
        if not is_operator(read, "Gather"):
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
    """Return a result of the copies."""
    if result.kind == "sequence":
        return builder.op("SequenceConstruct", values)
    if result.kind == "concatenated":
        return builder.op("Concat", values, {"axis": result.axis})
    axes = builder.ints(result.axis)
    rows = [builder.op("Unsqueeze", [value, axes]) for value in values]
    return rows[0] if len(rows) == 1 else builder.op("Concat", rows, {"axis": result.axis})
