"""Values of a length that a sample has: ConstantOfShape, Expand and Range by a sample's own size.

Of samples of lengths ``[2, 0, 3]``, zeros of each sample's length are 5 zeros in all.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.samples import FlatSamples
from passes.batching.flat.spreading import aligned, on_sides, spread_to
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.decisions import Code, Decline
from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative
from passes.typing import ValueType

__all__ = [
    "constant_of_lengths",
    "expand_to_lengths",
    "lengths_of_size",
    "own_sizes",
    "sides_of_shape",
]


def lengths_of_size(ctx: Context, size: Linear, what: str) -> Lengths:
    """Return the lengths of samples of a size; a negative one is an error at run time.

    Args:
        ctx: The context.
        size: The length of one sample.
        what: What has this size, for messages.

    Raises:
        Decline: Nothing outside of a loop has the size.
    """
    if not ctx.numbers.is_at_hand(size):
        raise Decline(Code.DATA_DEPENDENT, f"its {what} differs from sample to sample")

    def make() -> Lengths:
        sizes = ctx.op("Expand", [ctx.numbers.write(ctx, size), ctx.batch])
        if not is_nonnegative(size):
            sizes = failing_where(ctx, sizes, [ctx.op("Less", [sizes, ctx.builder.scalar(0)])])
        return Lengths(ctx.builder, sizes, size=size)

    return ctx.lengths_by(size, make)


def own_sizes(ctx: Context, shape: ir.Value, what: str) -> tuple[list[Linear], list[int]]:
    """Return the sizes that a shape lists, and the axes of those that differ by sample.

    Args:
        ctx: The context.
        shape: The shape, of one sample.
        what: What it is, for messages.

    Raises:
        Decline: They are not known, or several of them differ.
    """
    sizes = ctx.numbers.of(shape)
    if sizes is None:
        raise Decline(Code.DATA_DEPENDENT, f"its {what} differs from sample to sample")
    apart = [i for i, n in enumerate(sizes) if not ctx.numbers.is_shared(n)]
    if any(not is_nonnegative(n) for i, n in enumerate(sizes) if i not in apart):
        raise Decline(Code.DATA_DEPENDENT, f"nothing tells that its {what} is not negative")
    if len(apart) > 1:
        detail = f"its {what} differs from sample to sample, along several axes"
        raise Decline(Code.DATA_DEPENDENT, detail)
    return list(sizes), apart


def sides_of_shape(ctx: Context, shape: ir.Value) -> list[int | Lengths]:
    """Return the dimensions that a shape lists: numbers, or one for each sample.

    Raises:
        Decline: One of them is not known before the model runs, and is none of samples either.
    """
    sizes = ctx.numbers.of(shape)
    if sizes is None:
        raise Decline(Code.DATA_DEPENDENT, "its shape differs from sample to sample")
    found: list[int | Lengths] = []
    for size in sizes:
        if not ctx.numbers.is_shared(size):
            found.append(lengths_of_size(ctx, size, "shape"))
        elif size == Linear(size.constant):
            found.append(size.constant)
        else:
            raise Decline(Code.DATA_DEPENDENT, "nothing tells its shape before it runs")
    return found


def _several_axes(ctx: Context, shape: ir.Value) -> tuple[FlatSamples, ir.Value] | None:
    """Return how samples of a shape lie that differs along several axes, None for another.

    Returns:
        How they lie, and the shape of their rows, int64.
    """
    sizes = ctx.numbers.of(shape) if ctx.takes_flat else None
    if sizes is None or sum(not ctx.numbers.is_shared(size) for size in sizes) < 2:
        return None
    sides = sides_of_shape(ctx, shape)
    flat = on_sides(ctx, sides)
    rest = [side for side in sides[flat.grid.rank :] if isinstance(side, int)]
    total = flat.grid.rows.total
    return flat, ctx.op("Concat", [total, ctx.ints(*rest)], {"axis": 0}) if rest else total


def _square(ctx: Context, node: ir.Node) -> Lengths | None:
    """Return the lengths of matrices of as many rows as columns that mask scores.

    They lie as scores do, each row as long as the longest. Where samples are taken that differ
    along several axes, only what becomes a triangle is known to be no image.
    """
    sizes = ctx.numbers.of(operand(node, 0))
    if sizes is None or len(sizes) != 2 or sizes[0] != sizes[1] or ctx.numbers.is_shared(sizes[0]):
        return None
    if ctx.takes_flat and not any(is_operator(u, "Trilu") for u, _ in node.outputs[0].uses()):
        return None
    lengths = lengths_of_size(ctx, sizes[0], "shape")
    ctx.limit_padding_of(lengths, lengths)
    return lengths


def _shape(ctx: Context, sizes: Sequence[ir.Value]) -> ir.Value:
    return sizes[0] if len(sizes) == 1 else ctx.op("Concat", sizes, {"axis": 0})


def constant_of_lengths(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """ConstantOfShape: one tensor for all samples, or as many rows as all of them have."""
    shape = operand(node, 0)
    square = _square(ctx, node)
    if square is not None:
        width = square.width
        (new,) = ctx.same(node, [_shape(ctx, [square.total, width])])
        return [ctx.packed(new.value, square, 0, square)]
    along = _several_axes(ctx, shape)
    if along is not None:
        flat, target = along
        (new,) = ctx.same(node, [target])
        return [ctx.flat(new.value, flat)]
    sizes, apart = own_sizes(ctx, shape, "shape")
    lengths = [lengths_of_size(ctx, sizes[axis], "shape") for axis in apart]
    parts = [
        lengths[0].total if axis in apart else ctx.numbers.write(ctx, size)
        for axis, size in enumerate(sizes)
    ]
    (new,) = ctx.same(node, [_shape(ctx, parts)])
    return [ctx.packed(new.value, lengths[0], apart[0]) if apart else ctx.shared(new.value)]


def expand_to_lengths(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """Expand to a shape that differs by sample in one size, which the data has or is 1 in."""
    data, shape = ctx.operand(operands, 0, "input"), operand(node, 1)
    along = _several_axes(ctx, shape)
    if along is not None and data.is_packed and data.beside is None:
        return [spread_to(ctx, data, sides_of_shape(ctx, shape))]
    if along is not None and not data.is_packed and data.rank <= len(along[0].order):
        flat, target = along
        return [ctx.flat(ctx.op("Expand", [aligned(ctx, data, flat), target]), flat)]
    sizes, apart = own_sizes(ctx, shape, "shape")
    rank = max(data.rank, len(sizes))
    more = rank - len(sizes)
    sizes, places = [Linear(1)] * more + sizes, {axis + more for axis in apart}
    if data.lengths is not None:
        place = rank - data.rank + data.axis
        if places - {place} or (sizes[place] not in (Linear(1), data.lengths.size)):
            raise Decline(Code.RAGGED, "its shape may reach the axis that differs in length")
        sizes[place] = Linear(1)
        target = _shape(ctx, [ctx.numbers.write(ctx, n) for n in sizes])
        return [ctx.packed(ctx.op("Expand", [data.value, target]), data.lengths, place)]
    if not places:
        target = _shape(ctx, [ctx.numbers.write(ctx, n) for n in sizes])
        value = ctx.op("Expand", [ctx.padded_rank(data, rank), target])
        return [ctx.shared(value) if data.is_shared else ctx.stacked(value)]
    (place,) = places
    lengths = lengths_of_size(ctx, sizes[place], "shape")
    return [_repeated(ctx, data, sizes, place, lengths)]


def _repeated(
    ctx: Context, data: Batched, sizes: Sequence[Linear], place: int, lengths: Lengths
) -> Output:
    """Repeat each sample along an axis that it has no more than one row in."""
    rank = len(sizes)
    own = place - (rank - data.rank)
    if own >= 0 and data.dims[own] != 1:
        raise Decline(Code.RAGGED, f"'{data.value.name}' meets an axis that differs in length")
    value = data.value
    if own >= 0:
        value = ctx.squeeze(value, [own + data.is_stacked])
    if data.is_stacked:
        left = rank - 1 - (data.rank - (own >= 0))
        value = ctx.unsqueeze(value, range(1, left + 1))
        value = ctx.op("Gather", [value, lengths.samples], {"axis": 0})
    others = [ctx.numbers.write(ctx, n) for i, n in enumerate(sizes) if i != place]
    value = ctx.op("Expand", [value, _shape(ctx, [lengths.total, *others])])
    if place:
        order = [*range(1, place + 1), 0, *range(place + 1, rank)]
        value = ctx.op("Transpose", [value], {"perm": order})
    known = ValueType(None, tuple(_expanded(data, sizes, axis) for axis in range(rank)))
    return Batched(Layout.PACKED, value, known, lengths=lengths, axis=place)


def _expanded(data: Batched, sizes: Sequence[Linear], axis: int) -> int | None:
    """Return a dimension of what is expanded to sizes, None if it is no known number."""
    own = axis - (len(sizes) - data.rank)
    dim = data.dims[own] if own >= 0 else 1
    number = sizes[axis].number
    known = dim if number == 1 else number
    return known if isinstance(known, int) else None
