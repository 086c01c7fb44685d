"""Records how a loop reads one slice of a tensor, how many rows it has, and where it begins.

A tensor of 5 rows that is cut by size 2 has slices that begin at ``[0, 2, 4]``, with ``[2, 2, 1]``
rows. Sizes ``[2, 3]`` fit it; ``[2, 2]`` and ``[6, -1]`` are errors when the model runs.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.passed_lengths import mark_as_check
from passes.maps.element_source import Read

__all__ = [
    "SlicesOfOne",
    "checked_sizes",
    "in_slices",
    "prepare_slices",
    "prepare_slices_of_one",
    "sizes_by",
    "starts_by",
]


def write_dim(builder: Builder, tensor: ir.Value, axis: int) -> ir.Value:
    """Record a dimension of a tensor, an int64 scalar."""
    return builder.op("Gather", [builder.op("Shape", [tensor]), builder.scalar(axis)], {"axis": 0})


def starts_by(builder: Builder, tensor: ir.Value, axis: int, size: ir.Value) -> ir.Value:
    """Record the first row of each slice of one size, int64 ``[B]``; a size of 0 is an error."""
    return _starts_up_to(builder, write_dim(builder, tensor, axis), size)


def _starts_up_to(builder: Builder, dim: ir.Value, size: ir.Value) -> ir.Value:
    return builder.op("Range", [builder.scalar(0), dim, size])


def sizes_by(builder: Builder, tensor: ir.Value, axis: int, size: ir.Value) -> ir.Value:
    """Record the sizes of slices of one size, int64 ``[B]``; the last may be smaller."""
    dim = write_dim(builder, tensor, axis)
    starts = _starts_up_to(builder, dim, size)
    return builder.op("Min", [builder.op("Sub", [dim, starts]), size])


def checked_sizes(builder: Builder, tensor: ir.Value, axis: int, sizes: ir.Value) -> ir.Value:
    """Record sizes, int64 ``[B]``; such as are negative, or do not add up to the axis, are errors.

    Slices would hold rows of others.
    """
    # A negative size counts as more rows than there are.
    many = builder.scalar(int(np.iinfo(np.int32).max))
    negative = builder.op("Less", [sizes, builder.scalar(0)])
    counted = builder.op("Where", [negative, many, sizes])
    total = builder.op("ReduceSum", [counted], {"keepdims": 1})
    shape = builder.op("Shape", [tensor])
    rows = builder.op("Gather", [shape, builder.ints(axis)], {"axis": 0})
    apart = builder.op("Abs", [builder.op("Sub", [total, rows])])
    # Only where that is 0 does the target have as many elements as there are sizes.
    target = builder.op("Add", [builder.op("Shape", [sizes]), apart])
    checked = builder.op("Reshape", [sizes, target])
    if not axis:
        mark_as_check(checked, tensor)
    return checked


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

    def read_string(self, builder: Builder, index: ir.Value) -> ir.Value:
        """Read by Slice: onnxruntime's Gather copies but the first string of each row."""
        start = builder.op("Unsqueeze", [index, builder.ints(0)])
        end = builder.op("Add", [start, builder.ints(1)])
        axis = builder.ints(self.axis)
        element = builder.op("Slice", [self.tensor, start, end, axis])
        return element if self.keepdims else builder.op("Squeeze", [element, axis])


def prepare_slices_of_one(builder: Builder, cut: SlicesOfOne, dtype: ir.DataType | None) -> Read:
    """Record what a loop needs outside of it to read a slice of size 1; return how it reads one.

    Args:
        builder: Writes the graph that holds the loop.
        cut: The slices.
        dtype: Their element type.
    """
    last = None
    if cut.is_reversed:
        count = write_dim(builder, cut.tensor, cut.axis)
        last = builder.op("Sub", [count, builder.scalar(1)])

    def read(inner: Builder, index: ir.Value) -> ir.Value:
        if last is not None:
            index = inner.op("Sub", [last, index])
        if dtype == ir.DataType.STRING:
            return cut.read_string(inner, index)
        position = index
        if cut.keepdims:
            position = inner.op("Unsqueeze", [index, inner.ints(0)])
        return inner.op("Gather", [cut.tensor, position], {"axis": cut.axis})

    return read


def prepare_slices(tensor: ir.Value, axis: int, starts: ir.Value, ends: ir.Value) -> Read:
    """Return how a loop reads slices between given rows.

    Args:
        tensor: The tensor that is cut.
        axis: Where it is cut.
        starts: The first row of each slice, int64 ``[B, 1]``.
        ends: The row behind the last one of each.
    """

    def read(inner: Builder, index: ir.Value) -> ir.Value:
        start = inner.op("Gather", [starts, index], {"axis": 0})
        end = inner.op("Gather", [ends, index], {"axis": 0})
        return inner.op("Slice", [tensor, start, end, inner.ints(axis)])

    return read


def in_slices(
    builder: Builder,
    tensor: ir.Value,
    axis: int,
    count: ir.Value,
    size: int,
    rank: int | None = None,
) -> ir.Value:
    """Record a tensor with two axes, of slices and their rows, in the place of one that is cut.

    It is an error at run time if the slices do not add up to the axis.

    Args:
        builder: Writes the graph that holds the tensor.
        tensor: The tensor.
        axis: Where it is cut, from the front.
        count: How many slices there are, an int64 vector ``[1]``.
        size: How many rows each has.
        rank: The rank of the tensor, if it is known.
    """
    before = [builder.shape(tensor, 0, axis)] if axis else []
    behind = [] if axis + 1 == rank else [builder.shape(tensor, axis + 1)]
    target = builder.op("Concat", [*before, count, builder.ints(size), *behind], {"axis": 0})
    return builder.op("Reshape", [tensor, target], {"allowzero": 1})
