"""Reductions of the rows of all iterations, which also hold for none."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from passes.carried.common.masks import neutral_of
from passes.carried.joined import Joined, covers
from passes.carried.lists.appends import like_initial
from passes.carried.pattern import FLOATS
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_default_domain
from passes.graph.made import operand, operands
from passes.numbers.integer_reads import INTEGERS
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = [
    "are_counts",
    "behind_initial",
    "reduce_rows",
    "rounds_in_order",
    "rows_to_join",
    "truth_of",
]

_NARROW = frozenset(
    {
        *(ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.UINT8),
        *(ir.DataType.INT16, ir.DataType.UINT16),
    }
)
_COUNTS = frozenset({"Shape", "Size", "ArgMax", "ArgMin", "SequenceLength"})
_SAME = frozenset(
    {"CastLike", "Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"}
)


def rounds_in_order(family: str, dtype: ir.DataType) -> bool:
    """Whether totals of an operator depend on the order of what is joined."""
    return dtype in FLOATS and family in ("Add", "Mul")


def are_counts(values: Iterable[ir.Value], typing: Typing) -> bool:
    """Whether the numbers of some values are small: flags, counts, and choices among such.

    Args:
        values: What is summed, in the body of a Loop.
        typing: The proven typing of the body.
    """
    pending = list(values)
    for value in pending:
        known, node = constant_value(value), value.producer()
        if known is not None:
            if known.dtype.kind not in "iu" or np.any(np.abs(known.astype(np.float64)) > _SMALL):
                return False
        elif node is None or not is_default_domain(node):
            return False
        elif node.op_type in _SAME or node.op_type == "Where":
            pending += operands(node)[slice(1, None) if node.op_type == "Where" else slice(1)]
        elif node.op_type not in _COUNTS and not (
            node.op_type == "Cast" and typing.dtype(operand(node, 0)) in _NARROW
        ):
            return False
    return True


_SMALL = 2**20
"""A Loop of 2,000 such numbers fits in 32 bits, and one of billions in a double."""


def reduce_rows(
    joined: Joined,
    rows: ir.Value,
    family: str,
    dtype: ir.DataType,
    *,
    are_counts: bool = False,
    has_rows: bool = False,
) -> ir.Value:
    """Record the reduction of a tensor over axis 0; that of no rows changes no total.

    Args:
        joined: Writes the graph.
        rows: The tensor.
        family: The operator that joins two of its rows.
        dtype: Its element type.
        are_counts: Whether the sum of its rows is surely one that a double holds.
        has_rows: Whether it holds a row however often the Loop runs.
    """
    builder, has_rows = joined.builder, has_rows or joined.runs
    match family:
        case "Add" if dtype in INTEGERS and not are_counts:
            return _exact_sum(joined, rows, dtype, has_rows=has_rows)
        case "Add":
            return joined.reduce("ReduceSum", rows)
        case "Mul":
            return joined.reduce("ReduceProd", rows)
        case "Max" | "Min":
            return _extreme(joined, rows, family, dtype, has_rows=has_rows)
    if family == "Or":
        return _any(joined, rows)
    if family == "And":
        return builder.op("Not", [_any(joined, builder.op("Not", [rows]))])
    numbers = builder.op("Cast", [rows], {"to": int(ir.DataType.INT64)})
    return truth_of(builder, joined.reduce("ReduceSum", numbers), family)


def _any(joined: Joined, flags: ir.Value) -> ir.Value:
    """Record whether a flag of some row is true.

    They are counted in floats, which onnxruntime sums ten times as fast as integers; that a count
    is not 0 is right beyond 2^24, too.
    """
    builder = joined.builder
    numbers = builder.op("Cast", [flags], {"to": int(ir.DataType.FLOAT)})
    return builder.op("Cast", [joined.reduce("ReduceSum", numbers)], {"to": int(ir.DataType.BOOL)})


def behind_initial(joined: Joined, initial: ir.Value, rows: ir.Value) -> ir.Value:
    """Record the rows of all iterations behind an initial value of their shape."""
    builder = joined.builder
    first = builder.op("Unsqueeze", [initial, builder.ints(0)])
    return builder.op("Concat", [first, rows], {"axis": 0})


def _exact_sum(joined: Joined, rows: ir.Value, dtype: ir.DataType, *, has_rows: bool) -> ir.Value:
    """Record the sum of integers over axis 0, which overflows as a sum of two does.

    onnxruntime reduces integers as doubles: what is beyond 53 bits is lost, and what is beyond
    the type is its largest number.
    """
    builder = joined.builder
    if dtype == ir.DataType.INT32:
        wide = builder.op("Cast", [rows], {"to": int(ir.DataType.INT64)})
        return builder.op("Cast", [joined.reduce("ReduceSum", wide)], {"to": int(dtype)})
    padded = rows if has_rows else _with_neutral_row(builder, rows, "Add", dtype)
    return joined.last_of(builder.op("CumSum", [padded, builder.scalar(0)]))


def rows_to_join(joined: Joined, carried: Carried, at: int) -> ir.Value:
    """Record a term of all iterations; of no iteration, with the shape of the initial value.

    A term may be larger than the initial value: the first iteration makes that as large.

    Raises:
        NotAMapError: A term may have more axes, or their number is not known.
    """
    builder, rows, dims = joined.builder, joined.values[at], joined.types[at].dims
    rank = joined.typing.rank(carried.initial)
    if joined.runs or covers(joined.typing, carried.initial, dims):
        return rows
    if dims is None or rank is None or len(dims) > rank:
        joined.needs_shape(at, carried)
        return rows
    if len(dims) < rank:
        axes = range(1, 1 + rank - len(dims))
        rows = builder.op("Unsqueeze", [rows, builder.ints(*axes)])
    first = builder.op("Unsqueeze", [carried.initial, builder.ints(0)])
    return like_initial(builder, first, rows, rank + 1, 0)


def truth_of(builder: Builder, total: ir.Value, family: str) -> ir.Value:
    """Record what a count says: of flags that are true, of those that are not for ``And``."""
    match family:
        case "And":
            return builder.op("Equal", [total, builder.scalar(0)])
        case "Or":
            return builder.op("Greater", [total, builder.scalar(0)])
    odd = builder.op("Mod", [total, builder.scalar(2)])
    return builder.op("Cast", [odd], {"to": int(ir.DataType.BOOL)})


def _extreme(
    joined: Joined, rows: ir.Value, family: str, dtype: ir.DataType, *, has_rows: bool
) -> ir.Value:
    """Record the extreme over axis 0; a NaN in a row makes it NaN, as Max and Min have it.

    Runtimes differ on the extreme of no rows, and onnxruntime's ReduceMax passes over a NaN that
    does not come first. A sum of absolute values is NaN for that alone: infinities do not cancel.
    No row is larger than it, so that a maximum is the less of both.
    """
    builder = joined.builder
    padded = rows if has_rows else _with_neutral_row(builder, rows, family, dtype)
    found = joined.reduce(f"Reduce{family}", padded)
    if dtype not in FLOATS:
        return found
    sizes = joined.reduce("ReduceL1", rows)
    if family == "Max":
        return builder.op("Min", [found, sizes])
    return builder.op("Where", [builder.op("IsNaN", [sizes]), sizes, found])


def _with_neutral_row(
    builder: Builder, rows: ir.Value, family: str, dtype: ir.DataType
) -> ir.Value:
    """Record a row that changes no extreme in front of the others."""
    neutral = np.array([neutral_of(family, dtype)], dtype.numpy())
    rest = builder.shape(rows, 1)
    shape = builder.op("Concat", [builder.ints(1), rest], {"axis": 0})
    row = builder.op("ConstantOfShape", [shape], {"value": ir.tensor(neutral)})
    return builder.op("Concat", [row, rows], {"axis": 0})
