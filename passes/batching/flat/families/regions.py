"""RoiAlign in images of any size: the points of each region read the pixels of its own image.

The formulas, and the order of their operations in float32, are those of onnxruntime's CPU kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import sample_numbers
from passes.batching.flat.axis_table import largest, places
from passes.batching.flat.formula import Formula, added, integers, reals
from passes.batching.flat.moves import restacked
from passes.batching.flat.pixels import Pixels, pixels_of
from passes.batching.layouts import Batched, present
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import equally_long, failing_where
from passes.decisions import Code, Decline

__all__ = ["regions_of_images"]

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64


@dataclasses.dataclass(frozen=True)
class _Regions:
    """The regions of all samples, one behind the other.

    Attributes:
        corners: Their corners, float ``[T, 4]``.
        samples: The sample of each, int64 ``[T]``.
        lengths: How many each sample has; None where all have as many.
        like: A value ``[B, R, ...]`` where all have as many.
    """

    corners: ir.Value
    samples: ir.Value
    lengths: Lengths | None
    like: ir.Value | None = None

    def result(self, ctx: Context, value: ir.Value) -> Output:
        """Return a value of each region, ``[T, ...]``, as that of the samples."""
        if self.lengths is not None:
            return ctx.packed(value, self.lengths)
        assert self.like is not None
        return ctx.stacked(ctx.unmerged(value, self.like))


@dataclasses.dataclass(frozen=True)
class _Points:
    """The points of regions along rows or columns: ``[T, bins, points]``.

    Attributes:
        low: The pixel before each.
        high: The pixel behind it.
        to_low: The weight of the pixel before, 0 outside of the image.
        to_high: The weight of the pixel behind.
        counted: Which of the points a region has, None for all.
        count: How many it has in a bin, float ``[T, 1, 1]``, or ``[1, 1, 1]``.
    """

    low: Formula
    high: Formula
    to_low: Formula
    to_high: Formula
    counted: Formula | None
    count: Formula


def regions_of_images(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """One image in each sample; both of its sizes may differ.

    Raises:
        Decline: A sample has several images, or the regions lie across the samples.
    """
    x = ctx.operand(operands, 0, "X")
    if not (x.differs or x.is_packed):
        return restacked(ctx, node, operands)
    if x.rank != 4 or x.dims[0] != 1 or x.dtype != _FLOAT:
        raise Decline(Code.NO_RULE, "it is not of one image of float in each sample")
    regions = _regions(ctx, present(equally_long(ctx, operands[1:3])))
    pixels = pixels_of(ctx, x, ctx.unsqueeze(regions.samples, range(1, 5)))
    regions = dataclasses.replace(regions, corners=_in_some_pixels(ctx, regions.corners, pixels))
    is_half = ctx.attribute(node, "coordinate_transformation_mode", _default(ctx)) == "half_pixel"
    scale = float(ctx.attribute(node, "spatial_scale", 1.0))
    ratio = int(ctx.attribute(node, "sampling_ratio", 0))
    across, down = (
        _points(
            ctx,
            [_corner(ctx, regions, at + i) * scale - (0.5 if is_half else 0.0) for i in (0, 2)],
            ctx.squeeze(size.cast(_FLOAT).value, [3, 4]),
            int(ctx.attribute(node, name, 1)),
            ratio,
            least=None if is_half else 1.0,
        )
        for at, (name, size) in enumerate(
            (("output_width", pixels.width), ("output_height", pixels.height))
        )
    )
    is_greatest = ctx.attribute(node, "mode", "avg") == "max"
    value = (
        _greatest(ctx, pixels, down, across) if is_greatest else _mean(ctx, pixels, down, across)
    )
    return [regions.result(ctx, ctx.op("Transpose", [value.value], {"perm": [0, 3, 1, 2]}))]


def _default(ctx: Context) -> str:
    """Return the coordinates that are meant where none are named."""
    return "half_pixel" if ctx.opset >= 16 else "output_half_pixel"


def _regions(ctx: Context, given: Sequence[Batched]) -> _Regions:
    """Return the regions of all samples; it is an error at run time if one names another image."""
    rois, numbers = given
    if rois.dtype != _FLOAT:
        raise Decline(Code.NO_RULE, "its regions are not float")
    if all(one.lengths is not None and one.axis == 0 for one in given):
        lengths = rois.own_lengths
        samples, corners, which, like = lengths.samples, rois.value, numbers.value, None
    elif all(one.has_an_axis for one in given):
        lengths, like = None, ctx.expanded(rois)
        every = ctx.op("Expand", [sample_numbers(ctx, ctx.ints(1), 1), ctx.shape(like, 0, 2)])
        corners, samples = ctx.merged(like), ctx.merged(every)
        which = ctx.merged(ctx.expanded(numbers))
    else:
        raise Decline(Code.RAGGED, "its regions and their images differ in number")
    others = ctx.op("Not", [ctx.op("Equal", [which, ctx.ints(0)])])
    return _Regions(corners, failing_where(ctx, samples, [others]), lengths, like)


def _in_some_pixels(ctx: Context, corners: ir.Value, pixels: Pixels) -> ir.Value:
    """Return corners, an error at run time if a region lies in an image without a pixel."""
    is_none = (pixels.height * pixels.width).compare("Equal", 0)
    return failing_where(ctx, corners, [ctx.reshape(is_none.value, ctx.ints(-1))])


def _corner(ctx: Context, regions: _Regions, column: int) -> Formula:
    """Return a column of the corners, ``[T, 1, 1]``."""
    bounds = ctx.ints(column), ctx.ints(column + 1), ctx.ints(1)
    return reals(ctx, ctx.unsqueeze(ctx.op("Slice", [regions.corners, *bounds]), [2]))


def _points(
    ctx: Context,
    ends: Sequence[Formula],
    size: ir.Value,
    bins: int,
    ratio: int,
    *,
    least: float | None,
) -> _Points:
    """Return the points of regions along one axis.

    Args:
        ctx: The context.
        ends: Where the regions start and end, ``[T, 1, 1]``.
        size: How many pixels their images have, float ``[T, 1, 1]``.
        bins: How many bins a region has.
        ratio: How many points a bin has; 0 for as many as it has pixels.
        least: What no region is smaller than.
    """
    start, end = ends
    extent = end - start
    if least is not None:
        extent = extent.max(least)
    wide = extent / float(bins)
    if ratio > 0:
        count, numbers, counted = _constant(ctx, [ratio]), _constant(ctx, range(ratio)), None
    else:
        count = wide.ceil()
        numbers = _up_to(ctx, count)
        counted = numbers.compare("Less", count)
    before = reals(
        ctx, ctx.builder.constant(np.arange(bins, dtype=np.float32).reshape(1, bins, 1))
    )
    at = start + before * wide + (numbers + 0.5) * wide / count
    sizes = reals(ctx, size)
    inside = at.compare("GreaterOrEqual", -1.0).both(at.compare("LessOrEqual", sizes))
    at = inside.where(at, 0.0).max(0.0)
    last = sizes - 1.0
    low = at.floor().min(last)
    is_last = low.compare("Equal", last)
    beyond = is_last.where(0.0, at - low)
    to_low, to_high = (inside.where(w, 0.0) for w in (1.0 - beyond, beyond))
    return _Points(low, (low + 1.0).min(last), to_low, to_high, counted, count)


def _constant(ctx: Context, numbers: Sequence[int]) -> Formula:
    """Return numbers as ``[1, 1, N]``."""
    return reals(ctx, ctx.builder.constant(np.array([[numbers]], np.float32)))


def _up_to(ctx: Context, count: Formula) -> Formula:
    """Return ``0, 1, ...``, as many as the greatest count says, as ``[1, 1, points]``."""
    counts = ctx.reshape(count.cast(_INT64).value, ctx.ints(-1))
    return integers(ctx, places(ctx, largest(ctx, counts))).unsqueeze(1).cast(_FLOAT)


def _four(
    ctx: Context, pixels: Pixels, down: _Points, across: _Points
) -> list[tuple[Formula, Formula]]:
    """Return the weights and pixels around each point, ``[T, y, points, x, points, C]``."""
    found = []
    for row, of_row in ((down.low, down.to_low), (down.high, down.to_high)):
        for column, of_column in ((across.low, across.to_low), (across.high, across.to_high)):
            place = pixels.place(row.unsqueeze(3, 4), column.unsqueeze(1, 2))
            weight = of_row.unsqueeze(3, 4, 5) * of_column.unsqueeze(1, 2, 5)
            found.append((weight, pixels.at(ctx, place.value)))
    return found


def _counted(down: _Points, across: _Points) -> Formula | None:
    """Return which points a region has, ``[T, 1, points, 1, points, 1]``; None for all."""
    if down.counted is None or across.counted is None:
        return None
    return down.counted.unsqueeze(3, 4, 5).both(across.counted.unsqueeze(1, 2, 5))


def _mean(ctx: Context, pixels: Pixels, down: _Points, across: _Points) -> Formula:
    """Return the mean over the points of each bin, ``[T, y, x, C]``."""
    total = added([weight * value for weight, value in _four(ctx, pixels, down, across)])
    counted = _counted(down, across)
    if counted is not None:
        total = counted.where(total, 0.0)
    summed = reals(ctx, ctx.reduce("ReduceSum", total.value, [2, 4], keepdims=False))
    return summed / (down.count * across.count).max(1.0).unsqueeze(3)


def _greatest(ctx: Context, pixels: Pixels, down: _Points, across: _Points) -> Formula:
    """Return the greatest weighted pixel of each bin, ``[T, y, x, C]``; 0 without a point."""
    (weight, value), *others = _four(ctx, pixels, down, across)
    most = weight * value
    for weight, value in others:
        most = most.max(weight * value)
    counted = _counted(down, across)
    if counted is not None:
        most = counted.where(most, -np.inf)
    found = reals(ctx, ctx.reduce("ReduceMax", most.value, [2, 4], keepdims=False))
    is_none = down.count.min(across.count).compare("LessOrEqual", 0.0).unsqueeze(3)
    return is_none.where(0.0, found)
