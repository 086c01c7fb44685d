"""A map of a few samples without a loop: a copy of its body for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.builder import Builder
from passes.graphs import constant_value, is_default_domain
from passes.loops.forms import LoopBody
from passes.loops.write_if import no_samples, write_if
from passes.loops.writer import LoopWriter
from passes.site import MapResult, MapSite
from passes.typing import Typings

__all__ = ["CopiedSamples", "can_share"]

_TIERS = (1, 4)
"""The numbers of samples up to which there is a branch of its own."""


class CopiedSamples:
    """Copies of the body of a map, in one branch for one sample, and in others for more.

    The copies behind the last sample take that one once more, and what they yield is cut: 3
    copies for 2 samples read samples 0, 1 and 1, and two rows are left. So all results have to
    be stacked; others have one copy, for one sample.
    """

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

    def _write_some(self, builder: Builder, count: ir.Value, most: int) -> Sequence[ir.Value]:
        tiers = [*(tier for tier in _TIERS if tier < most), most]
        return self._write_tiers(builder, count, 1, tiers)

    def _write_tiers(
        self, builder: Builder, count: ir.Value, least: int, tiers: Sequence[int]
    ) -> Sequence[ir.Value]:
        """Record a branch for each tier; there are at least ``least`` samples."""
        most, *more = tiers
        if not more:
            return self._write_shared(builder, count, least, most)
        return write_if(
            builder,
            self._site,
            self._typings,
            builder.op("Less", [count, builder.scalar(most + 1)]),
            lambda inner: self._write_shared(inner, count, least, most),
            lambda inner: self._write_tiers(inner, count, most + 1, more),
        )

    def _write_shared(
        self, builder: Builder, count: ir.Value, least: int, most: int
    ) -> list[ir.Value]:
        """Record copies for ``least`` to ``most`` samples."""
        numbers = [builder.scalar(i) for i in range(least)]
        if most > least:
            last = builder.op("Sub", [count, builder.scalar(1)])
            numbers += [builder.op("Min", [builder.scalar(i), last]) for i in range(least, most)]
        return self._write_copies(builder, count, numbers)

    def _write_copies(
        self, builder: Builder, count: ir.Value, numbers: Sequence[ir.Value]
    ) -> list[ir.Value]:
        samples = [self._copy(builder, number) for number in numbers]
        return [
            _joined(builder, result, [sample[result.output] for sample in samples], count)
            for result in self._site.results
        ]

    def _copy(self, builder: Builder, number: ir.Value) -> list[ir.Value]:
        """Record the body for one sample and return its outputs."""
        sources = [
            source.prepare(builder, self._typings.declared.dtype(inner))
            for inner, source in self._body.elements
        ]
        writer = LoopWriter(self._body, self._typings, {}, sources)
        first = len(builder.nodes)
        outputs = writer.apply_body(builder, number)
        _read_rows_at_once(builder, first, number)
        return outputs


def can_share(site: MapSite) -> bool:
    """Whether more than one copy of a map's body can stand in one branch."""
    return all(result.kind == "stacked" for result in site.results)


def _read_rows_at_once(builder: Builder, first: int, number: ir.Value) -> None:
    """Let one Gather read what is read at one position and gets its axis of 1 back.

    Loops that scripts export read the bounds of a Slice so: ``Unsqueeze(Gather(x, 2), [0])`` is
    ``Gather(x, [2])``.

    Args:
        builder: Holds the nodes.
        first: Which is the first of them.
        number: The number of the sample, which need not be a constant.
    """
    vector: list[ir.Value] = []
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
        is_number = _is(read.inputs[1], number) or (position is not None and not position.ndim)
        if not is_number or axis is None or axis < 0 or axes != [axis]:
            continue
        made = Builder(builder.origin)
        if position is not None:
            positions = made.ints(int(position))
        else:
            vector = vector or [made.op("Unsqueeze", [number, made.ints(0)])]
            positions = vector[0]
        place = builder.nodes.index(node)
        builder.nodes[place:place] = made.nodes
        node.op_type = "Gather"
        node.resize_inputs(2)
        node.replace_input_with(0, read.inputs[0])
        node.replace_input_with(1, positions)
        node.attributes.clear()
        node.attributes["axis"] = ir.AttrInt64("axis", axis)


def _is(value: ir.Value | None, number: ir.Value) -> bool:
    """Whether a value is a number, as it is or handed on by Identity."""
    made = None if value is None else value.producer()
    if value is not number and made is not None and made.op_type == "Identity":
        return _is(made.inputs[0], number)
    return value is number


def _joined(
    builder: Builder, result: MapResult, values: list[ir.Value], count: ir.Value
) -> ir.Value:
    """Return a result of the copies; those behind the last sample are cut."""
    if result.kind == "sequence":
        return builder.op("SequenceConstruct", values)
    if result.kind == "concatenated":
        return builder.op("Concat", values, {"axis": result.axis})
    axes = builder.ints(result.axis)
    rows = [builder.op("Unsqueeze", [value, axes]) for value in values]
    if len(rows) == 1:
        return rows[0]
    joined = builder.op("Concat", rows, {"axis": result.axis})
    end = builder.op("Unsqueeze", [count, builder.ints(0)])
    return builder.op("Slice", [joined, builder.ints(0), end, axes])
