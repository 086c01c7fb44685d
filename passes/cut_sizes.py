"""The sizes of the slices that a tensor is cut into, checked as SplitToSequence checks them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.builder import Builder
from passes.graphs import constant_value
from passes.site import TensorSource
from passes.typing import Typing

__all__ = ["cut_sizes"]

_INT64 = ir.DataType.INT64


def cut_sizes(builder: Builder, source: TensorSource, typing: Typing | None = None) -> ir.Value:
    """Record the sizes of slices, int64 ``[B]``.

    It is an error at run time if one is negative, or if they do not add up to the axis: slices
    would hold rows of others.

    Args:
        builder: Writes the graph that holds the tensor.
        source: What is cut, by a vector of sizes.
        typing: The proven typing, if there is one.
    """
    assert source.split is not None
    sizes = builder.op("Cast", [source.split], {"to": int(_INT64)})
    if source.is_whole or _fit(source, typing):
        return sizes
    # A negative size counts as more rows than there are.
    many = builder.scalar(int(np.iinfo(np.int32).max))
    counted = builder.op("Where", [builder.op("Less", [sizes, builder.scalar(0)]), many, sizes])
    total = builder.op("ReduceSum", [counted], {"keepdims": 1})
    shape, axis = builder.op("Shape", [source.tensor]), builder.ints(source.axis)
    rows = builder.op("Gather", [shape, axis], {"axis": 0})
    apart = builder.op("Abs", [builder.op("Sub", [total, rows])])
    # Only where that is 0 does the target have as many elements as there are sizes.
    target = builder.op("Add", [builder.op("Shape", [sizes]), apart])
    return builder.op("Reshape", [sizes, target])


def _fit(source: TensorSource, typing: Typing | None) -> bool:
    """Whether constant sizes are proven to add up to the axis."""
    sizes = constant_value(source.split)
    dims = None if typing is None else typing.dims(source.tensor)
    if sizes is None or dims is None:
        return False
    return bool((sizes >= 0).all() and sizes.sum() == dims[source.axis])
