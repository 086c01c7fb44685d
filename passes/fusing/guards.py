"""Reads the shapes of the elements of sequences at run time, and compares them.

One Scan reads all elements, `STEP` in a step: fewer steps cost less, and a step that is not full
reads the last element again. A step writes a row: the shape of each element and a -1 behind it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.builder import Builder, tensor_value

__all__ = ["STEP", "Asked", "Shapes", "all_true", "hidden", "read_shapes"]

STEP = 8
"""Elements that one step of the Scan reads."""

_INT64 = ir.DataType.INT64
_INT32 = ir.DataType.INT32
_BOOL = ir.DataType.BOOL
_LAST = -1
"""What stands behind a shape; no dimension is negative."""


def hidden(builder: Builder, sequence: ir.Value) -> ir.Value:
    """Return a sequence whose declared element shape onnxruntime does not know.

    onnxruntime specialises a graph from declared element shapes, true or not: a guard that reads
    the sequence itself is folded to what the declaration says.
    """
    held = builder.op("Optional", [sequence])
    value = builder.op("OptionalGetElement", [held])
    if isinstance(sequence.type, ir.SequenceType):
        value.type = ir.SequenceType(ir.TensorType(sequence.type.dtype))
    return value


@dataclasses.dataclass(frozen=True)
class Asked:
    """What is asked of the elements of one sequence.

    Attributes:
        sequence: The sequence, hidden.
        dims: The rank, and the numbers that are relied on; None if nothing is known.
        by_rows: Whether first dimensions may differ, and are asked for; the rank is at least 1.
        most: The most numbers that an element may hold for batching to pay; None for any.
    """

    sequence: ir.Value
    dims: tuple[int | str | None, ...] | None
    by_rows: bool = False
    most: int | None = None


@dataclasses.dataclass(frozen=True)
class Shapes:
    """What was read of the elements of one sequence.

    Attributes:
        alike: Boolean scalar: whether their shapes, or all dimensions but the first, are equal
            and as relied on.
        equal: Boolean scalar: whether their shapes are equal and as relied on.
        lengths: Their first dimensions, int64 ``[B]``; None if these were not asked for.
    """

    alike: ir.Value
    equal: ir.Value
    lengths: ir.Value | None = None


def read_shapes(
    builder: Builder, count: ir.Value, asked: Sequence[Asked], *, gives_up: bool
) -> list[Shapes]:
    """Record the reading of the shapes of all elements of some sequences.

    Args:
        builder: Writes the graph that the sequences are read in.
        count: The number of elements that are read of each, an int64 scalar, at least 1.
        asked: The sequences.
        gives_up: Whether no more than one step is read where the last element is already not
            as the first one. What is asked does not hold then, and there are no lengths.

    Returns:
        What was read of each sequence.
    """
    step = builder.scalar(STEP)
    last = builder.op("Sub", [count, builder.scalar(1)])
    steps = builder.op("Div", [builder.op("Add", [last, step]), step])
    total = builder.op("Mul", [steps, step])
    wanted = [_wanted(builder, one) for one in asked]
    goes_on = None
    if gives_up:
        pairs = zip(asked, wanted, strict=True)
        tests = [_is_as(builder, one, first, last) for one, first in pairs]
        goes_on = functools.reduce(lambda a, b: builder.op("And", [a, b]), tests)
        total = builder.op("Where", [goes_on, total, step])
        steps = builder.op("Div", [total, step])
    positions = builder.op("Range", [builder.scalar(0), total, builder.scalar(1)])
    positions = builder.op("Min", [positions, last])
    sizes = builder.op("Expand", [steps, builder.ints(STEP)])
    parts = builder.node("Split", [positions, sizes], {"axis": 0}, outputs=STEP).outputs
    # Rows have one width, whatever the ranks of the elements are: they are filled up and cut.
    fills = [builder.op("Tile", [first, builder.ints(STEP)]) for first in wanted]
    rows = _scan(builder, parts, asked, fills)
    found = []
    for one, first, fill, row in zip(asked, wanted, fills, rows, strict=True):
        shapes = _by_rows(builder, one, first, row, count) if one.by_rows else None
        if shapes is None:
            equal = all_true(builder, builder.op("Equal", [row, fill]))
            shapes = Shapes(equal, equal)
        if goes_on is not None:
            alike, equal = (builder.op("And", [f, goes_on]) for f in (shapes.alike, shapes.equal))
            shapes = Shapes(alike, equal, shapes.lengths)
        found.append(shapes)
    return found


def _wanted(builder: Builder, asked: Asked) -> ir.Value:
    """Return the shape that all elements must have, and a -1 behind it.

    A dimension that is relied on is a constant; the others are those of the first element.
    """
    dims = asked.dims
    if dims is not None and all(isinstance(d, int) for d in dims):
        return builder.constant(np.array([*dims, _LAST], np.int64))
    first = builder.op("SequenceAt", [asked.sequence, builder.scalar(0)])
    shape = builder.op("Shape", [first])
    if dims is None:
        return builder.op("Concat", [shape, builder.ints(_LAST)], {"axis": 0})
    # Whatever the rank of the first element is, no dimension may come out negative.
    width = len(dims) + 1
    filled = builder.op("Concat", [shape, builder.ints(*[0] * width)], {"axis": 0})
    filled = builder.op("Slice", [filled, builder.ints(0), builder.ints(width)])
    known = builder.constant(np.array([*(isinstance(d, int) for d in dims), True], np.bool_))
    numbers = builder.ints(*(d if isinstance(d, int) else 0 for d in dims), _LAST)
    return builder.op("Where", [known, numbers, filled])


def _is_as(builder: Builder, asked: Asked, wanted: ir.Value, last: ir.Value) -> ir.Value:
    """Record whether the last element is as the first, and small enough: a boolean scalar."""
    element = builder.op("SequenceAt", [asked.sequence, last])
    shape = builder.op("Shape", [element])
    row = builder.op("Concat", [shape, builder.ints(_LAST), wanted], {"axis": 0})
    row = builder.op("Slice", [row, builder.ints(0), builder.op("Shape", [wanted])])
    if asked.by_rows:
        row, wanted = (_behind_first(builder, v) for v in (row, wanted))
    same = all_true(builder, builder.op("Equal", [row, wanted]))
    if asked.most is None:
        return same
    size = builder.op("Size", [element])
    is_small = builder.op("LessOrEqual", [size, builder.scalar(asked.most)])
    return builder.op("And", [same, is_small])


def _behind_first(builder: Builder, row: ir.Value) -> ir.Value:
    return builder.op("Slice", [row, builder.ints(1), builder.ints(np.iinfo(np.int64).max)])


def _scan(
    builder: Builder, parts: Sequence[ir.Value], asked: Sequence[Asked], fills: Sequence[ir.Value]
) -> list[ir.Value]:
    """Record the Scan; return for each sequence ``[steps, STEP * (rank + 1)]``."""
    widths = [
        builder.op("Shape", [fill])
        if one.dims is None
        else builder.ints(STEP * (len(one.dims) + 1))
        for one, fill in zip(asked, fills, strict=True)
    ]
    inputs = [tensor_value("position", _INT64, []) for _ in parts]

    def write(inner: Builder) -> list[ir.Value]:
        rows = []
        for one, fill, width in zip(asked, fills, widths, strict=True):
            pieces = []
            for position in inputs:
                element = inner.op("SequenceAt", [one.sequence, position])
                pieces += [inner.op("Shape", [element]), inner.ints(_LAST)]
            row = inner.op("Concat", [*pieces, fill], {"axis": 0})
            row = inner.op("Slice", [row, inner.ints(0), width])
            row.type, row.shape = ir.TensorType(_INT64), ir.Shape([None])
            rows.append(row)
        return rows

    body = builder.subgraph("shapes", inputs, write)
    attributes = {"body": body, "num_scan_inputs": len(parts)}
    return list(builder.node("Scan", parts, attributes, outputs=len(asked)).outputs)


def _by_rows(
    builder: Builder, asked: Asked, wanted: ir.Value, rows: ir.Value, count: ir.Value
) -> Shapes:
    """Compare all dimensions but the first, and return the first ones."""
    assert asked.dims
    width = len(asked.dims) + 1
    # Split gave every place of a step a run of elements that follow each other.
    steps = builder.op("Reshape", [rows, builder.ints(-1, STEP, width)])
    turned = builder.op("Transpose", [steps], {"perm": [2, 1, 0]})
    columns = builder.op("Reshape", [turned, builder.ints(width, -1)])
    sizes = builder.ints(1, width - 1)
    first, rest = builder.node("Split", [columns, sizes], {"axis": 0}, outputs=2).outputs
    column = builder.op("Reshape", [_behind_first(builder, wanted), builder.ints(width - 1, 1)])
    # An element of rank 0 has its -1 in the place of the first dimension.
    has_rank = builder.op("GreaterOrEqual", [first, builder.scalar(0)])
    same = builder.op("And", [builder.op("Equal", [rest, column]), has_rank])
    alike = all_true(builder, same)
    length = builder.op("Slice", [wanted, builder.ints(0), builder.ints(1)])
    as_long = all_true(builder, builder.op("Equal", [first, length]))
    flat = builder.op("Reshape", [first, builder.ints(-1)])
    end = builder.op("Unsqueeze", [count, builder.ints(0)])
    lengths = builder.op("Slice", [flat, builder.ints(0), end])
    return Shapes(alike, builder.op("And", [alike, as_long]), lengths)


def all_true(builder: Builder, flags: ir.Value) -> ir.Value:
    """Record whether all flags are true, of which there is at least one: a boolean scalar."""
    numbers = builder.op("Cast", [flags], {"to": int(_INT32)})
    least = builder.op("ReduceMin", [numbers], {"keepdims": 0})
    return builder.op("Cast", [least], {"to": int(_BOOL)})
