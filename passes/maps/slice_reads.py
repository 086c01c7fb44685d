"""Records how a loop reads one slice of a tensor."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.maps.element_source import PreparedSource

__all__ = ["SlicesOfOne", "prepare_slices", "prepare_slices_of_one", "write_dim"]


@dataclasses.dataclass(frozen=True)
class SlicesOfOne:
    """Slices of size 1.

    Attributes:
        tensor: The tensor that is cut.
        axis: Where it is cut.
        keepdims: Whether the axis stays.
        is_reversed: Whether the first slice is the last one of the tensor.
    """

    tensor: ir.Value
    axis: int
    keepdims: bool
    is_reversed: bool

    def count(self, builder: Builder) -> ir.Value:
        """Record how many there are, an int64 scalar."""
        return write_dim(builder, self.tensor, self.axis)

    def read_string(self, builder: Builder, index: ir.Value) -> ir.Value:
        """Read by Slice: onnxruntime's Gather copies but the first string of each row."""
        start = builder.op("Unsqueeze", [index, builder.ints(0)])
        end = builder.op("Add", [start, builder.ints(1)])
        axis = builder.ints(self.axis)
        element = builder.op("Slice", [self.tensor, start, end, axis])
        return element if self.keepdims else builder.op("Squeeze", [element, axis])


def write_dim(builder: Builder, tensor: ir.Value, axis: int) -> ir.Value:
    """Record a dimension of a tensor, an int64 scalar."""
    return builder.op("Gather", [builder.op("Shape", [tensor]), builder.scalar(axis)], {"axis": 0})


def prepare_slices_of_one(
    builder: Builder, cut: SlicesOfOne, dtype: ir.DataType | None
) -> PreparedSource:
    """Record what a loop over slices of size 1 needs outside of it.

    Args:
        builder: Writes the graph that holds the loop.
        cut: The slices.
        dtype: Their element type.
    """
    last = None
    if cut.is_reversed:
        last = builder.op("Sub", [cut.count(builder), builder.scalar(1)])

    def read(inner: Builder, index: ir.Value) -> ir.Value:
        if last is not None:
            index = inner.op("Sub", [last, index])
        if dtype == ir.DataType.STRING:
            return cut.read_string(inner, index)
        position = index
        if cut.keepdims:
            position = inner.op("Unsqueeze", [index, inner.ints(0)])
        return inner.op("Gather", [cut.tensor, position], {"axis": cut.axis})

    return PreparedSource(cut.count, read)


def prepare_slices(
    tensor: ir.Value, axis: int, starts: ir.Value, ends: ir.Value
) -> PreparedSource:
    """Return how a loop reads slices between given rows.

    Args:
        tensor: The tensor that is cut.
        axis: Where it is cut.
        starts: The first row of each slice, int64 ``[B]``.
        ends: The row behind the last one of each.
    """

    def count(outer: Builder) -> ir.Value:
        return write_dim(outer, starts, 0)

    def read(inner: Builder, index: ir.Value) -> ir.Value:
        position = inner.op("Unsqueeze", [index, inner.ints(0)])
        start = inner.op("Gather", [starts, position], {"axis": 0})
        end = inner.op("Gather", [ends, position], {"axis": 0})
        return inner.op("Slice", [tensor, start, end, inner.ints(axis)])

    return PreparedSource(count, read)
