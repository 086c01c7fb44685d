"""The run-time question whether the samples of a map have one shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from passes.builder import Builder, tensor_value
from passes.typing import Typing

__all__ = ["LARGEST_RANK", "STEP", "Guards"]

LARGEST_RANK = 7
"""Elements of a larger rank count as ragged."""

STEP = 8
"""Elements that one step of a guard reads: fewer steps cost less, but the last step reads
the last element again until it is full."""

_INT64 = ir.DataType.INT64
_LARGEST_DIM = int(np.iinfo(np.int64).max)


class Guards:
    """Guards of one graph; maps over one sequence share the loop over it."""

    def __init__(self) -> None:
        self._hidden: dict[ir.Value, ir.Value] = {}
        self._shapes: dict[tuple[ir.Value, int | None], ir.Value] = {}

    def hidden(self, builder: Builder, sequence: ir.Value, typing: Typing) -> ir.Value:
        """Return a sequence of which onnxruntime does not know the declared element shape.

        onnxruntime specialises a graph from declared element shapes, true or not: a guard that
        reads the sequence itself is folded to what the declaration says. Here an element of a
        rank that no other has is inserted and erased again, which copies no element: what
        inference says of the elements covers both ranks, and so says nothing.
        """
        if sequence not in self._hidden:
            dtype = typing.dtype(sequence)
            assert dtype is not None  # what a map is over has a type
            rank = [1] * (LARGEST_RANK + 1)
            is_text = dtype == ir.DataType.STRING
            array = np.full(rank, "", object) if is_text else np.zeros(rank, dtype.numpy())
            other = builder.constant(array)
            longer = builder.op("SequenceInsert", [sequence, other])
            value = builder.op("SequenceErase", [longer])
            longer.type = value.type = ir.SequenceType(ir.TensorType(dtype))
            self._hidden[sequence] = value
        return self._hidden[sequence]

    def is_uniform(
        self,
        builder: Builder,
        sequence: ir.Value,
        dims: tuple[int | str | None, ...] | None,
        typing: Typing,
        *,
        rows: bool = False,
    ) -> ir.Value:
        """Record whether all elements have one shape, and the one that a branch relies on.

        Args:
            builder: Writes the graph that the sequence is read in.
            sequence: The sequence.
            dims: What is relied on: the rank and every number; None if nothing is.
            typing: Knows the element type.
            rows: Ask for the shape of their rows instead: the first dimension may differ.

        Returns:
            A boolean scalar; true for an empty sequence.
        """
        rank = None if dims is None else len(dims)
        shapes = self._shapes_of(builder, sequence, rank, typing)
        if rows:
            assert dims
            last = builder.ints(_LARGEST_DIM)
            shapes = builder.op("Slice", [shapes, builder.ints(1), last, builder.ints(1)])
            dims = dims[1:]
        first = builder.op("Slice", [shapes, builder.ints(0), builder.ints(1), builder.ints(0)])
        differs = builder.op("Not", [builder.op("Equal", [shapes, first])])
        low, high = _limits(dims)
        below = builder.op("Less", [first, builder.ints(*low)])
        above = builder.op("Greater", [first, builder.ints(*high)])
        faults = builder.op(
            "Add", [_count(builder, differs), _count(builder, builder.op("Or", [below, above]))]
        )
        return builder.op("Equal", [faults, builder.scalar(0)])

    def lengths(self, builder: Builder, sequence: ir.Value, rank: int, typing: Typing) -> ir.Value:
        """Record the first dimension of all elements, int64 ``[B]``.

        Args:
            builder: Writes the graph that the sequence is read in.
            sequence: The sequence; its elements have one rank.
            rank: The rank, at least 1.
            typing: Knows the element type.
        """
        shapes = self._shapes_of(builder, sequence, rank, typing)
        count = builder.op("SequenceLength", [self.hidden(builder, sequence, typing)])
        ends = builder.op(
            "Concat",
            [builder.op("Unsqueeze", [count, builder.ints(0)]), builder.ints(1)],
            {"axis": 0},
        )
        column = builder.op("Slice", [shapes, builder.ints(0, 0), ends, builder.ints(0, 1)])
        return builder.op("Squeeze", [column, builder.ints(1)])

    def _shapes_of(
        self, builder: Builder, sequence: ir.Value, rank: int | None, typing: Typing
    ) -> ir.Value:
        """Return one row for each element, its shape and a -1; shared between maps."""
        if (sequence, rank) not in self._shapes:
            hidden = self.hidden(builder, sequence, typing)
            self._shapes[sequence, rank] = (
                _padded_shapes(builder, hidden) if rank is None else _shapes(builder, hidden, rank)
            )
        return self._shapes[sequence, rank]


def _limits(dims: tuple[int | str | None, ...] | None) -> tuple[list[int], list[int]]:
    """Return the least and the largest row of shapes that is as relied on.

    A row is a shape and a -1 behind it. An unknown dimension may be any number that is a
    dimension, so at least 0. With an unknown rank only the last -1 is certain.
    """
    if dims is None:
        return [-1] * (LARGEST_RANK + 1), [_LARGEST_DIM] * LARGEST_RANK + [-1]
    low = [d if isinstance(d, int) else 0 for d in dims]
    high = [d if isinstance(d, int) else _LARGEST_DIM for d in dims]
    return [*low, -1], [*high, -1]


def _count(builder: Builder, flags: ir.Value) -> ir.Value:
    """Count what is true; nothing is true of an empty tensor."""
    return builder.op("ReduceSum", [builder.op("Cast", [flags], {"to": 7})], {"keepdims": 0})


def _loop(
    builder: Builder,
    steps: ir.Value,
    width: int,
    write_row: Callable[[Builder, ir.Value], ir.Value],
) -> ir.Value:
    """Record a Loop that collects one row of ``width`` numbers for each step."""
    index = tensor_value("i", _INT64, [])
    condition = tensor_value("cond", ir.DataType.BOOL, [])

    def write(inner: Builder) -> Sequence[ir.Value]:
        row = write_row(inner, index)
        row.type, row.shape = ir.TensorType(_INT64), ir.Shape([width])
        go_on = inner.op("Identity", [condition])
        go_on.type, go_on.shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([])
        return [go_on, row]

    body = builder.subgraph("shapes", [index, condition], write)
    rows = builder.op("Loop", [steps, builder.flag(True)], {"body": body})
    rows.type, rows.shape = ir.TensorType(_INT64), ir.Shape([None, width])
    return rows


def _cut(inner: Builder, parts: Sequence[ir.Value], width: int) -> ir.Value:
    """Concatenate parts and cut the result to a width, filled up with -1."""
    fill = inner.constant(np.full(width, -1, np.int64))
    filled = inner.op("Concat", [*parts, fill], {"axis": 0})
    return inner.op("Slice", [filled, inner.ints(0), inner.ints(width)])


def _padded_shapes(builder: Builder, hidden: ir.Value) -> ir.Value:
    """Record the shapes of all elements, filled up with -1: int64 ``[B, LARGEST_RANK + 1]``."""
    width = LARGEST_RANK + 1

    def write_row(inner: Builder, index: ir.Value) -> ir.Value:
        element = inner.op("SequenceAt", [hidden, index])
        return _cut(inner, [inner.op("Shape", [element])], width)

    return _loop(builder, builder.op("SequenceLength", [hidden]), width, write_row)


def _shapes(builder: Builder, hidden: ir.Value, rank: int) -> ir.Value:
    """Record the shapes of all elements, a -1 behind each: int64 ``[N, rank + 1]``, ``N >= B``.

    A step of a Scan writes the shapes of `STEP` elements one behind the other. One of another
    rank shifts what follows it, and then a row has its -1 elsewhere than at its end. Without
    elements there is no Scan, since onnxruntime ends the process on one of no steps.
    """
    count = builder.op("SequenceLength", [hidden])

    def write_none(inner: Builder) -> Sequence[ir.Value]:
        return [inner.constant(np.empty((0, (rank + 1) * STEP), np.int64))]

    branches = {
        "then_branch": builder.subgraph(
            "some", [], lambda inner: [_scan_shapes(inner, hidden, count, rank)]
        ),
        "else_branch": builder.subgraph("none", [], write_none),
    }
    rows = builder.op("If", [builder.op("Greater", [count, builder.scalar(0)])], branches)
    rows.type, rows.shape = ir.TensorType(_INT64), ir.Shape([None, (rank + 1) * STEP])
    return builder.op("Reshape", [rows, builder.ints(-1, rank + 1)])


def _scan_shapes(builder: Builder, hidden: ir.Value, count: ir.Value, rank: int) -> ir.Value:
    """Record one row for `STEP` elements; behind the last one it is read again."""
    width, step = (rank + 1) * STEP, builder.scalar(STEP)
    last = builder.op("Sub", [count, builder.scalar(1)])
    end = builder.op("Add", [last, step])
    steps = builder.op("Div", [end, step])
    total = builder.op("Mul", [steps, step])
    positions = [
        builder.op("Min", [builder.op("Range", [builder.scalar(k), total, step]), last])
        for k in range(STEP)
    ]
    inputs = [tensor_value("position", _INT64, []) for _ in range(STEP)]

    def write(inner: Builder) -> Sequence[ir.Value]:
        elements = [inner.op("SequenceAt", [hidden, position]) for position in inputs]
        end_of_row = inner.ints(-1)
        parts = [part for e in elements for part in (inner.op("Shape", [e]), end_of_row)]
        row = _cut(inner, parts, width)
        row.type, row.shape = ir.TensorType(_INT64), ir.Shape([width])
        return [row]

    body = builder.subgraph("shapes", inputs, write)
    return builder.op("Scan", positions, {"body": body, "num_scan_inputs": STEP})
