"""Asks at run time whether the elements of sequences have one shape.

Two elements are compared with the first one before all of them are read: a list of different
shapes is found out at once, as a rule.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.fusing.shape_rows import LAST, Asked, Shapes, all_true, behind_first, read_rows
from passes.graph.builder import Builder

__all__ = ["read_shapes"]


def read_shapes(
    builder: Builder, count: ir.Value, asked: Sequence[Asked], *, gives_up: bool
) -> list[Shapes]:
    """Record the reading of the shapes of all elements of some sequences.

    Args:
        builder: Writes the graph that the sequences are read in.
        count: The number of elements that are read of each, an int64 scalar, at least 1.
        asked: The sequences.
        gives_up: Whether the others are not read where two elements are already not as the first
            one. What is asked does not hold then, and there are no lengths.

    Returns:
        What was read of each sequence.
    """
    wanted = [_wanted(builder, one) for one in asked]
    if not gives_up:
        return read_rows(builder, count, asked, wanted)
    last = builder.op("Sub", [count, builder.scalar(1)])
    probes = [last, builder.op("Div", [count, builder.scalar(2)])]
    pairs = zip(asked, wanted, strict=True)
    tests = [_are_as(builder, one, first, probes) for one, first in pairs]
    same = functools.reduce(lambda a, b: builder.op("And", [a, b]), tests)

    def write_all(inner: Builder) -> list[ir.Value]:
        return [v for shapes in read_rows(inner, count, asked, wanted) for v in shapes.values()]

    def write_none(inner: Builder) -> list[ir.Value]:
        no, none = inner.flag(False), inner.ints(0)
        return [value for one in asked for value in one.shapes_of(no, none).values()]

    graphs = {
        "then_branch": builder.subgraph("all", [], write_all),
        "else_branch": builder.subgraph("none", [], write_none),
    }
    count_of = len(graphs["then_branch"].outputs)
    outputs = iter(builder.node("If", [same], graphs, outputs=count_of).outputs)
    return [one.read_from(outputs) for one in asked]


def _wanted(builder: Builder, asked: Asked) -> ir.Value:
    """Return the shape that all elements must have, and a -1 behind it.

    A dimension that is relied on is a constant; the others are those of the first element.
    """
    dims = asked.dims
    if dims is not None and all(isinstance(d, int) for d in dims):
        return builder.constant(np.array([*dims, LAST], np.int64))
    first = builder.op("SequenceAt", [asked.sequence, builder.scalar(0)])
    shape = builder.op("Shape", [first])
    if dims is None:
        return builder.op("Concat", [shape, builder.ints(LAST)], {"axis": 0})
    # Whatever the rank of the first element is, no dimension may come out negative.
    width = len(dims) + 1
    filled = builder.op("Concat", [shape, builder.ints(*[0] * width)], {"axis": 0})
    filled = builder.op("Slice", [filled, builder.ints(0), builder.ints(width)])
    known = builder.constant(np.array([*(isinstance(d, int) for d in dims), True], np.bool_))
    numbers = builder.ints(*(d if isinstance(d, int) else 0 for d in dims), LAST)
    return builder.op("Where", [known, numbers, filled])


def _are_as(
    builder: Builder, asked: Asked, wanted: ir.Value, probes: Sequence[ir.Value]
) -> ir.Value:
    """Record whether some elements are as the first, and the last small: a boolean scalar."""
    elements = [builder.op("SequenceAt", [asked.sequence, probe]) for probe in probes]
    leaves_out = asked.by_rows and asked.may_differ is None
    rows = [_row(builder, asked, element, wanted, int(leaves_out)) for element in elements]
    if leaves_out:
        wanted = behind_first(builder, wanted)
    row = builder.op("Concat", rows, {"axis": 0})
    equal = builder.op("Equal", [row, builder.op("Tile", [wanted, builder.ints(len(rows))])])
    if asked.by_rows and asked.dims and asked.may_differ is not None:
        equal = _or_first(builder, equal, asked.may_differ, len(asked.dims) + 1, len(rows))
    same = all_true(builder, equal)
    if asked.most is None:
        return same
    size = builder.op("Size", [elements[0]])
    is_small = builder.op("LessOrEqual", [size, builder.scalar(asked.most)])
    return builder.op("And", [same, is_small])


def _or_first(
    builder: Builder, equal: ir.Value, may_differ: ir.Value, width: int, rows: int
) -> ir.Value:
    """Record what is equal of some rows, where the first number of each may differ."""
    firsts = builder.constant(np.array(([True] + [False] * (width - 1)) * rows))
    return builder.op("Or", [equal, builder.op("And", [firsts, may_differ])])


def _row(
    builder: Builder, asked: Asked, element: ir.Value, wanted: ir.Value, start: int
) -> ir.Value:
    """Return the shape of an element and what is behind it, as long as what is wanted.

    Without the number in front it is one shorter.
    """
    shape = builder.op("Shape", [element])
    row = builder.op("Concat", [shape, builder.ints(LAST), wanted], {"axis": 0})
    width = (
        builder.op("Shape", [wanted]) if asked.dims is None else builder.ints(len(asked.dims) + 1)
    )
    return builder.op("Slice", [row, builder.ints(start), width])
