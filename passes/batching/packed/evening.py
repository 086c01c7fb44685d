"""Packed samples that are proven to be equally long, stacked.

Lengths ``[2, 2]``: four rows ``[4, *rest]`` are ``[2, 2, *rest]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.layouts import Batched
from passes.batching.operators import Operators
from passes.batching.packed.checks import declared_without_samples, failing_where

__all__ = ["evened", "stacked_alike"]


def evened(ctx: Context, output: Output, rank: int | None) -> Output:
    """Return a packed output stacked if its samples are proven to be equally long, else as it is.

    Samples of ``[2, 0, 3]`` rows that were padded to 5 lie one behind the other, ``[15, *rest]``:
    the elements of ``[3, 5, *rest]``.

    Args:
        ctx: The context.
        output: An output of a rule.
        rank: The rank of a sample, None if it is not known.
    """
    lengths = output.lengths
    if lengths is None or rank is None or output.beside is not None:
        return output
    if not ctx.numbers.is_shared(lengths.size):
        return output
    size = ctx.numbers.write(ctx, lengths.size)
    return ctx.stacked(_stacked(ctx, output.value, [lengths.count, size], output.axis, rank))


def stacked_alike(ops: Operators, x: Batched, dims: Sequence[int | str | None] | None) -> ir.Value:
    """Return packed samples stacked; it is an error at run time if their lengths differ.

    Args:
        ops: Records the nodes.
        x: The samples.
        dims: The declared dimensions of a sample.
    """
    lengths = x.lengths
    assert lengths is not None
    differs = ops.op("Not", [ops.op("Equal", [lengths.value, lengths.longest])])
    count = ops.op("Shape", [failing_where(ops, lengths.value, [differs])])
    declared = () if dims is None else (dims[x.axis],)
    longest = declared_without_samples(ops, count, lengths.longest, declared)
    return _stacked(ops, x.value, [count, longest], x.axis, x.rank)


def _stacked(
    ops: Operators, value: ir.Value, sides: Sequence[ir.Value], axis: int, rank: int
) -> ir.Value:
    """Reshape ``[*before, T, *rest]`` to ``[B, *before, L, *rest]``.

    Args:
        ops: Records the nodes.
        value: The packed samples.
        sides: ``B`` and ``L``, int64 ``[1]``.
        axis: The axis of size ``T``.
        rank: The rank of a sample.
    """
    sizes = [ops.shape(value, 0, axis)] * (axis > 0) + [*sides]
    sizes += [ops.shape(value, axis + 1)] * (axis + 1 < rank)
    value = ops.reshape(value, ops.op("Concat", sizes, {"axis": 0}))
    if not axis:
        return value
    order = [axis, *(i for i in range(rank + 1) if i != axis)]
    return ops.op("Transpose", [value], {"perm": order})
