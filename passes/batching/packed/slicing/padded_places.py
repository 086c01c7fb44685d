"""The row of a sample at each place of its padded form, by the mode of Pad.

Three rows padded by 2 on both sides: ``edge`` reads the places ``[0, 0, 0, 1, 2, 2, 2]``, and
``reflect`` ``[2, 1, 0, 1, 2, 1, 0]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.lengths import Lengths
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative

__all__ = ["Sides", "failing", "rows_of_places"]


@dataclasses.dataclass(frozen=True)
class Sides:
    """How many rows are added to each sample in front and behind; negative ones are cut.

    Attributes:
        begin: In front, as a sum.
        end: Behind, as a sum.
        begins: In front, int64 ``[B]`` or ``[1]``.
        ends: Behind, int64 ``[B]`` or ``[1]``.
        may_cut: Whether a negative amount cuts; otherwise it is an error.
    """

    begin: Linear
    end: Linear
    begins: ir.Value
    ends: ir.Value
    may_cut: bool = True

    @property
    def only_add(self) -> bool:
        """Whether no sample loses a row, by proof or since that is an error."""
        return not self.may_cut or (is_nonnegative(self.begin) and is_nonnegative(self.end))


def _cut(ctx: Context, amounts: ir.Value) -> ir.Value:
    """Return how many rows a side loses: ``Max(-amount, 0)``."""
    return ctx.op("Max", [ctx.op("Neg", [amounts]), ctx.builder.scalar(0)])


def failing(
    ctx: Context, lengths: Lengths, sides: Sides, sizes: ir.Value, mode: str
) -> list[ir.Value]:
    """Return flags, each ``bool[B]``, of samples that Pad alone would have failed on.

    Args:
        ctx: The context.
        lengths: The lengths of the samples.
        sides: What is added.
        sizes: The lengths of the results, int64 ``[B]``.
        mode: The mode of Pad.
    """
    zero, flags = ctx.builder.scalar(0), []
    if not is_nonnegative(lengths.size + sides.begin + sides.end):
        flags.append(ctx.op("Less", [sizes, zero]))
    if not sides.may_cut:
        pairs = ((sides.begin, sides.begins), (sides.end, sides.ends))
        each = [ctx.op("Expand", [v, ctx.batch]) for n, v in pairs if not is_nonnegative(n)]
        flags += [ctx.op("Less", [amounts, zero]) for amounts in each]
    left = lengths.value
    if not sides.only_add:
        for amounts in (sides.begins, sides.ends):
            left = ctx.op("Sub", [left, _cut(ctx, amounts)])
        if Linear() not in (sides.begin, sides.end):
            flags.append(ctx.op("Less", [left, zero]))
    if mode in ("edge", "wrap"):
        has_none = ctx.op("LessOrEqual", [left, zero])
        flags.append(ctx.op("And", [has_none, ctx.op("Greater", [sizes, zero])]))
    elif mode == "reflect":
        most = ctx.op("Max", [ctx.op("Sub", [left, ctx.builder.scalar(1)]), zero])
        flags.append(ctx.op("Greater", [ctx.op("Max", [sides.begins, sides.ends]), most]))
    return flags


def rows_of_places(
    ctx: Context, places: ir.Value, columns: Sequence[ir.Value], sides: Sides, mode: str
) -> tuple[ir.Value, ir.Value | None]:
    """Return the row that stands at each place, and which places are no padding.

    Args:
        ctx: The context.
        places: Places in results, int64.
        columns: Of the sample of each place: its length, its first row, what it gains in front
            and behind; they broadcast with the places.
        sides: What is added.
        mode: The mode of Pad; every place of ``edge``, ``reflect`` and ``wrap`` is a row.
    """
    lengths, starts, begins, ends = columns
    zero, one = ctx.builder.scalar(0), ctx.builder.scalar(1)
    own = places if sides.begin == Linear() else ctx.op("Sub", [places, begins])
    if mode == "constant":
        inside = ctx.op("Less", [own, lengths])
        if sides.begin != Linear():
            inside = ctx.op("And", [inside, ctx.op("GreaterOrEqual", [own, zero])])
        return ctx.op("Add", [own, starts]), inside
    first, left = zero, lengths
    if not sides.only_add:
        first = _cut(ctx, begins)
        left = ctx.op("Sub", [ctx.op("Sub", [lengths, first]), _cut(ctx, ends)])
        own = ctx.op("Sub", [own, first])
    last = ctx.op("Sub", [left, one])
    if mode == "edge":
        own = ctx.op("Max", [ctx.op("Min", [own, last]), zero])
    elif mode == "reflect":
        turned = ctx.op("Sub", [last, ctx.op("Abs", [own])])
        own = ctx.op("Sub", [last, ctx.op("Abs", [turned])])
    else:
        own = ctx.op("Mod", [own, ctx.op("Max", [left, one])])
    return ctx.op("Add", [ctx.op("Add", [own, first]), starts]), None
