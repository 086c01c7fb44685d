"""Products of packed rows by a matrix of each sample: experts that each take their own tokens.

The rows of each sample are laid out in tiles of equal size, the mean number of rows, and each
tile meets the matrix of its sample. There are at most two tiles for each sample, and at most
twice the rows, however unevenly rows are spread over samples.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.decisions import Code, Decline

__all__ = ["gemm_in_tiles", "product_in_tiles"]


def product_in_tiles(ctx: Context, a: Batched, b: Batched) -> Output | None:
    """Return ``a [n, K] @ b [K, N]`` of each sample, None for any other product.

    Args:
        ctx: The context.
        a: The left side.
        b: The right side.

    Raises:
        Decline: The target has loops, which are faster where there are few samples.
    """
    is_product = a.is_packed and b.is_stacked and a.rank == b.rank == 2 and not a.axis
    if not is_product or a.lengths is None or a.beside is not None:
        return None
    if not ctx.takes_flat:
        detail = "it has a matrix of each sample, and a loop is faster for few of them"
        raise Decline(Code.BATCHED_OPERAND, detail)
    return ctx.packed(_rows_in_tiles(ctx, a, a.lengths, b.value), a.lengths)


def gemm_in_tiles(ctx: Context, node: ir.Node, a: Batched, b: Batched, c: Operand) -> Output:
    """Return ``a [n, K] @ b [K, N] + c`` of each sample, with ``b`` stacked.

    Raises:
        Decline: It scales what it adds, or adds more than a row of each sample.
    """
    if ctx.attribute(node, "transB", 0):
        turned = ctx.op("Transpose", [b.value], {"perm": [0, 2, 1]})
        b = dataclasses.replace(b, value=turned)
    scales = [ctx.attribute(node, name, 1.0) for name in ("alpha", "beta")]
    made = product_in_tiles(ctx, a, b)
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


def _rows_in_tiles(ctx: Context, a: Batched, lengths: Lengths, matrices: ir.Value) -> ir.Value:
    """Return the rows ``[T, N]`` of ``[T, K]`` by matrices ``[B, K, N]``."""
    one = ctx.ints(1)
    count = ctx.op("Max", [lengths.count, one])
    mean = ctx.op("Div", [ctx.op("Add", [lengths.total, ctx.op("Sub", [count, one])]), count])
    size = ctx.op("Max", [mean, one])
    rounded = ctx.op("Add", [lengths.value, ctx.op("Sub", [size, one])])
    tiles = Lengths(ctx.builder, ctx.op("Div", [rounded, size]))
    first = ctx.op("Gather", [lengths.starts, tiles.samples], {"axis": 0})
    first = ctx.op("Add", [first, ctx.op("Mul", [tiles.positions, size])])
    within = ctx.op(
        "Range", [ctx.builder.scalar(0), ctx.squeeze(size, [0]), ctx.builder.scalar(1)]
    )
    places = ctx.op("Add", [ctx.unsqueeze(first, [1]), within])
    last = ctx.op("Sub", [lengths.total, one])
    taken = ctx.op("Gather", [a.value, ctx.op("Min", [places, last])], {"axis": 0})
    own = ctx.op("Gather", [matrices, tiles.samples], {"axis": 0})
    product = ctx.op("MatMul", [taken, own])
    rows = ctx.op("Mul", [tiles.total, size])
    target = ctx.op("Concat", [rows, ctx.shape(product, 2)], {"axis": 0})
    begin = ctx.op("Gather", [tiles.starts, lengths.samples], {"axis": 0})
    back = ctx.op("Add", [ctx.op("Mul", [begin, size]), lengths.positions])
    return ctx.op("Gather", [ctx.reshape(product, target), back], {"axis": 0})
