"""Rows of each sample by a matrix of that sample: mixtures of experts.

The rows are cut into tiles, and the matrix of its sample is gathered for each tile. A tile has
place for one row more than a sample has on average, rounded down: lengths ``[1, 5, 0]`` have tiles
of 3 rows, one, two and none, for which the matrices of the samples ``[0, 1, 1]`` are gathered.
However the lengths differ there are at most twice as many tiles as samples.
"""

from __future__ import annotations

import dataclasses
import math

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.decisions import Code, Decline
from passes.graph.builder import Builder
from passes.graph.drafts import recorded

__all__ = ["gemm_by_own_matrix", "product_by_own_matrix"]


class Tiles:
    """How packed rows lie in tiles; what follows is recorded when it is first asked for."""

    def __init__(self, builder: Builder, lengths: Lengths) -> None:
        """Describe the tiles of samples.

        Args:
            builder: Records what follows; it comes before all readers.
            lengths: How many rows each sample has.
        """
        self._builder = builder
        self._lengths = lengths

    @property
    def samples(self) -> ir.Value:
        """The sample that each tile belongs to, int64 ``[M]``."""
        return self._counts.samples

    @recorded
    def rows(self) -> ir.Value:
        """The row at each place of each tile, int64 ``[M, S]``.

        Behind the last row of a sample stand others.
        """
        first = self._op("Mul", self._range(self._counts.total), self._size)
        first = self._op("Add", self._op("Gather", self._shift, self.samples), first)
        at = self._op("Unsqueeze", first, self._builder.ints(1))
        at = self._op("Add", at, self._range(self._size))
        return self._op("Min", at, self._op("Sub", self._lengths.total, self._builder.ints(1)))

    @recorded
    def places(self) -> ir.Value:
        """The place of each row among those of all tiles, int64 ``[T]``."""
        shift = self._op("Gather", self._shift, self._lengths.samples)
        return self._op("Sub", self._range(self._lengths.total), shift)

    @recorded
    def _mean(self) -> ir.Value:
        """How many rows a sample has on average, rounded down, int64 ``[1]``."""
        count = self._op("Max", self._lengths.count, self._builder.ints(1))
        return self._op("Div", self._lengths.total, count)

    @recorded
    def _size(self) -> ir.Value:
        """How many places a tile has, int64 ``[1]``."""
        return self._op("Add", self._mean, self._builder.ints(1))

    @recorded
    def _counts(self) -> Lengths:
        """How many tiles each sample has."""
        rounded = self._op("Add", self._lengths.value, self._mean)
        return Lengths(self._builder, self._op("Div", rounded, self._size))

    @recorded
    def _shift(self) -> ir.Value:
        """By how much the rows of each sample lie behind their places, int64 ``[B]``."""
        places = self._op("Mul", self._counts.starts, self._size)
        return self._op("Sub", self._lengths.starts, places)

    def _range(self, count: ir.Value) -> ir.Value:
        """Count up to a number that is an int64 ``[1]``."""
        builder = self._builder
        end = self._op("Squeeze", count, builder.ints(0))
        return self._op("Range", builder.scalar(0), end, builder.scalar(1))

    def _op(self, op_type: str, *inputs: ir.Value) -> ir.Value:
        attributes = {"axis": 0} if op_type == "Gather" else None
        return self._builder.op(op_type, list(inputs), attributes)


_LARGEST = 1 << 16
"""From so many numbers in a matrix on a loop over the samples is faster on a CPU."""

# Microseconds of onnxruntime 1.32 on one core.

_ITERATION, _NODE = 2.3, 0.3
"""What a loop takes for a sample, and for each node of it."""

_ONCE, _WRITTEN = 30.0, 0.4
"""What runs once takes so many, and each node in front of it."""

_COPIED, _LEAST = 5000, 0.5
"""So many numbers of a matrix are copied for a tile in one; what a tile takes at least."""

_ROW, _MULTIPLIED = 0.02, 75_000
"""What a row takes to be placed; so many multiplications of a row, and of what fills its tile,
are made in one."""

_ADDED = 600
"""So many numbers of rows take one where operators behind the map compute with all rows what a
Loop carried, which has those of one sample in the cache."""

