"""Rows of each sample by a matrix of that sample: mixtures of experts.

The rows are cut into tiles of as many as a sample has on average, and the matrix of its sample is
gathered for each tile. Lengths ``[1, 5, 0]`` have tiles of 2 rows: one, three and none. However
the lengths differ there are at most twice as many tiles as samples.
"""

from __future__ import annotations

import dataclasses
import math

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.decisions import Code, Decline

__all__ = ["gemm_by_own_matrix", "product_by_own_matrix"]

_LARGEST = 1 << 16
"""From so many numbers in a matrix on a loop over the samples is faster on a CPU."""

_ITERATION, _COPIED, _ONCE = 4.0, 3000, 28.0
"""Microseconds of onnxruntime 1.31 on one core: what a loop takes for a sample; so many numbers
of a matrix are copied for a tile in one; what runs once takes so many."""

_NODE, _PLAIN = 0.25, 8
"""What a loop takes for each further node of a sample; so many are counted in what it takes."""

_ROW, _MOVED = 0.03, 4000
"""What a row takes to be placed, and how many numbers of rows are moved in one."""

_ADDED = 600
"""The same where operators behind the map compute with all rows what a Loop carried, which has
those of one sample in the cache."""

_USUAL = 64
"""What a dimension of a matrix is taken to be that is not known."""


def product_by_own_matrix(ctx: Context, a: Batched, b: Batched) -> Output | None:
    """Return packed rows ``[T, K]`` by stacked matrices ``[B, K, N]``, None for other operands.

    Raises:
        Decline: The matrices are so large that a loop is faster.
    """
    if a.lengths is None or not b.is_stacked or a.beside is not None:
        return None
    if a.rank != 2 or b.rank != 2 or a.axis:
        return None
    lengths, one = a.lengths, ctx.builder.scalar(1)
    _limit(ctx, lengths, b)
    size = _tile_size(ctx, lengths)
    whole = ctx.op("Sub", [ctx.op("Add", [lengths.value, size]), one])
    tiles = Lengths(ctx.builder, ctx.op("Div", [whole, size]))
    products = ctx.op("MatMul", [_tiled(ctx, a.value, lengths, tiles, size), _own(ctx, b, tiles)])
    begins = ctx.op("Gather", [tiles.starts, lengths.samples], {"axis": 0})
    back = ctx.op("Add", [ctx.op("Mul", [begins, size]), lengths.positions])
    return ctx.packed(ctx.op("Gather", [ctx.merged(products), back], {"axis": 0}), lengths)


def _limit(ctx: Context, lengths: Lengths, b: Batched) -> None:
    """Leave to a loop what is faster in one, as far as that is known; an If asks for the rest."""
    if ctx.lacks("Loop"):
        return
    sizes = [d for d in b.dims if isinstance(d, int)]
    saved = _ITERATION + _NODE * max(ctx.nodes - _PLAIN, 0)
    numbers, most = math.prod(sizes), _most_rows(ctx, b, saved)
    if (len(sizes) == 2 and numbers >= _LARGEST) or (ctx.asks_what_pays and most < 1):
        raise Decline(Code.COST, f"matrices of {numbers:,} numbers are faster one by one")
    if ctx.asks_what_pays:
        ctx.limit_rows(lengths, most, math.ceil(_ONCE / saved))


def _most_rows(ctx: Context, b: Batched, saved: float) -> int:
    """Return how many rows a sample may have on average for tiles to be as fast as a loop.

    Args:
        ctx: The body.
        b: The matrices.
        saved: Microseconds that a loop takes for a sample beside its product.
    """
    rows, columns = (d if isinstance(d, int) else _USUAL for d in b.dims)
    if ctx.is_carried:
        share, moved = saved / max(ctx.products, 1), _ADDED
    else:
        share, moved = saved, _MOVED
    left = share - rows * columns / _COPIED
    return int(left / (_ROW + (rows + columns) / moved))


def gemm_by_own_matrix(ctx: Context, node: ir.Node, a: Batched, b: Batched, c: Operand) -> Output:
    """Return ``a [n, K] @ b [K, N] + c`` of each sample, with ``b`` stacked.

    Raises:
        Decline: It scales what it adds, or adds more than a row of each sample.
    """
    if ctx.attribute(node, "transB", 0):
        turned = ctx.op("Transpose", [b.value], {"perm": [0, 2, 1]})
        b = dataclasses.replace(b, value=turned)
    scales = [ctx.attribute(node, name, 1.0) for name in ("alpha", "beta")]
    made = product_by_own_matrix(ctx, a, b)
    if made is None or scales != [1.0, 1.0]:
        raise Decline(Code.NO_RULE, "it scales a product by a matrix of each sample")
    if c is None:
        return made
    if not (c.is_shared or c.is_stacked) or c.rank > 2 or (c.rank == 2 and c.dims[0] != 1):
        raise Decline(Code.RAGGED, "its C meets the axis that differs in length")
    value = c.value
    if c.is_stacked:
        value = ctx.squeeze(value, [1]) if c.rank == 2 else ctx.padded_rank(c, 1)
        assert a.lengths is not None
        value = ctx.op("Gather", [value, a.lengths.samples], {"axis": 0})
    assert a.lengths is not None
    return ctx.packed(ctx.op("Add", [made.value, value]), a.lengths)


def _tile_size(ctx: Context, lengths: Lengths) -> ir.Value:
    """Return the mean length, rounded up, at least 1: int64 ``[1]``."""
    count = ctx.op("Max", [lengths.count, ctx.ints(1)])
    rounded = ctx.op("Sub", [ctx.op("Add", [lengths.total, count]), ctx.ints(1)])
    return ctx.op("Max", [ctx.op("Div", [rounded, count]), ctx.ints(1)])


def _tiled(
    ctx: Context, rows: ir.Value, lengths: Lengths, tiles: Lengths, size: ir.Value
) -> ir.Value:
    """Return the rows in tiles ``[M, S, K]``; behind the last one of a sample stand others."""
    begins = ctx.op("Gather", [lengths.starts, tiles.samples], {"axis": 0})
    first = ctx.op("Add", [begins, ctx.op("Mul", [tiles.positions, size])])
    width = ctx.squeeze(size, [0])
    places = ctx.op("Range", [ctx.builder.scalar(0), width, ctx.builder.scalar(1)])
    last = ctx.op("Sub", [lengths.total, ctx.ints(1)])
    at = ctx.op("Min", [ctx.op("Add", [ctx.unsqueeze(first, [1]), places]), last])
    return ctx.op("Gather", [rows, at], {"axis": 0})


def _own(ctx: Context, matrices: Batched, tiles: Lengths) -> ir.Value:
    """Return the matrix of each tile: ``[M, K, N]``."""
    return ctx.op("Gather", [matrices.value, tiles.samples], {"axis": 0})
