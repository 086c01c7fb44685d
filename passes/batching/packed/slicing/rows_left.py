"""The number of rows that a Slice leaves of a sample, as a sum of lengths and numbers.

``x[1:]`` leaves ``max(n - 1, 0)`` of ``n`` rows, and ``x[:3]`` leaves ``min(n, 3)``.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.sizes import difference
from passes.graph.whole_slices import END
from passes.numbers.integers import Linear
from passes.numbers.number_order import greatest, is_nonnegative, least

__all__ = ["rows_left"]


def rows_left(
    ctx: Context, node: ir.Node, size: Linear, place: int = 0
) -> Linear | tuple[Linear, ...] | None:
    """Return how many rows of a sample a Slice in steps of 1 leaves, or what tells it.

    Args:
        ctx: The context.
        node: The node.
        size: How many rows a sample has.
        place: Which of its bounds are those along the axis of different lengths.

    Returns:
        The number; where the sign of a bound is not known, bounds and size; None if they are
        not known.
    """
    found = [ctx.numbers.of(v) for v in node.inputs[1:3]]
    if any(numbers is None or place >= len(numbers) for numbers in found):
        return None
    first, last = (numbers[place] for numbers in found if numbers is not None)
    begin, end = (_from_front(n, size) for n in (first, last))
    if begin is None or end is None:
        return first, last, size
    # Behind the last row nothing begins: what is left is not less than none.
    return greatest([difference(least([end, size]), begin), Linear()])


def _from_front(bound: Linear, size: Linear) -> Linear | None:
    """Return a bound of a sample as counted from its first row; None if its sign is not known."""
    if bound.number is not None and bound.number >= END:
        return size
    if is_nonnegative(bound):
        return bound
    if bound.number is not None:
        return greatest([size + bound, Linear()])
    return None