_USUAL = 64
"""What a dimension of a matrix is taken to be that is not known."""


def product_by_own_matrix(ctx: Context, a: Batched, b: Batched) -> Output | None:
    """Return packed rows ``[T, K]`` by stacked matrices ``[B, K, N]``, None for other operands.

    Raises:
        Decline: The matrices are so large that a loop is faster.
    """
    if not b.is_stacked or a.beside is not None:
        return None
    assert a.lengths is not None, "one of them is packed"
    if a.rank != 2 or b.rank != 2 or a.axis:
        return None
    _limit(ctx, a.lengths, b)
    tiles = a.lengths.once(Tiles)
    rows = ctx.op("Gather", [a.value, tiles.rows], {"axis": 0})
    matrices = ctx.op("Gather", [b.value, tiles.samples], {"axis": 0})
    products = ctx.merged(ctx.op("MatMul", [rows, matrices]), (None, b.dims[1]))
    return ctx.packed(ctx.op("Gather", [products, tiles.places], {"axis": 0}), a.lengths)


def _limit(ctx: Context, lengths: Lengths, b: Batched) -> None:
    """Leave to a loop what is faster in one, as far as that is known; an If asks for the rest."""
    if ctx.lacks("Loop"):
        return
    sizes = [d for d in b.dims if isinstance(d, int)]
    numbers, saved, row = math.prod(sizes), _saved(ctx, b), _for_a_row(ctx, b)
    most = int(saved / row)
    if (len(sizes) == 2 and numbers >= _LARGEST) or (ctx.asks_what_pays and most < 1):
        raise Decline(Code.COST, f"matrices of {numbers:,} numbers are faster one by one")
    if ctx.asks_what_pays:
        before = sum(node.op_type != "Constant" for node in ctx.builder.nodes)
        once = _ONCE + _WRITTEN * before
        ctx.limit_rows(lengths, most, without=int(once / row), few=int(once / saved))


def _saved(ctx: Context, b: Batched) -> float:
    """Return the microseconds by which a sample without rows is faster than in a loop."""
    copied = max(math.prod(_shape(b)) / _COPIED, _LEAST)
    return _ITERATION + _NODE * ctx.nodes - max(ctx.products, 1) * copied


def _for_a_row(ctx: Context, b: Batched) -> float:
    """Return the microseconds by which a row is slower than in a loop."""
    row = _ROW + math.prod(_shape(b)) / _MULTIPLIED
    added = sum(_shape(b)) / _ADDED if ctx.is_carried else 0.0
    return max(ctx.products, 1) * (row + added)


def _shape(b: Batched) -> list[int]:
    """Return the shape of a matrix, as far as it is known."""
    return [d if isinstance(d, int) else _USUAL for d in b.dims]


def gemm_by_own_matrix(ctx: Context, node: ir.Node, a: Batched, b: Batched, c: Operand) -> Output:
    """Return ``a [n, K] @ b [K, N] + c`` of each sample, with ``b`` stacked.

    Raises:
        Decline: It scales what it adds, or adds more than a row of each sample.
    """
    if ctx.attribute(node, "transB", 0):
        turned = ctx.op("Transpose", [b.value], {"perm": [0, 2, 1]})
        type_ = dataclasses.replace(b.type, dims=b.dims[::-1])
        b = dataclasses.replace(b, value=turned, type=type_)
    scales = [ctx.attribute(node, name, 1.0) for name in ("alpha", "beta")]
    made = product_by_own_matrix(ctx, a, b)
    if made is None or scales != [1.0, 1.0]:
        raise Decline(Code.NO_RULE, "it scales a product by a matrix of each sample")
    if c is None:
        return made
    if not c.has_an_axis or (c.rank == 2 and c.dims[0] != 1):
        raise Decline(Code.RAGGED, "its C meets the axis that differs in length")
    value = c.value
    if c.is_stacked:
        value = ctx.squeeze(value, [1]) if c.rank == 2 else ctx.padded_rank(c, 1)
        value = ctx.op("Gather", [value, a.own_lengths.samples], {"axis": 0})
    return ctx.packed(ctx.op("Add", [made.value, value]), a.own_lengths)
