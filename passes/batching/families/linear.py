"""Products of matrices, determinants and sums of products."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline
from passes.graph.equations import free_letters, terms_of

__all__ = [
    "det",
    "einsum",
    "gemm",
    "matmul",
    "multiplied",
    "plain_product",
]

Product = Callable[[ir.Value, ir.Value], ir.Value]


def multiplied(ctx: Context, a: Batched, b: Batched, product: Product) -> ir.Value:
    """Record ``a @ b`` of samples of any ranks, as numpy means it.

    Where the batch axes line up by themselves the operands stay as they are: in particular a
    stacked operand times a shared matrix is one product. Otherwise both become matrices of one
    rank: a vector on the left is a row, one on the right a column.

    Args:
        ctx: The context.
        a: Left operand.
        b: Right operand; one of the two is stacked.
        product: Records the node.
    """
    if ctx.may_be_empty and b.is_shared and b.rank == 1:
        made = product(a.value, ctx.unsqueeze(b.value, [1]))
        return ctx.squeeze(made, [a.rank])
    if _lines_up(a, b) and not (ctx.may_be_empty and _broadcasts(a, b)):
        return product(a.value, b.value)
    rank = max(a.rank, b.rank, 2)
    made = product(_matrix(ctx, a, rank, column=False), _matrix(ctx, b, rank, column=True))
    return ctx.squeeze(made, [rank - 1] * (a.rank == 1) + [rank] * (b.rank == 1))


def _lines_up(a: Batched, b: Batched) -> bool:
    if b.is_shared:
        return b.rank <= max(a.rank, 2)
    if a.is_shared:
        return b.rank >= max(a.rank, 2)
    return a.rank == b.rank >= 2


def _broadcasts(a: Batched, b: Batched) -> bool:
    """Whether a shared operand meets the batch axis; a matrix on the right is apart from it."""
    return a.is_shared or (b.is_shared and b.rank > 2)


def _matrix(ctx: Context, x: Batched, rank: int, *, column: bool) -> ir.Value:
    """Return an operand as matrices that align with samples of ``rank`` axes.

    A shared one gets a batch axis of 1, or of 0 where there are no samples: onnxruntime does not
    broadcast 1 to 0 here before 1.32.
    """
    column &= x.rank == 1
    if x.is_stacked:
        return ctx.unsqueeze(x.value, [*range(1, rank - x.rank + 1 - column), *[rank] * column])
    value = ctx.unsqueeze(x.value, [1] if column else [0] if x.rank == 1 else [])
    if not ctx.may_be_empty:
        return value
    wide = ctx.unsqueeze(value, range(rank + 1 - max(x.rank, 2)))
    return ctx.op("Slice", [wide, ctx.ints(0), ctx.batch, ctx.ints(0)])


def plain_product(ctx: Context) -> Product:
    """Return what records MatMul."""
    return lambda left, right: ctx.op("MatMul", [left, right])


def matmul(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """A shared matrix times a vector per sample is one product with the matrix on the right.

    Vectors that a body made rows of, to multiply them, are the rows of one matrix.
    """
    a, b = ctx.operand(operands, 0, "A"), ctx.operand(operands, 1, "B")
    product = plain_product(ctx)
    is_shared_matrix = b.is_shared and b.rank == 2
    row = ctx.before_unsqueeze(a.value, [1]) if a.rank == 2 and is_shared_matrix else None
    if row is not None:
        return [ctx.stacked(ctx.unsqueeze(ctx.op("MatMul", [row, b.value]), [1]))]
    if a.is_shared and a.rank <= 2 and b.rank == 1:
        return [ctx.stacked(multiplied(ctx, b, _turned(ctx, a, a.rank == 2), product))]
    return [ctx.stacked(multiplied(ctx, a, b, product))]


def gemm(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """``alpha * A' @ B' + beta * C``.

    1. A stacked, B shared: the rows of all samples form one matrix. C goes along unless it
       differs from row to row or from sample to sample; then it is added.
    2. B stacked: MatMul, and what is not neutral of alpha, beta and C.
    3. C alone stacked: one shared product, and C is added.
    """
    a, b = ctx.operand(operands, 0, "A"), ctx.operand(operands, 1, "B")
    c = ctx.optional(operands, 2)
    alpha, beta = (float(ctx.attribute(node, name, 1.0)) for name in ("alpha", "beta"))
    if b.is_stacked:
        left = _turned(ctx, a, _is_set(ctx, node, "transA"))
        right = _turned(ctx, b, _is_set(ctx, node, "transB"))
        product = _scaled(ctx, multiplied(ctx, left, right, plain_product(ctx)), alpha, a)
    elif a.is_stacked:
        rows = _turned(ctx, a, _is_set(ctx, node, "transA")).value
        inputs: list[ir.Value | None] = [ctx.merged(rows, _row_dims(ctx, node, a)), b.value]
        if c is not None and c.is_shared and (c.rank < 2 or c.dims[0] == 1):
            inputs.append(c.value)
            c = None
        (new,) = ctx.same(node, inputs, {"transA": None})
        product = ctx.unmerged(new.value, rows, ctx.type_of(node.outputs[0]).dims or ())
    else:
        product = ctx.same(node, [a.value, b.value])[0].value
    if c is not None:
        added = _scaled(ctx, ctx.padded_rank(c, 2), beta, c)
        product = ctx.op("Add", [product, added])
    return [ctx.stacked(product)]


def _row_dims(ctx: Context, node: ir.Node, a: Batched) -> tuple[int | str | None, ...]:
    return a.dims[::-1] if _is_set(ctx, node, "transA") else a.dims


def _is_set(ctx: Context, node: ir.Node, name: str) -> bool:
    return bool(ctx.attribute(node, name, 0))


def _turned(ctx: Context, x: Batched, transpose: bool) -> Batched:
    """Return a matrix, or its transpose."""
    if not transpose:
        return x
    order = [0, 2, 1] if x.is_stacked else [1, 0]
    return dataclasses.replace(x, value=ctx.op("Transpose", [x.value], {"perm": order}))


def _scaled(ctx: Context, value: ir.Value, factor: float, like: Batched) -> ir.Value:
    if factor == 1:
        return value
    return ctx.op(
        "Mul", [value, ctx.builder.constant(np.array(factor, like.element_type.numpy()))]
    )


def det(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Det takes any axes in front of the matrix: the batch axis is one more."""
    return ctx.same(node, [ctx.operand(operands, 0, "X").value])


def einsum(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """A letter of its own for the batch axis, in front of every stacked term and of the result."""
    given = [ctx.operand(operands, i) for i in range(len(operands))]
    terms, result = terms_of(node.attributes.get_string("equation", ""))
    free = free_letters(terms)[:1]
    if not free:
        raise Decline(Code.NO_RULE, "the equation uses every letter")
    (batch,) = free
    batched = [
        batch + term if x.is_stacked else term for term, x in zip(terms, given, strict=True)
    ]
    equation = f"{','.join(batched)}->{batch}{result}"
    return ctx.same(node, [x.value for x in given], {"equation": equation})
