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
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import REDUCTIONS, axes_of, made_by, operand
from passes.loops.forms import LoopBody
from passes.loops.write_if import Branch, more_than, no_samples, write_if
from passes.loops.writer import LoopWriter
from passes.site import MapResult, MapSite
from passes.typing import Typings

__all__ = ["CopiedSamples"]


def keep_axes(builder: Builder, first: int) -> None:
    """Let the node in front of an Unsqueeze keep the axes that this one gives back.

    ``Unsqueeze(Gather(x, 2), [0])`` is ``Gather(x, [2])``, as loops that scripts export read the
    bounds of a Slice; ``Unsqueeze(ReduceSum(x, [0], keepdims=0), [0])`` is a ReduceSum that keeps
    its axis.

    Args:
        builder: Holds the nodes.
        first: Which is the first of them.
    """
    for node in builder.nodes[first:]:
        if not is_operator(node, "Unsqueeze"):
            continue
        axes, made = axes_of(node), made_by(operand(node, 0))
        if axes is None:
            continue
        if is_operator(made, "Gather"):
            _read_row(builder, node, made, axes)
        elif is_operator(made, REDUCTIONS):
            _reduce(node, made, axes)


def _read_row(builder: Builder, node: ir.Node, read: ir.Node, axes: Sequence[int]) -> None:
    """Turn an Unsqueeze behind a Gather at a constant position into a Gather."""
    axis, position = read.attributes.get_int("axis", 0), constant_value(read.inputs[1])
    if position is None or position.ndim or axis < 0 or axes != [axis]:
        return
    constants = Builder(builder.origin)
    positions = constants.ints(int(position))
    place = builder.nodes.index(node)
    builder.nodes[place:place] = constants.nodes
    _become(node, read, [read.inputs[0], positions])


def _reduce(node: ir.Node, reduction: ir.Node, axes: Sequence[int]) -> None:
    """Turn an Unsqueeze behind a reduction along the same axes into a reduction."""
    reduced = axes_of(reduction)
    if reduction.attributes.get_int("keepdims", 1) or not reduced:
        return
    if min(*reduced, *axes) >= 0 and sorted(reduced) == sorted(axes):
        _become(node, reduction, reduction.inputs)
        node.attributes["keepdims"] = ir.AttrInt64("keepdims", 1)


def _become(node: ir.Node, other: ir.Node, inputs: Sequence[ir.Value | None]) -> None:
    """Turn a node into one like another; its result stays the same value."""
    node.op_type = other.op_type
    node.resize_inputs(len(inputs))
    for at, value in enumerate(inputs):
        node.replace_input_with(at, value)
    node.attributes.clear()
    node.attributes.update({name: other.attributes[name] for name in other.attributes})


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

    def write_all(self, builder: Builder) -> Sequence[ir.Value]:
        """Record a copy for each of as many samples as there may be; return the results."""
        return self._join(builder, [self._copy(builder, one) for one in range(self._most)])

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
            more_than(builder, count, self._most),
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
