"""Running products and extremes of a known number of iterations.

Row ``i`` holds the total of so many rows up to ``i``, and of twice as many in each step. For the
running maximum ``[1, 3, 2, 0]`` becomes ``[1, 3, 3, 2]`` in the step of one row, and
``[1, 3, 3, 3]`` in that of two.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import Joined
from passes.decisions import Code
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError

__all__ = ["running"]

_MOST = 4096
"""So many iterations take twelve steps; each reads and writes all rows."""


def running(
    joined: Joined, carried: Carried, rows: ir.Value, family: str, *, is_after: bool
) -> ir.Value:
    """Record the totals of all iterations, joined to the initial value.

    Args:
        joined: Writes the graph.
        carried: The carried value.
        rows: What each iteration joins to it.
        family: The operator that joins two totals.
        is_after: The totals at the end of each iteration, and not at its start.

    Raises:
        NotAMapError: The number of iterations is not known, or too large.
    """
    builder, count = joined.builder, joined.trips.number.number
    if not joined.runs or count is None or count > _MOST:
        detail = f"'{carried.inner.name}' is read, and how many iterations there are is not known"
        raise NotAMapError(Code.RECURRENCE, detail, carried.next.producer())
    own = builder.op("Shape", [carried.initial])
    shape = builder.op("Concat", [builder.ints(count), own], {"axis": 0})
    first = builder.op("Unsqueeze", [carried.initial, builder.ints(0)])
    whole = builder.op("Concat", [first, builder.op("Expand", [rows, shape])], {"axis": 0})
    step, end = 1, int(np.iinfo(np.int64).max)

    def cut(start: int, stop: int) -> ir.Value:
        bounds = [builder.ints(start), builder.ints(stop), builder.ints(0)]
        return builder.op("Slice", [whole, *bounds])

    while step <= count:
        totals = builder.op(family, [cut(0, -step), cut(step, end)])
        whole = builder.op("Concat", [cut(0, step), totals], {"axis": 0})
        step *= 2
    return cut(1, end) if is_after else cut(0, -1)
