"""Checks, in the graph, for what would fail on a single sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.layouts import Batched, lengths_in
from passes.batching.lengths import Lengths
from passes.batching.operators import Operators

__all__ = ["common_lengths", "equally_long", "failing_where"]


def equally_long(ops: Operators, operands: Sequence[Batched | None]) -> list[Batched | None]:
    """Return operands that an operator takes only if they are equally long, as such.

    It is an error at run time if they are not.
    """
    found = lengths_in(operands)
    if not found:
        return list(operands)
    checked = common_lengths(ops, found)
    if all(checked.equal(other) for other in found):
        return list(operands)
    return [
        x if x is None or x.lengths is None else dataclasses.replace(x, lengths=checked)
        for x in operands
    ]


def common_lengths(ops: Operators, found: Sequence[Lengths]) -> Lengths:
    """Return the lengths that samples have in common; an error at run time if they differ."""
    first, others = found[0], [other for other in found[1:] if not found[0].equal(other)]
    if not others:
        return first
    flags = [ops.op("Not", [ops.op("Equal", [first.value, x.value])]) for x in others]
    return first.checked(ops.builder, failing_where(ops, first.value, flags))


def failing_where(ops: Operators, value: ir.Value, flags: Sequence[ir.Value]) -> ir.Value:
    """Return a value that is an error at run time if a flag of any sample is set.

    Reshape fails, since the target has more elements than the value. Without samples no flag
    is set.

    Args:
        ops: Records the nodes.
        value: A number of each sample, ``[B]``.
        flags: Flags of each sample, ``bool[B]``; none leave the value as it is.
    """
    if not flags:
        return value
    bad = flags[0]
    for flag in flags[1:]:
        bad = ops.op("Or", [bad, flag])
    number = ops.op("Cast", [bad], {"to": ir.DataType.INT64})
    count = ops.reduce("ReduceSum", number, [0])
    return ops.op("Reshape", [value, ops.op("Add", [ops.op("Shape", [value]), count])])
