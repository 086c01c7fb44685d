"""The pixels of images of any size, as points that each have an image read them.

A point of the second of images ``[2, 3]`` and ``[1, 4]`` that reads row 0 and column 2 reads the
row 8 of all ten.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.flat.formula import Formula, reals
from passes.batching.flat.grid import Grid
from passes.batching.flat.laying import packed_laid_out
from passes.batching.layouts import Batched, Layout
from passes.batching.packed.control.some_samples import rows_and_sides

__all__ = ["Pixels", "pixels_of"]

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64


@dataclasses.dataclass(frozen=True)
class Pixels:
    """The pixels of all images, ``[P, C]``, and where a point's image has them.

    Attributes:
        rows: The pixels.
        first: The first one of each point's image, int64.
        height: How many rows it has, int64.
        width: How many pixels make a row there, int64.
    """

    rows: ir.Value
    first: Formula
    height: Formula
    width: Formula

    def place(self, row: Formula, column: Formula) -> Formula:
        """Return which pixels lie at whole numbers inside of the images."""
        return self.first + row.cast(_INT64) * self.width + column.cast(_INT64)

    def at(self, ctx: Context, place: ir.Value) -> Formula:
        """Return pixels, ``[..., C]``."""
        return reals(ctx, ctx.op("Gather", [self.rows, place], {"axis": 0}))


def pixels_of(ctx: Context, x: Batched, samples: ir.Value) -> Pixels:
    """Return the pixels of images ``[1, C, h, w]``.

    Args:
        ctx: The context.
        x: The images, of floats, in any layout but apart.
        samples: The image of each point.
    """
    rows, sides = rows_and_sides(ctx, _channels_last(ctx, x), 2)
    grid = Grid.of_sides(ctx.builder, sides, ctx.batch)
    first, height, width = (
        Formula(ctx, ctx.op("Gather", [v, samples], {"axis": 0}), _INT64)
        for v in (grid.base, grid.column(0), grid.column(1))
    )
    return Pixels(ctx.squeeze(rows, [1]), first, height, width)


def _channels_last(ctx: Context, x: Batched) -> Batched:
    """Return images ``[1, C, h, w]`` as ``[h, w, 1, C]``."""
    order = (2, 3, 0, 1)
    held = packed_laid_out(ctx, x) if x.is_packed else x
    if held.is_flat:
        return held.permuted(order)
    value = ctx.op("Transpose", [ctx.expanded(x)], {"perm": [0, *(axis + 1 for axis in order)]})
    return dataclasses.replace(x.permuted(order), value=value, layout=Layout.STACKED)
