"""Products of two matrices of a sample that both differ in length: attention in a segment.

``q [n, d]`` times ``k^T [d, m]`` differs along two axes. Its rows lie one behind the other, and
each is as long as the longest ``m``: ``[T, M]``. What lies behind a sample's own ``m`` numbers
means nothing (`Batched.beside`); Softmax leaves it out, and so does the product with ``v [m, d]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output, Rule
from passes.batching.layouts import Batched, present
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import common_lengths
from passes.batching.packed.meeting import meeting
from passes.batching.packed.padding import padded, unpadded, zero_of
from passes.decisions import Code, Decline

__all__ = [
    "beside_lengths",
    "own_or",
    "padded_product",
    "product_of_lengths",
    "softmax_beside",
    "top_k_beside",
]


def product_of_lengths(ctx: Context, a: Batched, b: Batched) -> Output | None:
    """Return the product of packed matrices of one sample, None for any other product.

    The samples are padded to the longest. One long sample among many short ones would take many
    times the memory: a loop runs then, where the target has one.
    """
    if not (a.is_packed and b.is_packed and a.rank == b.rank > 1 and a.axis == a.rank - 2):
        return None
    is_of_rows = a.beside is None and b.axis == b.rank - 1
    is_of_columns = a.beside is not None and b.axis == b.rank - 2
    if b.beside is not None or not (is_of_rows or is_of_columns):
        return None
    if a.dims[:-2] != b.dims[:-2]:
        return None
    ctx.limit_padding(a, b)
    if a.beside is not None:
        inner = common_lengths(ctx, [a.beside, b.own_lengths])
        a = dataclasses.replace(a, value=own_or(ctx, a, inner, 0))
        b = dataclasses.replace(b, lengths=inner)
    return padded_product(ctx, a, _side_by_side(ctx, b), b.lengths if is_of_rows else None)


def padded_product(
    ctx: Context, a: Batched, right: ir.Value, beside: Lengths | None = None
) -> Output:
    """Return the product of packed rows of one sample and what was padded to the longest.

    Args:
        ctx: The context.
        a: Rows of samples; 0 where a row has no numbers of its own.
        right: Columns of samples side by side, or the rows that the numbers of a row belong to.
        beside: How many numbers the rows of the product have, if samples differ in that.
    """
    return _rows_again(ctx, ctx.op("MatMul", [_side_by_side(ctx, a), right]), a, beside)


def _side_by_side(ctx: Context, x: Batched) -> ir.Value:
    """Return packed samples ``[*before, T, *rest]`` as ``[B, *before, L, *rest]``."""
    lengths, axis, rank = x.own_lengths, x.axis, x.rank
    others = [i for i in range(rank) if i != axis]
    value = _turned(ctx, x.value, [axis, *others])
    rest = [x.dims[i] for i in others]
    value = padded(ctx, value, lengths, lengths.width, zero_of(x), rest)
    return _turned(ctx, value, [0, *range(2, axis + 2), 1, *range(axis + 2, rank + 1)])


def _rows_again(ctx: Context, value: ir.Value, like: Batched, beside: Lengths | None) -> Output:
    """Return ``[B, *before, L, size]`` as ``[*before, T, size]``."""
    lengths, axis = like.own_lengths, like.axis
    value = _turned(ctx, value, [0, axis + 1, *range(1, axis + 1), axis + 2])
    rows = unpadded(ctx, value, lengths, lengths.width)
    rows = _turned(ctx, rows, [*range(1, axis + 1), 0, axis + 1])
    return ctx.packed(rows, lengths, axis, beside)


def _turned(ctx: Context, value: ir.Value, order: Sequence[int]) -> ir.Value:
    if list(order) == list(range(len(order))):
        return value
    return ctx.op("Transpose", [value], {"perm": list(order)})


def _own(ctx: Context, x: Batched, beside: Lengths) -> ir.Value:
    """Return which numbers of each row are the sample's own, ``bool[T, M]``."""
    width = ctx.squeeze(beside.width, [0])
    places = ctx.arange(width)
    sizes = ctx.op("Gather", [beside.value, x.own_lengths.samples], {"axis": 0})
    return ctx.op("Less", [places, ctx.unsqueeze(sizes, [1])])


