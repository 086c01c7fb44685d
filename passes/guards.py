"""The run-time question whether the samples of a map have one shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.builder import Builder, tensor_value

__all__ = ["SHAPE_SIZE", "Guards"]

SHAPE_SIZE = 8
"""Shapes are compared as vectors of this size, filled up with -1; a larger rank counts as
ragged."""

_INT64 = ir.DataType.INT64


class Guards:
    """Guards of one graph; maps over one sequence share the loop over it."""

    def __init__(self) -> None:
        self._hidden: dict[ir.Value, ir.Value] = {}
        self._shapes: dict[ir.Value, ir.Value] = {}

    def hidden(self, builder: Builder, sequence: ir.Value) -> ir.Value:
        """Return a sequence of which onnxruntime does not know the declared element shape.

        onnxruntime specialises a graph from declared element shapes, true or not: a guard that
        reads the sequence itself is folded to what the declaration says.
        """
        if sequence not in self._hidden:
            held = builder.op("Optional", [sequence])
            value = builder.op("OptionalGetElement", [held])
            if isinstance(sequence.type, ir.SequenceType):
                value.type = ir.SequenceType(ir.TensorType(sequence.type.dtype))
                held.type = ir.OptionalType(value.type)
            self._hidden[sequence] = value
        return self._hidden[sequence]

    def is_uniform(
        self,
        builder: Builder,
        sequence: ir.Value,
        dims: tuple[int | str | None, ...] | None,
    ) -> ir.Value:
        """Record whether all elements have one shape, and the one that a branch relies on.

        Args:
            builder: Writes the graph that the sequence is read in.
            sequence: The sequence.
            dims: What is relied on: the rank and every number; None if nothing is.

        Returns:
            A boolean scalar; true for an empty sequence.
        """
        shapes = self._element_shapes(builder, sequence)
        first = builder.op("Slice", [shapes, builder.ints(0), builder.ints(1), builder.ints(0)])
        faults = [_count(builder, builder.op("Not", [builder.op("Equal", [shapes, first])]))]
        last = builder.op(
            "Slice",
            [first, builder.ints(SHAPE_SIZE - 1), builder.ints(SHAPE_SIZE), builder.ints(1)],
        )
        faults.append(_count(builder, builder.op("Greater", [last, builder.int(-1)])))
        if dims is not None:
            faults.append(_breaks(builder, first, dims))
        total = faults[0]
        for fault in faults[1:]:
            total = builder.op("Add", [total, fault])
        return builder.op("Equal", [total, builder.int(0)])

    def _element_shapes(self, builder: Builder, sequence: ir.Value) -> ir.Value:
        """Record one Loop that collects the shapes of all elements: int64 ``[B, 8]``."""
        if sequence in self._shapes:
            return self._shapes[sequence]
        hidden = self.hidden(builder, sequence)
        index = tensor_value("i", _INT64, [])
        condition = tensor_value("cond", ir.DataType.BOOL, [])

        def write(inner: Builder) -> Sequence[ir.Value]:
            element = inner.op("SequenceAt", [hidden, index])
            fill = inner.constant(np.full(SHAPE_SIZE, -1, np.int64))
            filled = inner.op("Concat", [inner.op("Shape", [element]), fill], {"axis": 0})
            shape = inner.op("Slice", [filled, inner.ints(0), inner.ints(SHAPE_SIZE)])
            shape.type, shape.shape = ir.TensorType(_INT64), ir.Shape([SHAPE_SIZE])
            go_on = inner.op("Identity", [condition])
            go_on.type, go_on.shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([])
            return [go_on, shape]

        body = builder.subgraph("shapes", [index, condition], write)
        count = builder.op("SequenceLength", [hidden])
        shapes = builder.op("Loop", [count, builder.bool(True)], {"body": body})
        shapes.type, shapes.shape = ir.TensorType(_INT64), ir.Shape([None, SHAPE_SIZE])
        self._shapes[sequence] = shapes
        return shapes


def _count(builder: Builder, flags: ir.Value) -> ir.Value:
    """Count what is true; nothing is true of an empty tensor."""
    return builder.op("ReduceSum", [builder.op("Cast", [flags], {"to": 7})], {"keepdims": 0})


def _breaks(builder: Builder, first: ir.Value, dims: Sequence[int | str | None]) -> ir.Value:
    """Count where the first shape, ``[1, 8]`` or ``[0, 8]``, is not as relied on.

    An unknown dimension may be any number that is a dimension, so at least 0.
    """
    low = [d if isinstance(d, int) else 0 for d in dims]
    high = [d if isinstance(d, int) else np.iinfo(np.int64).max for d in dims]
    fill = [-1] * (SHAPE_SIZE - len(dims))
    below = builder.op("Less", [first, builder.ints(*low, *fill)])
    above = builder.op("Greater", [first, builder.ints(*high, *fill)])
    return _count(builder, builder.op("Or", [below, above]))
