"""Pad of samples that differ in length, along their axis of different lengths or another.

Samples of ``[2, 0, 3]`` rows, padded by ``5 - length`` behind, have 5 rows each and are stacked.
The row at place ``p`` of a result is row ``p - begin`` of its sample, or padding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.batching.packed.row_by_row import sample_axis
from passes.batching.packed.slicing.padded_places import Sides, failing, rows_of_places
from passes.decisions import Code, Decline
from passes.graph.picking import pick
from passes.numbers.integers import Linear

__all__ = ["pad_rows", "pad_with", "with_fill_row"]

_Amounts = Mapping[tuple[int, int], Linear]
"""How much is added by side, 0 in front and 1 behind, and axis of a sample."""


def pad_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Pad along the axis of different lengths, along others, or along both.

    Where all results are proven to have one length, they are stacked.
    """
    data = ctx.operand(operands, 0, "data")
    lengths = data.lengths
    if lengths is None:
        raise Decline(Code.RAGGED, "what belongs to its data differs in length")
    mode = ctx.attribute(node, "mode", "constant")
    fill = ctx.optional(operands, 2) if mode == "constant" else None
    amounts = _amounts(ctx, node, operands, data.rank)
    others = {k: n for k, n in amounts.items() if k[1] != data.axis and n != Linear()}
    if others:
        data = _padded_along_others(ctx, data, others, mode, fill)
    begin, end = (amounts.get((side, data.axis), Linear()) for side in (0, 1))
    if begin == end == Linear():
        return [ctx.packed(data.value, lengths, data.axis)]
    begins, ends = (_column(ctx, operands, data, side, n) for side, n in enumerate((begin, end)))
    return [_padded(ctx, data, Sides(begin, end, begins, ends), mode, fill)]


def pad_with(ctx: Context, data: Batched, begin: Linear, end: Linear, fill: np.ndarray) -> Output:
    """Join rows of one number to packed samples, in front and behind.

    Args:
        ctx: The context.
        data: The samples.
        begin: How many rows in front, at hand outside of loops; a negative one is an error.
        end: How many behind.
        fill: The number.
    """
    begins, ends = (ctx.numbers.write(ctx, n) for n in (begin, end))
    number = ctx.typed(ctx.builder.constant(fill), data.element_type)
    sides = Sides(begin, end, begins, ends, may_cut=False)
    return _padded(ctx, data, sides, "constant", number)


def _along(ctx: Context, operands: Sequence[Operand], rank: int) -> list[int]:
    """Return the axes that amounts are given for."""
    return [sample_axis(axis, rank) for axis in ctx.known_axes(operands, range(rank))]


def _amounts(ctx: Context, node: ir.Node, operands: Sequence[Operand], rank: int) -> _Amounts:
    along = _along(ctx, operands, rank)
    numbers = ctx.numbers.of(node.inputs[1]) or ()
    if len(numbers) != 2 * len(along):
        raise Decline(Code.RAGGED, "nothing tells along which axes its pads are 0")
    keys = [(side, axis) for side in (0, 1) for axis in along]
    return dict(zip(keys, numbers, strict=True))


def _column(
    ctx: Context,
    operands: Sequence[Operand],
    data: Batched,
    side: int,
    number: Linear,
) -> ir.Value:
    """Return how much is added to each sample on one side, int64 ``[B]`` or ``[1]``."""
    if ctx.numbers.is_at_hand(number):
        return ctx.numbers.write(ctx, number)
    pads, along = ctx.operand(operands, 1, "pads"), _along(ctx, operands, data.rank)
    place = along.index(data.axis) + side * len(along)
    return ctx.entry(pads, place)


def _padded_along_others(
    ctx: Context, data: Batched, others: _Amounts, mode: str, fill: Batched | None
) -> Batched:
    """Pad the rows along axes in which all samples have one size.

    onnxruntime refuses to wrap rows where there are none.
    """
    if mode == "wrap":
        raise Decline(Code.RAGGED, "it wraps other axes than that of lengths")
    if fill is not None and not fill.is_shared:
        raise Decline(Code.RAGGED, "each sample has a number of its own to pad other axes with")
    if not all(ctx.numbers.is_shared(n) for n in others.values()):
        raise Decline(Code.RAGGED, "a second axis of the result would differ in length")
    sides = [(side, axis) for side in (0, 1) for axis in range(data.rank)]
    parts = [ctx.numbers.write(ctx, others.get(key, Linear())) for key in sides]
    inputs = [data.value, ctx.op("Concat", parts, {"axis": 0})]
    if fill is not None:
        inputs.append(fill.value)
    return dataclasses.replace(data, value=ctx.op("Pad", inputs, {"mode": mode}))


