"""Reads the shapes of all elements of sequences in one Scan, and compares them.

A step of the Scan reads `STEP` elements, since fewer steps cost less; one that is not full reads
the last element again. It writes a row: the shape of each element and a -1 behind it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import onnx_ir as ir

from passes.graph.builder import END, STEPS_KEY, Builder, tensor_value

__all__ = ["LAST", "STEP", "Asked", "Shapes", "all_true", "behind_first", "read_rows"]

STEP = 8
"""Elements that one step of the Scan reads."""

LAST = -1
"""The number that stands behind a shape; no dimension is negative."""

_MOST = 12
"""The most numbers that are compared of a shape of unknown rank, the -1 among them."""

_INT64 = ir.DataType.INT64
_INT32 = ir.DataType.INT32
_BOOL = ir.DataType.BOOL


@dataclasses.dataclass(frozen=True)
class Shapes:
    """The answers about the elements of one sequence; None for a question that was not asked.

    Attributes:
        equal: Boolean scalar: whether their shapes are equal and as relied on.
        alike: Boolean scalar: the same of all dimensions but the first.
        lengths: Their first dimensions, int64 ``[B]``.
    """

    equal: ir.Value | None = None
    alike: ir.Value | None = None
    lengths: ir.Value | None = None

    def values(self) -> list[ir.Value]:
        """Return what there is."""
        return [v for v in (self.equal, self.alike, self.lengths) if v is not None]


@dataclasses.dataclass(frozen=True)
class Asked:
    """The questions about the elements of one sequence.

    Attributes:
        sequence: The sequence, hidden.
        dims: The rank, and the numbers that are relied on; None if nothing is known.
        by_shape: Whether their shapes are asked for as a whole.
        by_rows: Whether first dimensions may differ, and are asked for; the rank is at least 1.
        most: The most numbers that an element may hold for batching to pay; None for any.
        may_differ: Boolean scalar: whether first dimensions may differ; None where they may.
    """

    sequence: ir.Value
    dims: tuple[int | str | None, ...] | None
    by_shape: bool
    by_rows: bool
    most: int | None
    may_differ: ir.Value | None

    def shapes_of(self, flag: ir.Value, lengths: ir.Value) -> Shapes:
        """Return values for all that is asked."""
        if not self.by_rows:
            return Shapes(equal=flag)
        return Shapes(flag if self.by_shape else None, flag, lengths)

    def read_from(self, values: Iterator[ir.Value]) -> Shapes:
        """Return what is asked, from values in the order of `Shapes.values`."""
        equal = next(values) if self.by_shape or not self.by_rows else None
        if not self.by_rows:
            return Shapes(equal)
        return Shapes(equal, next(values), next(values))


def read_rows(
    builder: Builder, count: ir.Value, asked: Sequence[Asked], wanted: Sequence[ir.Value]
) -> list[Shapes]:
    """Record the reading of all elements, and the comparison of their shapes.

    Args:
        builder: Writes the graph that the sequences are read in.
        count: The number of elements that are read of each, an int64 scalar, at least 1.
        asked: The sequences.
        wanted: The shape that the elements of each must have, and a -1 behind it.
    """
    step = builder.scalar(STEP)
    last = builder.op("Sub", [count, builder.scalar(1)])
    steps = builder.op("Div", [builder.op("Add", [last, step]), step])
    steps.type, steps.shape = ir.TensorType(_INT64), ir.Shape([])
    total = builder.op("Mul", [steps, step])
    positions = builder.arange(total)
    positions = builder.op("Min", [positions, last])
    sizes = builder.op("Expand", [steps, builder.ints(STEP)])
    parts = builder.node("Split", [positions, sizes], {"axis": 0}, outputs=STEP).outputs
    # Rows have one width, whatever the ranks of the elements are: they are filled up and cut.
    wanted = [
        first if one.dims is not None else _first_numbers(builder, first)
        for one, first in zip(asked, wanted, strict=True)
    ]
    fills = [builder.op("Tile", [first, builder.ints(STEP)]) for first in wanted]
    rows = _scan(builder, parts, asked, fills)
    return [
        _by_rows(builder, one, first, row, count)
        if one.by_rows
        else Shapes(all_true(builder, builder.op("Equal", [row, fill])))
        for one, first, fill, row in zip(asked, wanted, fills, rows, strict=True)
    ]


def _first_numbers(builder: Builder, row: ir.Value) -> ir.Value:
    """Return the first numbers of a row.

    A row that is cut has no -1 left, while the rows of the elements have one in these places
    where their ranks are as large: it equals none of them.
    """
    return builder.op("Slice", [row, builder.ints(0), builder.ints(_MOST)])


def _scan(
    builder: Builder, parts: Sequence[ir.Value], asked: Sequence[Asked], fills: Sequence[ir.Value]
) -> list[ir.Value]:
    """Record the Scan; return for each sequence ``[steps, STEP * (rank + 1)]``."""
    # A constant, and the rest is cut behind the Scan: a device cuts by no other on the host.
    counts = [STEP * (_MOST if one.dims is None else len(one.dims) + 1) for one in asked]
    inputs = [tensor_value("position", _INT64, []) for _ in parts]

    def write(inner: Builder) -> list[ir.Value]:
        rows = []
        for one, count in zip(asked, counts, strict=True):
            pieces = []
            for position in inputs:
                element = inner.op("SequenceAt", [one.sequence, position])
                pieces += [inner.op("Shape", [element]), inner.ints(LAST)]
            # What no shape can equal in its place; a constant, since a device would have to be
            # handed any other fill, and with it the shapes.
            fill = inner.ints(*[LAST] * count)
            row = inner.op("Concat", [*pieces, fill], {"axis": 0})
            row = inner.op("Slice", [row, inner.ints(0), inner.ints(count)])
            row.type, row.shape = ir.TensorType(_INT64), ir.Shape([None])
            rows.append(row)
        return rows

    body = builder.subgraph("shapes", inputs, write)
    attributes = {"body": body, "num_scan_inputs": len(parts)}
    node = builder.node("Scan", parts, attributes, outputs=len(asked))
    node.metadata_props[STEPS_KEY] = "1"
    return [
        row if one.dims is not None else _as_wide(builder, row, fill)
        for one, row, fill in zip(asked, node.outputs, fills, strict=True)
    ]


def _as_wide(builder: Builder, rows: ir.Value, fill: ir.Value) -> ir.Value:
    width = builder.op("Shape", [fill])
    return builder.op("Slice", [rows, builder.ints(0), width, builder.ints(1)])


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
    column = builder.op("Reshape", [behind_first(builder, wanted), builder.ints(width - 1, 1)])
    # An element of rank 0 has its -1 in the place of the first dimension.
    has_rank = builder.op("GreaterOrEqual", [first, builder.scalar(0)])
    same = builder.op("And", [builder.op("Equal", [rest, column]), has_rank])
    alike = all_true(builder, same)
    equal = None
    if asked.by_shape:
        length = builder.op("Slice", [wanted, builder.ints(0), builder.ints(1)])
        as_long = all_true(builder, builder.op("Equal", [first, length]))
        equal = builder.op("And", [alike, as_long])
    flat = builder.op("Reshape", [first, builder.ints(-1)])
    end = builder.op("Unsqueeze", [count, builder.ints(0)])
    lengths = builder.op("Slice", [flat, builder.ints(0), end])
    return Shapes(equal, alike, lengths)


def behind_first(builder: Builder, row: ir.Value) -> ir.Value:
    """Return a row without its first number."""
    return builder.op("Slice", [row, builder.ints(1), builder.ints(END)])


def all_true(builder: Builder, flags: ir.Value) -> ir.Value:
    """Record whether all flags are true: a boolean scalar; there is at least one flag."""
    numbers = builder.op("Cast", [flags], {"to": int(_INT32)})
    least = builder.op("ReduceMin", [numbers], {"keepdims": 0})
    return builder.op("Cast", [least], {"to": int(_BOOL)})
