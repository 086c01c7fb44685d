"""Integers of 64 bits that fit in 32, by what computes them.

Counts of what a model holds in memory, and what is computed of them, are taken to fit. Any number
fits that was clamped between two that do: ``Min (Max (x, 0), count)``.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_default_domain, is_operator
from passes.graph.made import operand, operands
from passes.runtimes.types import Types

__all__ = ["is_small"]

_HALF = 2**31
_COUNTS = frozenset({"Shape", "Size", "NonZero", "ArgMax", "ArgMin", "SequenceLength"})
"""Operators whose results are counts or positions."""

_OF_ALL = ("Add", "Concat", "Div", "Max", "Min", "Mod", "Mul", "Range", "Sub")
_OF_FIRST = (
    *("Compress", "CumSum", "Expand", "Flatten", "Gather", "GatherElements", "Identity"),
    *("ReduceMax", "ReduceMin", "ReduceSum", "Reshape", "Slice", "Split", "Squeeze"),
    *("Tile", "TopK", "Transpose", "Unsqueeze"),
)
_NUMBERS_READ = {
    **dict.fromkeys(_OF_ALL, slice(None)),
    **dict.fromkeys(_OF_FIRST, slice(1)),
    "Where": slice(1, None),
    "ScatterElements": slice(0, None, 2),
}
"""Operators whose results are counts where the inputs at these positions are."""

_IN_PLACE = frozenset(
    {
        *("Concat", "Gather", "Identity", "Max", "Min", "Reshape", "Slice", "Squeeze"),
        *("Unsqueeze", "Where"),
    }
)
"""Operators that compute no other numbers: one side of what they read bounds that side."""

_Bounded: TypeAlias = dict[tuple[ir.Value, str], bool]
"""Whether a value fits in 32 bits on the side that an operator bounds."""

_NARROW = frozenset(
    {
        *(ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16),
        *(ir.DataType.UINT16, ir.DataType.INT32),
    }
)


def is_small(value: ir.Value, types: Types) -> bool:
    """Whether all numbers of a value fit in 32 bits, where counts do."""
    known: _Bounded = {}
    return all(_is_bounded(value, by, types, known) for by in ("Max", "Min"))


def _is_bounded(value: ir.Value, by: str, types: Types, known: _Bounded) -> bool:
    """Whether all numbers of a value fit in 32 bits on one side.

    Args:
        value: The value.
        by: The operator that would bound it: Min above, Max below.
        types: The types of the model.
        known: What is known of values; it gains what is asked for.
    """
    if (value, by) in known:
        return known[value, by]
    pending = [(value, by)]
    seen = set[tuple[ir.Value, str]]()
    is_bounded = True
    while pending and is_bounded:
        one, side = pending.pop()
        if (one, side) in seen:
            continue
        seen.add((one, side))
        node = one.producer()
        if is_operator(node, side) and constant_value(one) is None:
            is_bounded = any(_is_bounded(v, side, types, known) for v in operands(node))
            continue
        read = _read_for_bounds(one, types)
        if read is None:
            is_bounded = False
        elif is_operator(node, _IN_PLACE):
            pending += [(v, side) for v in read]
        else:
            pending += [(v, either) for v in read for either in ("Max", "Min")]
    known[value, by] = is_bounded
    return is_bounded


def _read_for_bounds(value: ir.Value, types: Types) -> list[ir.Value] | None:
    """Return the values that must fit in 32 bits for a value to do; None if they do not help."""
    known, node = constant_value(value), value.producer()
    if known is not None:
        return [] if known.dtype.kind in "biu" and _fits(known) else None
    if node is None:
        return [] if types.is_iteration(value) or types.is_given_size(value) else None
    if not is_default_domain(node):
        return None
    if node.op_type == "Cast":
        return [] if types.dtype(operand(node, 0)) in _NARROW else None
    if node.op_type in _NUMBERS_READ and value is node.outputs[0]:
        return operands(node)[_NUMBERS_READ[node.op_type]]
    if node.op_type == "ConstantOfShape":
        fill = node.attributes.get_tensor("value")
        return [] if fill is None or _fits(fill.numpy()) else None
    is_count = node.op_type in _COUNTS or (node.op_type == "TopK" and value is node.outputs[1])
    return [] if is_count else None


def _fits(numbers: np.ndarray) -> bool:
    return not numbers.size or (numbers.min() >= -_HALF and numbers.max() < _HALF)
