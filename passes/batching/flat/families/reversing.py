"""ReverseSequence of flat samples: the first places of each line, in the opposite order.

TensorFlow's exporter writes flips so, with the whole size as the length of each line.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.formula import integers
from passes.batching.flat.grid import Grid
from passes.batching.flat.meeting import alike
from passes.batching.flat.moves import stacked_or_packed
from passes.batching.flat.row_positions import FAR
from passes.batching.flat.rows_read import Read, rows_of_places
from passes.batching.flat.samples import FlatSamples
from passes.batching.flat.spreading import in_their_order, on_first, sides_of
from passes.batching.layouts import Batched, present
from passes.decisions import Code, Decline

__all__ = ["reverse_sequence"]


def reverse_sequence(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Each place along the axis of time reads another one of its line."""
    x, lengths = ctx.operand(operands, 0, "input"), ctx.operand(operands, 1, "sequence_lens")
    if x.has_an_axis:
        raise Decline(Code.BATCHED_OPERAND, "its lengths come from samples of several sizes")
    time, batch = (
        int(ctx.attribute(node, name, default))
        for name, default in (("time_axis", 0), ("batch_axis", 1))
    )
    (laid,) = present(in_their_order(ctx, [x]))
    own = sides_of(laid)
    count = max(time + 1, batch + 1, laid.own_flat.grid.rank)
    held = stacked_or_packed(ctx, lengths)
    if held.lengths is not None:
        own[batch] = alike(ctx, [own[batch], held.lengths])
    source, rows = on_first(ctx, laid, own, count)
    grid = Grid.of_sides(ctx.builder, own[:count], source.count)
    place = integers(ctx, grid.place(time))
    length = integers(ctx, _length_of_rows(ctx, held, grid, grid.place(batch)))
    turned = place.compare("Less", length).where(length - 1 - place, place)
    is_short = length.compare("LessOrEqual", integers(ctx, grid.size_of_rows(time, time)))
    turned = length.compare("GreaterOrEqual", 0).where(turned, FAR)
    read: list[Read] = [*range(count)]
    read[time] = is_short.where(turned, FAR).value
    at = rows_of_places(ctx, grid, grid, read)
    order = tuple(range(len(own)))
    made = FlatSamples(grid, order, (None,) * count)
    return [ctx.flat(ctx.op("Gather", [rows, at], {"axis": 0}), made)]


def _length_of_rows(ctx: Context, lengths: Batched, grid: Grid, line: ir.Value) -> ir.Value:
    """Return the length of the line of each row, int64 ``[P]``."""
    if lengths.lengths is not None:
        first = ctx.op("Gather", [lengths.lengths.starts, grid.rows.samples])
        return ctx.op("Gather", [lengths.value, ctx.op("Add", [first, line])])
    if lengths.is_shared:
        return ctx.op("Gather", [lengths.value, line])
    pair = [ctx.unsqueeze(index, [1]) for index in (grid.rows.samples, line)]
    return ctx.op("GatherND", [lengths.value, ctx.op("Concat", pair, {"axis": 1})])
