"""Records how many rows the slices of a tensor have, and where each begins.

A tensor of 5 rows that is cut by size 2 has slices that begin at ``[0, 2, 4]``, with ``[2, 2, 1]``
rows. Sizes ``[2, 3]`` fit it; ``[2, 2]`` and ``[6, -1]`` are errors when the model runs.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder

__all__ = ["checked_sizes", "sizes_by", "starts_by", "write_dim"]


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
    return builder.op("Reshape", [sizes, target])
