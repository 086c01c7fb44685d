"""Checks, in the graph, for what would fail on a single sample.

Where lengths ``[2, 3]`` have to be ``[2, 4]``, one sample differs: two numbers cannot be reshaped
to ``2 + 1``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.layouts import Batched, lengths_in
from passes.batching.lengths import Lengths
from passes.batching.operators import Operators
from passes.numbers.integers import Least
from passes.numbers.number_order import sole_atom

__all__ = [
    "broadcast_lengths",
    "common_lengths",
    "declared_without_samples",
    "equally_long",
    "failing_where",
    "is_single",
]


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


def broadcast_lengths(ops: Operators, one: Lengths, other: Lengths) -> Lengths:
    """Return the lengths of samples that are broadcast; an error at run time if two do not fit."""
    whole = _uncut(one, other)
    if whole is not None:
        differs = ops.op("Not", [ops.op("Equal", [one.value, other.value])])
        return whole.checked(ops.builder, failing_where(ops, whole.value, [differs]))
    first, second = is_single(ops, one), is_single(ops, other)
    fits = ops.op("Or", [ops.op("Equal", [one.value, other.value]), ops.op("Or", [first, second])])
    size = ops.op("Where", [first, other.value, one.value])
    return Lengths(ops.builder, failing_where(ops, size, [ops.op("Not", [fits])]))


def _uncut(one: Lengths, other: Lengths) -> Lengths | None:
    """Return the lengths that the others are cut from, to two rows or more; None if neither is.

    ``min(L, 512)`` rows, as of the first L positions of a table, and L rows broadcast only where
    they are equal: 512 is not 1, and where L is 1, so is its minimum.
    """
    for cut, whole in ((one, other), (other, one)):
        atom = sole_atom(cut.size)
        if isinstance(atom, Least) and whole.size in atom.members:
            others = atom.members - {whole.size}
            if all(n.number is not None and n.number > 1 for n in others):
                return whole
    return None


def is_single(ops: Operators, lengths: Lengths) -> ir.Value:
    """Return whether samples have one row, ``bool[B]``."""
    return ops.op("Equal", [lengths.value, ops.builder.scalar(1)])


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


def declared_without_samples(
    ops: Operators, count: ir.Value, sizes: ir.Value, dims: Sequence[int | str | None]
) -> ir.Value:
    """Return the sizes that all samples have; where there is no sample, those that are declared.

    A Loop that never runs yields the declared sizes of a scan output too.

    Args:
        ops: Records the nodes.
        count: The number of samples, int64 ``[1]``.
        sizes: Sizes that were found in the samples, int64 ``[n]``.
        dims: What is declared of these n.
    """
    is_known = [isinstance(d, int) for d in dims]
    if not any(is_known):
        return sizes
    takes = ops.op("Equal", [count, ops.ints(0)])
    if not all(is_known):
        takes = ops.op("And", [takes, ops.builder.constant(np.array(is_known))])
    declared = ops.ints(*(d if isinstance(d, int) else 0 for d in dims))
    return ops.op("Where", [takes, declared, sizes])