def own_or(ctx: Context, x: Batched, beside: Lengths, number: float) -> ir.Value:
    """Return rows with a number in the place of what means nothing."""
    fill = ctx.builder.constant(np.array(number, x.element_type.numpy()))
    return ctx.op("Where", [_own(ctx, x, beside), x.value, fill])


def softmax_beside(ctx: Context, node: ir.Node, x: Batched) -> Output:
    """Return Softmax over the numbers of each row that are the sample's own.

    Raises:
        Decline: It goes along another axis.
    """
    assert x.beside is not None
    if node.op_type != "Softmax" or int(ctx.attribute(node, "axis", -1)) not in (-1, x.rank - 1):
        raise Decline(Code.RAGGED, "it works along one of two axes that differ in length")
    (made,) = ctx.same(node, [own_or(ctx, x, x.beside, -np.inf)])
    return ctx.packed(made.value, x.own_lengths, x.axis, x.beside)


def top_k_beside(
    ctx: Context, x: Batched, count: ir.Value, *, is_largest: bool
) -> Sequence[Output]:
    """Return the first numbers of each row in an order; a row that has fewer is an error.

    Raises:
        Decline: They are no floats.
    """
    assert x.beside is not None
    lengths = x.own_lengths
    if x.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE) or x.axis != 0:
        raise Decline(Code.RAGGED, "it works along one of two axes that differ in length")
    most = ctx.op("Reshape", [count, ctx.ints(1)])
    has_rows = ctx.op("Greater", [lengths.value, ctx.builder.scalar(0)])
    short = ctx.op("And", [has_rows, ctx.op("Less", [x.beside.value, most])])
    own = own_or(ctx, x, x.beside, -np.inf if is_largest else np.inf)
    missing = ctx.op("Sub", [most, x.beside.width])
    before = ctx.shape(own, 0, x.rank - 1)
    added = ctx.op("Concat", [before, ctx.op("Max", [missing, ctx.ints(0)])], {"axis": 0})
    zero = np.zeros(1, x.dtype.numpy())
    more = ctx.op("ConstantOfShape", [added], {"value": ir.tensor(zero, dtype=x.dtype)})
    wide = ctx.op("Concat", [own, more], {"axis": x.rank - 1})
    attributes = {"axis": x.rank - 1, "sorted": 1, **({} if is_largest else {"largest": 0})}
    found = ctx.builder.node("TopK", [wide, _too_many(ctx, most, short)], attributes, outputs=2)
    return [ctx.packed(v, lengths, x.axis) for v in found.outputs]


def _too_many(ctx: Context, number: ir.Value, flags: ir.Value) -> ir.Value:
    """Return a number, and one that no axis has where a flag is set.

    It has less than 32 bits: onnxruntime's TopK reads no more.
    """
    count = ctx.reduce("ReduceSum", ctx.op("Cast", [flags], {"to": ir.DataType.INT64}), [0])
    any_set = ctx.op("Min", [count, ctx.ints(1)])
    return ctx.op("Add", [number, ctx.op("Mul", [any_set, ctx.ints(1 << 30)])])


def beside_lengths(rule: Rule) -> Rule:
    """Let a rule of elementwise operators take operands that differ in length twice.

    Every other operand has one number for a row, or differs likewise.
    """

    def apply(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
        operands = meeting(ctx, operands)
        given = present(operands)
        first = next((x for x in given if x.beside is not None), None)
        made = rule(ctx, node, operands)
        if first is None:
            return made
        assert first.beside is not None
        for x in given:
            is_alike = (
                x.beside is not None and first.beside.equal(x.beside) and x.rank == first.rank
            )
            if not is_alike and (x.beside is not None or (x.rank and x.dims[-1] != 1)):
                raise Decline(Code.RAGGED, "its operands are not proven to be equally long")
        return [x if x is None else dataclasses.replace(x, beside=first.beside) for x in made]

    return apply
