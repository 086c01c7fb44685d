"""Reads along an axis that may have no place, where there are no samples.

``x[i]`` becomes ``x[i:i+1]``, which yields no row where there is none, and a row of zeros takes
its place. A reduction that has no result for no numbers reduces one row of zeros more. With
samples no row is added, so that a place out of range, or nothing to reduce, fails as before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.failing import OF_SOMETHING
from passes.graph.builder import END, Builder
from passes.graph.graphs import is_operator
from passes.graph.made import axes_of, operand
from passes.typing import Typing

__all__ = ["PADDED", "put_row_of_zeros", "put_zeros_behind", "reads_one_place", "reduced_along"]

PADDED = (
    ir.DataType.BOOL,
    ir.DataType.DOUBLE,
    ir.DataType.FLOAT,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.UINT8,
)


def reads_one_place(node: ir.Node, typing: Typing) -> bool:
    """Whether a node is a Gather of one number's place, of a tensor of known rank."""
    if not is_operator(node, "Gather"):
        return False
    data, place = operand(node, 0), operand(node, 1)
    dims, axis = typing.dims(data), node.attributes.get_int("axis", 0)
    if dims is None or not -len(dims) <= axis < len(dims) or dims[axis] == 0:
        return False
    return typing.dtype(data) in PADDED and typing.static_dims(place) in ((), (1,))


def put_row_of_zeros(
    builder: Builder, node: ir.Node, some: ir.Value, rank: int, place: tuple[int, ...]
) -> None:
    """Let a Gather read zeros where there are no samples, and nothing at its place.

    Args:
        builder: Records what comes before the Gather.
        node: A Gather of one place, which is changed.
        some: 1 where there are samples, else 0, int64 ``[1]``.
        rank: The rank of its tensor.
        place: The dimensions of the place.
    """
    axis = node.attributes.get_int("axis", 0) % rank
    start = builder.op("Cast", [operand(node, 1)], {"to": ir.DataType.INT64})
    start = builder.op("Reshape", [start, builder.ints(1)])
    is_last = builder.op("Equal", [start, builder.ints(-1)])
    following = builder.op("Add", [start, builder.ints(1)])
    end = builder.op("Where", [is_last, builder.ints(END), following])
    row = builder.op("Slice", [operand(node, 0), start, end, builder.ints(axis)])
    found = builder.op("Gather", [builder.op("Shape", [row]), builder.ints(axis)], {"axis": 0})
    absent = builder.op("Sub", [builder.ints(1), builder.op("Max", [found, some])])
    before = [builder.ints(*[0] * (rank + axis))]
    behind = [builder.ints(*[0] * (rank - axis - 1))] if axis < rank - 1 else []
    pads = builder.op("Concat", [*before, absent, *behind], {"axis": 0})
    node.replace_input_with(0, builder.op("Pad", [row, pads]))
    node.replace_input_with(1, builder.constant(np.zeros(place, np.int64)))


def reduced_along(node: ir.Node, typing: Typing) -> list[int] | None:
    """Return the axes of a reduction that has no result for no numbers, None for another node."""
    if not is_operator(node, OF_SOMETHING):
        return None
    data, given = operand(node, 0), axes_of(node)
    rank = typing.rank(data)
    if rank is None or typing.dtype(data) not in PADDED:
        return None
    if node.op_type.startswith("Arg"):
        given = [node.attributes.get_int("axis", 0)]
    elif given is None and len(node.inputs) == 1:
        # One of no axes, where they do not stand for all, needs no numbers.
        is_noop = node.attributes.get_int("noop_with_empty_axes", 0)
        given = [] if is_noop else list(range(rank))
    return None if given is None else [axis % rank for axis in given]


def put_zeros_behind(
    builder: Builder, node: ir.Node, some: ir.Value, rank: int, axes: Sequence[int]
) -> None:
    """Let a reduction have zeros to reduce where there are no samples.

    Args:
        builder: Records what comes before the reduction.
        node: The reduction, which is changed.
        some: 1 where there are samples, else 0, int64 ``[1]``.
        rank: The rank of its tensor.
        axes: Its axes.
    """
    absent, none = builder.op("Sub", [builder.ints(1), some]), builder.ints(0)
    behind = [absent if axis in axes else none for axis in range(rank)]
    pads = builder.op("Concat", [builder.ints(*[0] * rank), *behind], {"axis": 0})
    node.replace_input_with(0, builder.op("Pad", [operand(node, 0), pads]))
