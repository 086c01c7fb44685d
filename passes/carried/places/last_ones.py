"""Numbers sorted by key, and the last one of all that have one place.

Sorted by place, and those of one place from the last one down, the first of each place is the
last one that has it.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.builder import Builder

__all__ = ["OLDEST_SCATTER", "SortedByKey", "last_ones", "sorted_by_key"]


OLDEST_SCATTER = 18
"""The first opset in which a scatter keeps the largest number that goes to a place."""


def last_ones(builder: Builder, rows: ir.Value, size: ir.Value | None = None) -> ir.Value:
    """Record the numbers of those places that no later one equals, in any order.

    Args:
        builder: Records it.
        rows: The places, ``[m]``, none of them negative.
        size: How many places there are, ``[1]``; none of those given is larger. With it nothing is
            sorted: one scatter tells each place who comes last.
    """
    if size is None:
        sorted_ = sorted_by_key(builder, rows, largest=True)
        return builder.op("Compress", [sorted_.order, sorted_.begins], {"axis": 0})
    count = builder.op("Shape", [rows])
    numbers = builder.arange(builder.op("Squeeze", [count, builder.ints(0)]))
    nobody = builder.op("Expand", [builder.scalar(-1), size])
    attributes = {"axis": 0, "reduction": "max"}
    last = builder.op("ScatterElements", [nobody, rows, numbers], attributes)
    is_last = builder.op("Equal", [builder.op("Gather", [last, rows], {"axis": 0}), numbers])
    return builder.op("Compress", [numbers, is_last], {"axis": 0})


@dataclasses.dataclass(frozen=True)
class SortedByKey:
    """Numbers from 0 on, sorted by a key of each, and those of one key by themselves.

    Of the keys ``[1, 0, 1]`` the order is ``[1, 0, 2]``, and one begins at the first two.

    Attributes:
        count: How many they are, ``[1]``.
        numbers: The numbers in front of the sort, ``[n]``.
        order: The numbers in order, ``[n]``.
        keys: The key of each in that order, ``[n]``.
        begins: Where in that order another key begins, ``bool[n]``.
    """

    count: ir.Value
    numbers: ir.Value
    order: ir.Value
    keys: ir.Value
    begins: ir.Value


def sorted_by_key(builder: Builder, keys: ir.Value, *, largest: bool = False) -> SortedByKey:
    """Record an order of numbers by their keys, ``[n]``, none of them negative.

    Args:
        builder: Records it.
        keys: The keys.
        largest: Whether the order is turned round as a whole.
    """
    none, count = builder.ints(0), builder.op("Shape", [keys])
    many = builder.op("Squeeze", [count, none])
    numbers = builder.arange(many)
    ranked = builder.op("Add", [builder.op("Mul", [keys, many]), numbers])
    options = {"axis": 0, "largest": int(largest)}
    _, order = builder.node("TopK", [ranked, count], options, outputs=2).outputs
    now = builder.op("Gather", [keys, order], {"axis": 0})
    before = builder.op("Concat", [builder.ints(-1), now], {"axis": 0})
    before = builder.op("Slice", [before, none, count])
    begins = builder.op("Not", [builder.op("Equal", [before, now])])
    return SortedByKey(count, numbers, order, now, begins)
