"""What tells lengths and rows of packed samples.

ScatterElements adds what meets in one place from opset 16 on; the other forms are for older ones.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import END, Builder

__all__ = ["ADDS", "counted_by_ends", "samples_by_marks", "samples_by_steps"]

ADDS = 16
"""The first opset in which ScatterElements adds."""


def samples_by_marks(
    builder: Builder, ends: ir.Value, total: ir.Value, count: ir.Value
) -> ir.Value:
    """Return the sample that each row belongs to, int64 ``[T]``.

    That many samples have ended before the row or at it; several end at once where some are
    empty. The last ones end behind the last row.

    Args:
        builder: Records the nodes.
        ends: The row behind the last one of each sample, int64 ``[B]``.
        total: How many rows there are, int64 ``[1]``.
        count: How many samples there are, int64 ``[1]``.
    """
    size = builder.op("Add", [total, builder.ints(1)])
    zero, one = ir.tensor(np.zeros(1, np.int64)), ir.tensor(np.ones(1, np.int64))
    none = builder.op("ConstantOfShape", [size], {"value": zero})
    ones = builder.op("ConstantOfShape", [count], {"value": one})
    ended = builder.op("ScatterElements", [none, ends, ones], {"axis": 0, "reduction": "add"})
    rows = builder.op("Slice", [ended, builder.ints(0), total])
    return builder.op("CumSum", [rows, builder.scalar(0)])


def samples_by_steps(
    builder: Builder, value: ir.Value, starts: ir.Value, total: ir.Value
) -> ir.Value:
    """Return the sample that each row belongs to, int64 ``[T]``.

    Lengths ``[2, 0, 3]``: samples 0 and 2 have rows, from rows 0 and 2 on. The steps 0 and 2
    at these rows, ``[0, 0, 2, 0, 0]``, have the sums ``[0, 0, 2, 2, 2]``.

    Args:
        builder: Records the nodes.
        value: The lengths, int64 ``[B]``.
        starts: The first row of each sample, int64 ``[B]``.
        total: How many rows there are, int64 ``[1]``.
    """
    found = builder.op("NonZero", [value])
    some = builder.op("Squeeze", [found, builder.ints(0)])
    with_zero = builder.op("Concat", [builder.ints(0), some], {"axis": 0})
    before = builder.op("Slice", [with_zero, builder.ints(0), builder.ints(-1)])
    steps = builder.op("Sub", [some, before])
    first = builder.op("Gather", [starts, some], {"axis": 0})
    zero = ir.tensor(np.zeros(1, np.int64))
    none = builder.op("ConstantOfShape", [total], {"value": zero})
    changes = builder.op("ScatterElements", [none, first, steps], {"axis": 0})
    return builder.op("CumSum", [changes, builder.scalar(0)])


def counted_by_ends(builder: Builder, samples: ir.Value, none: ir.Value) -> ir.Value:
    """Count the rows of each sample, where ScatterElements does not add.

    Rows of samples ``[0, 0, 2]`` end behind rows 1 and 2, at 2 and 3: so 2 and 1 are counted for
    samples 0 and 2, and none for any other.

    Args:
        builder: Records the nodes.
        samples: Numbers of samples, ascending, int64 ``[T]``.
        none: A zero for each sample, int64 ``[B]``.
    """
    behind = builder.op("Concat", [samples, builder.ints(-1)], {"axis": 0})
    most = builder.ints(END)
    following = builder.op("Slice", [behind, builder.ints(1), most])
    is_last = builder.op("Not", [builder.op("Equal", [samples, following])])
    last = builder.op("Squeeze", [builder.op("NonZero", [is_last]), builder.ints(0)])
    ends = builder.op("Add", [last, builder.ints(1)])
    with_zero = builder.op("Concat", [builder.ints(0), ends], {"axis": 0})
    before = builder.op("Slice", [with_zero, builder.ints(0), builder.ints(-1)])
    counts = builder.op("Sub", [ends, before])
    found = builder.op("Gather", [samples, last], {"axis": 0})
    return builder.op("ScatterElements", [none, found, counts], {"axis": 0})
