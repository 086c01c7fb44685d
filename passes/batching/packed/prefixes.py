"""Products with the first rows of one tensor, a number of its own for each sample.

Causal attention reads them: ``q[i] @ k[:i + 1]^T`` of all samples is ``q @ k^T``, of whose rows
the first numbers are a sample's own (`Batched.beside`). No row of ``k`` is copied for a sample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import common_lengths
from passes.batching.packed.padding import places_inside
from passes.batching.packed.products import own_or, padded_product
from passes.graph.builder import Builder
from passes.numbers.integers import ITERATION, Greatest, Least, Linear
from passes.numbers.number_order import is_nonnegative, sole_atom

__all__ = ["product_with_first_rows"]

_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def product_with_first_rows(ctx: Context, node: ir.Node, a: Batched, b: Batched) -> Output | None:
    """Return a product whose right side is the first rows, or columns, of a shared tensor.

    None for any other product.
    """
    whole = ctx.wholes.get(b.value)
    if whole is None or not b.is_packed or a.rank != b.rank or a.rank < 2 or a.is_shared:
        return None
    if a.dtype not in _FLOATS or a.dims[:-2] != b.dims[:-2] or b.beside is not None:
        return None
    if a.beside is not None and b.axis == b.rank - 2 and not ctx.lacks("If"):
        return _weighed(ctx, a, b, whole)
    if a.beside is None and b.axis == b.rank - 1:
        return _scores(ctx, node, a, b, whole)
    return None


def _scores(ctx: Context, node: ir.Node, a: Batched, b: Batched, whole: ir.Value) -> Output | None:
    """Return ``[.., n, d] @ [.., d, m]``, the rows of all samples by all columns."""
    rows = a if a.is_packed else _one_behind_the_other(ctx, node, a)
    if rows.axis != rows.rank - 2:
        return None
    lengths = b.own_lengths
    if not (_is_steady(ctx, lengths.size) and _is_even(ctx, rows.own_lengths.size)):
        ctx.limit_padding(rows, b)
    first = _first(ctx, whole, b)
    product = ctx.op("MatMul", [rows.value, first])
    return ctx.packed(product, rows.own_lengths, rows.axis, lengths)


def _weighed(ctx: Context, a: Batched, b: Batched, whole: ir.Value) -> Output | None:
    """Return ``[.., n, m] @ [.., m, d]``, the rows of all samples by all rows.

    What a row has behind its own numbers is 0. An infinity or a NaN in the other rows would reach
    it nevertheless: each sample has its own rows then, which an If asks for.
    """
    assert a.beside is not None and a.dtype is not None
    inner = common_lengths(ctx, [a.beside, b.own_lengths])
    if not (_is_steady(ctx, inner.size) and _is_even(ctx, a.own_lengths.size)):
        ctx.limit_padding(a, b)
    b = dataclasses.replace(b, lengths=inner)
    left = dataclasses.replace(a, value=own_or(ctx, a, inner, 0))
    first = _first(ctx, whole, b)
    held = ctx.reduce("ReduceSum", ctx.op("Abs", [first]), range(b.rank), keepdims=False)
    endless = ctx.builder.constant(np.array(np.inf, a.dtype.numpy()))

    def write_at_once(builder: Builder) -> Sequence[ir.Value]:
        return [builder.op("MatMul", [left.value, first])]

    def write_apart(builder: Builder) -> Sequence[ir.Value]:
        inside = ctx.inside(builder)
        return [padded_product(inside, left, _own_rows(inside, first, b)).value]

    graphs = {
        "then_branch": ctx.builder.subgraph("at once", [], write_at_once),
        "else_branch": ctx.builder.subgraph("apart", [], write_apart),
    }
    value = ctx.op("If", [ctx.op("Less", [held, endless])], graphs)
    return ctx.packed(value, a.own_lengths, a.axis)


def _one_behind_the_other(ctx: Context, node: ir.Node, x: Batched) -> Batched:
    """Return stacked samples ``[B, *before, n, d]`` as packed ones, ``[*before, B * n, d]``."""
    assert node.inputs[0] is not None
    axis = x.rank - 2
    size = ctx.numbers.dimension(node.inputs[0], axis)
    value, dims = x.value, x.dims
    if axis:
        order = [*range(1, axis + 1), 0, axis + 1, axis + 2]
        value = ctx.op("Transpose", [value], {"perm": order})
        sizes = [ctx.shape(value, 0, axis), _product(ctx, value, axis), ctx.shape(value, axis + 2)]
        value = ctx.reshape(value, ctx.op("Concat", sizes, {"axis": 0}))
    else:
        value = ctx.merged(value, dims)
    each = ctx.op("Expand", [ctx.shape(x.value, axis + 1, axis + 2), ctx.batch])
    samples = _numbers(ctx) if dims[axis] == 1 else None
    lengths = Lengths(ctx.builder, each, samples=samples, size=size)
    if size is not None:
        lengths = ctx.lengths_by(size, lambda: lengths)
    return dataclasses.replace(x, layout=Layout.PACKED, value=value, lengths=lengths, axis=axis)


def _numbers(ctx: Context) -> ir.Value:
    batch = ctx.squeeze(ctx.batch, [0])
    return ctx.arange(batch)


def _product(ctx: Context, value: ir.Value, axis: int) -> ir.Value:
    return ctx.op("ReduceProd", [ctx.shape(value, axis, axis + 2)], {"keepdims": 1})


def _first(ctx: Context, whole: ir.Value, x: Batched) -> ir.Value:
    """Return as many rows of a tensor as the longest sample has, at least one."""
    assert x.dtype is not None
    is_axis = ctx.builder.constant(np.arange(x.rank) == x.axis)
    row = ctx.op("Where", [is_axis, ctx.ints(1), ctx.op("Shape", [whole])])
    zero = ir.tensor(np.zeros(1, x.dtype.numpy()))
    spare = ctx.op("ConstantOfShape", [row], {"value": zero})
    rows = ctx.op("Concat", [whole, spare], {"axis": x.axis})
    width = x.own_lengths.width
    return ctx.op("Slice", [rows, ctx.ints(0), width, ctx.ints(x.axis)])


def _own_rows(ctx: Context, first: ir.Value, x: Batched) -> ir.Value:
    """Return rows ``[*before, L, d]`` of each sample, ``[B, *before, L, d]``, 0 behind its own."""
    lengths, dtype = x.own_lengths, x.element_type
    _, inside = places_inside(ctx, lengths.value, lengths.width)
    own = ctx.unsqueeze(inside, [*range(1, x.axis + 1), x.rank])
    zero = ctx.builder.constant(np.array(0, dtype.numpy()))
    return ctx.op("Where", [own, first, zero])


def _is_steady(ctx: Context, number: Linear) -> bool:
    """Whether lengths are proven to grow evenly, or not at all from one of them on.

    All of them together are at least half as many as the largest for each sample then.
    """
    atom = sole_atom(number)
    if isinstance(atom, Least | Greatest):
        return all(_is_steady(ctx, member) for member in atom.members)
    rest = number.without(ITERATION)
    is_shared = ctx.numbers.is_shared(rest)
    return number.coefficient(ITERATION) >= 0 and is_nonnegative(rest) and is_shared


def _is_even(ctx: Context, number: Linear) -> bool:
    """Whether all samples are proven to be equally long but the last ones, as chunks are.

    ``q[4 * i : min(4 * i + 4, n)]`` has the least of 4 and ``n - 4 * i`` rows, or none.
    """
    if ctx.numbers.is_shared(number):
        return True
    atom = sole_atom(number)
    if isinstance(atom, Greatest):
        others = [member for member in atom.members if member != Linear()]
        return len(others) == 1 and _is_even(ctx, others[0])
    members = _members(number)
    sizes = [member.number for member in members if member.number]
    steps = [member.coefficient(ITERATION) for member in members]
    rest = [member.without(ITERATION) for member in members]
    is_filled = len(sizes) == 1 and sizes == [-n for n in steps if n]
    return is_filled and all(ctx.numbers.is_shared(n) for n in rest)


def _members(number: Linear) -> list[Linear]:
    """Return the two operands of the Min that makes a number, none if no Min of two makes it."""
    for atom, count in number.terms:
        if isinstance(atom, Least) and count == 1 and len(atom.members) == 2:
            return [member + number.without(atom) for member in atom.members]
    return []
