"""Sizes of samples that are not proven to fit, and have to when the model runs.

Two lists of images, a mask for each image, ``x[1:] - x[:-1]`` by bounds that nothing compares:
an operator takes sizes that are equal, and broadcasts one place to any number of places. Sizes
``[4, 1, 1]`` and ``[4, 3, 1]`` are broadcast to ``[4, 3, 1]``; 4 and 3 are an error, as they are
for the sample alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.flat.grid import Grid, Side
from passes.batching.flat.rows_read import Read
from passes.batching.lengths import Lengths
from passes.batching.operators import Operators
from passes.batching.packed.checks import broadcast_lengths, failing_where, is_single
from passes.decisions import Code, Decline

__all__ = ["alike", "are_equal", "broadcast", "place_read"]


def are_equal(one: Side, other: Side) -> bool:
    """Whether two dimensions are one number for each sample, by proof."""
    if isinstance(one, Lengths) and isinstance(other, Lengths):
        return one.equal(other)
    return one == other


def broadcast(ops: Operators, one: Side, other: Side) -> Side:
    """Return the size of samples that are broadcast; it is an error at run time if two do not fit.

    Raises:
        Decline: All samples have one number along the axis on one side, and not on the other.
    """
    if one == 1 or are_equal(one, other):
        return other
    if other == 1:
        return one
    if not (isinstance(one, Lengths) and isinstance(other, Lengths)):
        raise Decline(Code.RAGGED, "its operands are not proven to have the same sizes")
    return broadcast_lengths(ops, one, other)


def alike(ops: Operators, sides: Sequence[Side]) -> Side:
    """Return the size that samples have in common; an error at run time if they differ.

    Raises:
        Decline: They differ in all samples.
    """
    first = next((side for side in sides if isinstance(side, Lengths)), sides[0])
    others = [side for side in sides if not are_equal(first, side)]
    if not others:
        return first
    if not isinstance(first, Lengths):
        raise Decline(Code.RAGGED, "its operands differ in size")
    values = [s.value if isinstance(s, Lengths) else ops.ints(s) for s in others]
    flags = [ops.op("Not", [ops.op("Equal", [first.value, value])]) for value in values]
    return first.checked(ops.builder, failing_where(ops, first.value, flags))


def place_read(ops: Operators, grid: Grid, axis: int, own: Side) -> Read:
    """Return the place that each row of broadcast samples reads along an axis of an operand.

    Args:
        ops: Records the nodes.
        grid: The grid of the broadcast samples.
        axis: The axis of that grid.
        own: The size of the operand's samples.

    """
    if own == 1:
        return None
    if not isinstance(own, Lengths) or are_equal(own, grid.side(axis)):
        return axis
    several = ops.op("Cast", [ops.op("Not", [is_single(ops, own)])], {"to": ir.DataType.INT64})
    return ops.op(
        "Mul", [grid.place(axis), ops.op("Gather", [several, grid.rows.samples], {"axis": 0})]
    )
