"""What tells lengths and rows of packed samples where no operator adds what meets in one place.

ScatterElements adds from opset 16 on.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import END, Builder

__all__ = ["counted_by_ends", "samples_by_steps"]


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
