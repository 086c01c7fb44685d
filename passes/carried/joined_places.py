"""One scatter that joins the updates of all iterations to a tensor, where places may be equal.

The threads of onnxruntime's ScatterND lose some of the updates that go to one place, so rows are
joined by ScatterElements. Places along two axes become those of one: ``[i, j]`` in a tensor
``[4, 5]`` is row ``5 * i + j`` of 20.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder

__all__ = ["as_rows", "join_at_places", "join_extremes"]


def join_at_places(
    builder: Builder,
    tensor: ir.Value,
    rank: int,
    indices: ir.Value,
    named: int,
    updates: ir.Value,
    reduction: str,
) -> ir.Value:
    """Record what a ScatterND with a reduction computes.

    Args:
        builder: Records it.
        tensor: What is joined to.
        rank: Its rank.
        indices: The places, ``[..., named]``.
        named: Along how many axes of the tensor they are.
        updates: The rows that are joined to it.
        reduction: How.
    """
    whole = builder.op("Shape", [tensor])
    places, rows = indices, tensor
    rest = [builder.op("Shape", [tensor], {"start": named})] if rank > named else []
    if named > 1:
        places, count = as_rows(builder, indices, whole, named)
        shape = builder.op("Concat", [count, *rest], {"axis": 0}) if rest else count
        rows = builder.op("Reshape", [tensor, shape], {"allowzero": 1})
    count = builder.op("Reshape", [builder.op("Size", [places]), builder.ints(1)])
    places = builder.op("Reshape", [places, count], {"allowzero": 1})
    shape = builder.op("Concat", [count, *rest], {"axis": 0})
    new = builder.op("Reshape", [updates, shape], {"allowzero": 1})
    if rest:
        column = builder.op("Unsqueeze", [places, builder.ints(*range(1, rank - named + 1))])
        places = builder.op("Expand", [column, shape])
    attributes = {"axis": 0, "reduction": reduction}
    joined = builder.op("ScatterElements", [rows, places, new], attributes)
    return joined if named == 1 else builder.op("Reshape", [joined, whole], {"allowzero": 1})


def join_extremes(
    builder: Builder,
    tensor: ir.Value,
    rank: int,
    indices: ir.Value,
    named: int,
    updates: ir.Value,
    reduction: str,
) -> ir.Value:
    """Record the largest or the least floats at each place, NaN where one of them is.

    A scatter compares numbers, and may leave any of two where one is NaN; Max and Min do not. The
    arguments are those of `join_at_places`.
    """
    worst = builder.op("CastLike", [builder.constant(_WORST[reduction]), tensor])
    marks, clean = [], []
    for value in (tensor, updates):
        spoilt = builder.op("IsNaN", [value])
        marks.append(builder.op("Cast", [spoilt], {"to": int(ir.DataType.INT32)}))
        clean.append(builder.op("Where", [spoilt, worst, value]))
    joined = join_at_places(builder, clean[0], rank, indices, named, clean[1], reduction)
    found = join_at_places(builder, marks[0], rank, indices, named, marks[1], "max")
    spoilt = builder.op("Greater", [found, builder.constant(np.zeros((), np.int32))])
    nan = builder.op("CastLike", [builder.constant(np.array(np.nan, np.float32)), tensor])
    return builder.op("Where", [spoilt, nan, joined])


_WORST = {"max": np.array(-np.inf, np.float32), "min": np.array(np.inf, np.float32)}


def as_rows(
    builder: Builder, indices: ir.Value, shape: ir.Value, named: int
) -> tuple[ir.Value, ir.Value]:
    """Return the numbers of rows that places along several axes are, and how many rows there are.

    A place outside of the tensor becomes one outside of the rows, which is an error.

    Args:
        builder: Records them.
        indices: The places, ``[..., named]``.
        shape: The shape of the tensor.
        named: Along how many axes of it they are.
    """
    zero = builder.scalar(0)
    lead = builder.op("Slice", [shape, builder.ints(0), builder.ints(named)])
    is_negative = builder.op("Less", [indices, zero])
    at = builder.op("Where", [is_negative, builder.op("Add", [indices, lead]), indices])
    is_low = builder.op("Less", [at, zero])
    is_high = builder.op("GreaterOrEqual", [at, lead])
    strides = [builder.ints(1)]
    for axis in range(named - 1, -1, -1):
        dim = builder.op("Slice", [lead, builder.ints(axis), builder.ints(axis + 1)])
        strides.insert(0, builder.op("Mul", [strides[0], dim]))
    size, *strides = strides
    at = builder.op("Where", [builder.op("Or", [is_low, is_high]), size, at])
    steps = builder.op("Concat", strides, {"axis": 0})
    rows = builder.op("ReduceSum", [builder.op("Mul", [at, steps]), builder.ints(-1)])
    return rows, size
