"""Tensors, or slices between neighbouring entries of vectors: whether all are equally long."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TypeAlias

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.reading.integers import TRIP, Entry, Linear

__all__ = ["Bounds", "Even", "entry_of", "write_equally_long", "write_even"]

Bounds: TypeAlias = tuple[tuple[ir.Value, int], tuple[ir.Value, int]]
"""Vectors of the starts and the ends of slices, and their entries for iteration 0."""


@dataclasses.dataclass(frozen=True)
class Even:
    """The facts that a body relies on that reads slices of one length.

    Attributes:
        length: The length of all slices, at least 1: an int64 scalar.
        holds: Whether they have it, all lie within the tensor, and there are some: a boolean.
    """

    length: ir.Value
    holds: ir.Value


def entry_of(number: Linear | None) -> tuple[ir.Value, int] | None:
    """Return a vector and where iteration 0 reads the entry that a number is, None if it is none.

    Each iteration reads the entry behind the one before.
    """
    if number is None or number.constant or len(number.terms) != 1:
        return None
    ((atom, count),) = number.terms
    if not isinstance(atom, Entry) or count != 1:
        return None
    first = (atom.position - Linear.of(TRIP)).number
    return None if first is None or first < 0 else (atom.vector, first)


def write_even(
    builder: Builder,
    start: tuple[ir.Value, int],
    end: tuple[ir.Value, int],
    tensor: ir.Value,
    count: ir.Value,
) -> Even:
    """Record whether all slices along the first axis of a tensor have the length of the first.

    Args:
        builder: Writes the graph around the map.
        start: A vector, and its entry that the first slice starts at.
        end: The same for the ends.
        tensor: What is cut.
        count: Number of slices, int64 ``[1]``.
    """
    zero, one, ints = builder.scalar(0), builder.scalar(1), builder.ints
    number = builder.op("Squeeze", [count, ints(0)])

    def entries(vector: ir.Value, first: int) -> ir.Value:
        last = builder.op("Add", [number, builder.scalar(first)]) if first else number
        places = builder.op("Range", [builder.scalar(first), last, one])
        found = builder.op("Gather", [vector, places], {"axis": 0})
        return builder.op("Cast", [found], {"to": ir.DataType.INT64})

    starts, ends = entries(*start), entries(*end)
    sizes = builder.op("Sub", [ends, starts])
    first = builder.op("Slice", [sizes, ints(0), ints(1)])
    least = builder.op("Concat", [first, ints(1)], {"axis": 0})
    length = builder.op("ReduceMax", [least], {"keepdims": 0})
    rows = builder.op("Gather", [builder.op("Shape", [tensor]), zero], {"axis": 0})
    tests = [
        builder.op("Equal", [sizes, length]),
        builder.op("GreaterOrEqual", [starts, zero]),
        builder.op("LessOrEqual", [ends, rows]),
    ]
    fits = builder.op("And", [builder.op("And", tests[:2]), tests[2]])
    good = builder.op(
        "ReduceSum", [builder.op("Cast", [fits], {"to": ir.DataType.INT64})], {"keepdims": 0}
    )
    holds = builder.op("Equal", [good, builder.op("Max", [number, one])])
    return Even(length, holds)


def write_equally_long(builder: Builder, pairs: Sequence[tuple[ir.Value, ir.Value]]) -> ir.Value:
    """Record whether the tensors of each pair have equally many rows: a boolean scalar."""
    tests = []
    for pair in pairs:
        shapes = (builder.op("Shape", [tensor]) for tensor in pair)
        sizes = [builder.op("Gather", [s, builder.scalar(0)], {"axis": 0}) for s in shapes]
        tests.append(builder.op("Equal", sizes))
    return functools.reduce(lambda a, b: builder.op("And", [a, b]), tests)
