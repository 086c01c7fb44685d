"""Products over the axis in which samples differ in length, and with a vector of each sample.

Weights ``[Q, n]`` times values ``[n, V]``, as pooling by attention has them, sum over the rows of
a sample: ``[Q, V]`` of each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output, Rule
from passes.batching.layouts import Batched, Layout
from passes.batching.packed.checks import common_lengths
from passes.batching.packed.experts import product_by_own_matrix
from passes.batching.packed.padding import padded, zero_of
from passes.batching.packed.prefixes import product_with_first_rows
from passes.batching.packed.segments import segment, with_lengths_in_front
from passes.batching.packed.spread_rows import spread

__all__ = ["inner_products"]

_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
_WASTE = 4
"""The numbers of all rows may be as many times those of both operands."""


def inner_products(otherwise: Rule) -> Rule:
    """Make the rule of MatMul.

    Args:
        otherwise: The rule for all other products.
    """

    def multiply(
        ctx: Context, node: ir.Node, operands: Sequence[Operand]
    ) -> Sequence[Output | None]:
        a, b = ctx.operand(operands, 0, "A"), ctx.operand(operands, 1, "B")
        product = product_with_first_rows(ctx, node, a, b) or _inner_product(ctx, a, b)
        return otherwise(ctx, node, operands) if product is None else [product]

    return multiply


def _inner_product(ctx: Context, a: Batched, b: Batched) -> Output | None:
    """Return a product over the rows of samples, or of rows and a vector; None for others."""
    if a.beside is not None or b.beside is not None:
        return None
    if a.is_packed and b.is_packed:
        return _over_rows(ctx, a, b)
    if b.is_stacked and b.rank == 1 and (a.rank, a.axis) == (2, 0):
        return _with_vector(ctx, a, b)
    if a.is_stacked and b.rank == 2 and b.axis == 1:
        rows = with_lengths_in_front(ctx, b)
        return _with_vector(ctx, rows, a) if a.rank == 1 else _with_matrix(ctx, a, rows)
    return None


def _over_rows(ctx: Context, a: Batched, b: Batched) -> Output | None:
    """Return ``[Q, n] @ [n, V]`` of each sample; either may be a vector ``[n]``."""
    dtype = a.dtype
    if max(a.rank, b.rank) > 2 or a.axis != a.rank - 1 or b.axis or dtype not in _FLOATS:
        return None
    lengths = common_lengths(ctx, [a.own_lengths, b.own_lengths])
    left, right = with_lengths_in_front(ctx, a).value, b.value
    sizes = [x.dims[1 - x.axis] for x in (a, b) if x.rank == 2]
    if len(sizes) == 2 and not _is_small(sizes[0], sizes[1]):
        width = lengths.width
        ctx.limit_padding(a)
        left, right = (padded(ctx, v, lengths, width, zero_of(a)) for v in (left, right))
        turned = ctx.op("Transpose", [left], {"perm": [0, 2, 1]})
        return ctx.stacked(ctx.op("MatMul", [turned, right]))
    if a.rank == 2 and b.rank == 2:
        left, right = ctx.unsqueeze(left, [2]), ctx.unsqueeze(right, [1])
    elif a.rank == 2:
        right = ctx.unsqueeze(right, [1])
    elif b.rank == 2:
        left = ctx.unsqueeze(left, [1])
    products = ctx.op("Mul", [left, right])
    return ctx.stacked(segment(ctx, products, lengths, "add", dtype, [None, *sizes]))


def _is_small(one: int | str | None, other: int | str | None) -> bool:
    """Whether the product of each row takes no more than a few times what the row holds."""
    if not isinstance(one, int) or not isinstance(other, int):
        return False
    return one * other <= _WASTE * (one + other)


def _with_vector(ctx: Context, rows: Batched, vector: Batched) -> Output:
    """Return ``[n, K] @ [K]`` of each sample."""
    lengths = rows.own_lengths
    own = spread(ctx, vector.value, lengths)
    size = rows.dims[1]
    if isinstance(size, int) and vector.dims == (size,):
        products = ctx.op("Mul", [rows.value, own])
        return ctx.packed(ctx.reduce("ReduceSum", products, [1], keepdims=False), lengths)
    factors = [ctx.unsqueeze(rows.value, [1]), ctx.unsqueeze(own, [2])]
    return ctx.packed(ctx.squeeze(ctx.op("MatMul", factors), [1, 2]), lengths)


def _with_matrix(ctx: Context, a: Batched, rows: Batched) -> Output | None:
    """Return ``[Q, K] @ [K, n]`` of each sample by its rows ``[n, K]``."""
    if a.rank != 2:
        return None
    turned = ctx.op("Transpose", [a.value], {"perm": [0, 2, 1]})
    type_ = dataclasses.replace(a.type, dims=a.dims[::-1])
    found = product_by_own_matrix(ctx, rows, Batched(Layout.STACKED, turned, type_))
    if found is None:
        return None
    value: ir.Value = ctx.op("Transpose", [found.value], {"perm": [1, 0]})
    return ctx.packed(value, rows.own_lengths, 1)
