"""Tensors, or slices between neighbouring entries of vectors: whether all are equally long."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TypeAlias

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import skip_identities
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import ITERATION, Entry, Linear

__all__ = [
    "Bounds",
    "Even",
    "bounds_of",
    "branch_taken",
    "entry_of",
    "write_equally_long",
    "write_even",
]

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
    first = (atom.position - Linear.of(ITERATION)).number
    return None if first is None or first < 0 else (atom.vector, first)


def bounds_of(evaluator: Evaluator, one: ir.Value | None, other: ir.Value | None) -> Bounds | None:
    """Return the vectors whose entries two numbers are, and where they begin."""
    start, end = (entry_of(evaluator.number(value)) for value in (one, other))
    return None if start is None or end is None else (start, end)


def branch_taken(
    node: ir.Node, evaluator: Evaluator, unequal: set[Bounds] | None
) -> ir.Graph | None:
    """Return the branch that an If takes in every iteration, if that is known.

    Args:
        node: A node of a body.
        evaluator: Computes its condition.
        unequal: Is given the bounds of slices that are taken as not empty; None where slices may
            be empty.
    """
    if not is_operator(node, "If"):
        return None
    bounds = None if unequal is None else _bounds_asked(node.inputs[0], evaluator)
    if unequal is not None and bounds is not None:
        unequal.add(bounds)
        return node.attributes["else_branch"].as_graph()
    condition = evaluator.number(node.inputs[0])
    if condition is None or condition.number is None:
        return None
    name = "then_branch" if condition.number else "else_branch"
    return node.attributes[name].as_graph()


def _bounds_asked(condition: ir.Value | None, evaluator: Evaluator) -> Bounds | None:
    """Return the bounds of a slice if a boolean is true exactly where it starts at its end."""
    node = None if condition is None else skip_identities(condition).producer()
    return bounds_of(evaluator, *node.inputs) if is_operator(node, "Equal") else None


def write_even(
    builder: Builder,
    start: tuple[ir.Value, int],
    end: tuple[ir.Value, int],
    tensor: ir.Value,
    count: ir.Value,
) -> Even:
    """Record whether all slices along the first axis of a tensor have one length.

    Args:
        builder: Writes the graph around the map.
        start: A vector, and its entry that the first slice starts at.
        end: The same for the ends.
        tensor: What is cut.
        count: Number of slices, int64 ``[1]``.
    """
    zero, one, ints = builder.scalar(0), builder.scalar(1), builder.ints
    number = builder.op("Squeeze", [count, ints(0)])
    places = builder.op("Range", [zero, number, one])

    def entries(vector: ir.Value, first: int) -> ir.Value:
        own = builder.op("Add", [places, builder.scalar(first)]) if first else places
        found = builder.op("Gather", [vector, own], {"axis": 0})
        return builder.op("Cast", [found], {"to": ir.DataType.INT64})

    starts, ends = entries(*start), entries(*end)
    sizes = builder.op("Sub", [ends, starts])
    least = builder.op("Concat", [sizes, ints(1)], {"axis": 0})
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