def _padded(ctx: Context, data: Batched, sides: Sides, mode: str, fill: Batched | None) -> Output:
    """Pad samples along their axis of different lengths."""
    lengths, axis = data.lengths, data.axis
    assert lengths is not None
    size = lengths.size + sides.begin + sides.end
    if data.rank == 1 and size.number is not None:
        ctx.note_single_numbers(size.number)
    sizes = ctx.op("Add", [ctx.op("Add", [lengths.value, sides.begins]), sides.ends])
    flags = failing(ctx, lengths, sides, sizes, mode)
    if ctx.numbers.is_shared(size):
        count = ctx.squeeze(ctx.numbers.write(ctx, size), [0])
        places = ctx.arange(count)
        starts = failing_where(ctx, lengths.starts, flags)
        columns = [
            ctx.unsqueeze(v, [1]) for v in (lengths.value, starts, sides.begins, sides.ends)
        ]
        made = None
    else:
        made = ctx.lengths_by(
            size, lambda: Lengths(ctx.builder, failing_where(ctx, sizes, flags), size=size)
        )
        places = made.positions
        each = [ctx.op("Expand", [v, lengths.count]) for v in (sides.begins, sides.ends)]
        columns = [
            ctx.op("Gather", [v, made.samples], {"axis": 0})
            for v in (lengths.value, lengths.starts, *each)
        ]
    where, inside = rows_of_places(ctx, places, columns, sides, mode)
    value = data.value
    if inside is not None:
        where = ctx.op("Where", [inside, where, lengths.total])
        value = with_fill_row(ctx, data, fill)
    found = ctx.op("Gather", [value, where], {"axis": axis})
    if made is None and axis:
        order = [axis, *(i for i in range(data.rank + 1) if i != axis)]
        found = ctx.op("Transpose", [found], {"perm": order})
    if inside is not None and fill is not None and not fill.is_shared:
        found = _filled_apart(ctx, found, inside, data, fill, made)
    return ctx.stacked(found) if made is None else ctx.packed(found, made, axis)


def with_fill_row(ctx: Context, data: Batched, fill: Batched | None) -> ir.Value:
    """Return the rows of all samples and one of padding behind them."""
    sizes = [ctx.shape(data.value, 0, data.axis)] * (data.axis > 0) + [ctx.ints(1)]
    if data.axis + 1 < data.rank:
        sizes.append(ctx.shape(data.value, data.axis + 1))
    shape = ctx.op("Concat", sizes, {"axis": 0})
    dtype = data.element_type
    if fill is None or not fill.is_shared:
        fill = ctx.typed(ctx.builder.constant(np.zeros(1, dtype.numpy())), dtype)
    known = ctx.constant(fill)
    if known is None:
        row = ctx.op("Expand", [ctx.op("Reshape", [fill.value, ctx.ints(1)]), shape])
    else:
        tensor = ir.tensor(known.reshape(1), dtype=dtype)
        row = ctx.op("ConstantOfShape", [shape], {"value": tensor})
    return ctx.op("Concat", [data.value, row], {"axis": data.axis})


def _filled_apart(
    ctx: Context,
    value: ir.Value,
    inside: ir.Value,
    data: Batched,
    fill: Batched,
    made: Lengths | None,
) -> ir.Value:
    """Fill what is not inside of a sample with a number of that sample."""
    number = ctx.op("Reshape", [fill.value, ctx.batch])
    behind = data.rank - data.axis - 1
    if made is None:
        inside = ctx.unsqueeze(
            inside, [*range(1, data.axis + 1), *range(data.axis + 2, data.rank + 1)]
        )
        number = ctx.unsqueeze(number, range(1, data.rank + 1))
    else:
        number = ctx.op("Gather", [number, made.samples], {"axis": 0})
        inside, number = (ctx.unsqueeze(v, range(1, behind + 1)) for v in (inside, number))
    return pick(ctx.builder, inside, value, number, data.dtype)
