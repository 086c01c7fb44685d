"""GridSample of images of any size, by grids that all share, that each has, or of any size, too.

The formulas, and the order of their operations in float32, are those of onnxruntime's CPU kernel.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.entries import with_samples
from passes.batching.flat.formula import Formula, reals
from passes.batching.flat.laying import packed_laid_out
from passes.batching.flat.pixels import Pixels, pixels_of
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline

__all__ = ["grid_sample"]

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64
_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""What opset 16 calls the modes."""

_KEYS = -0.75
"""The coefficient of the cubic polynomials."""

_FARTHEST = 1e18
"""Places of points beyond it are no integers of 64 bits."""


@dataclasses.dataclass(frozen=True)
class _Axis:
    """Rows or columns, as the points of a grid read them.

    Attributes:
        size: How many there are for each point, float.
        ends: Where what lies outside is mirrored.
        padding: The attribute ``padding_mode``.
    """

    size: Formula
    ends: tuple[Formula, Formula]
    padding: str

    def brought_in(self, x: Formula) -> Formula:
        """Return coordinates as they are clamped or mirrored; zeros stay outside."""
        low, high = self.ends
        if self.padding == "zeros":
            return x
        below, above = x.compare("Less", low), x.compare("Greater", high)
        if self.padding == "border":
            inside = x.min(self.size - 1.0).max(0.0)
            return below.where(inside, above.where(inside, x))
        return below.where(self._mirrored(low - x, low, high), above.where(
            self._mirrored(x - high, high, low), x))  # fmt: skip

    def _mirrored(self, beyond: Formula, near: Formula, far: Formula) -> Formula:
        """Return what lies beyond one end, mirrored there and back."""
        span = (far - near).abs()
        is_none = span.compare("Equal", 0.0)
        times = (beyond / is_none.where(1.0, span)).floor()
        rest = beyond - times * span
        is_even = (times - (times / 2.0).floor() * 2.0).compare("Equal", 0.0)
        inwards = (far - near).sign() * rest
        return is_none.where(near, is_even.where(near + inwards, far - inwards))

    def place(self, whole: Formula) -> tuple[Formula, Formula | None]:
        """Return places that are there for whole numbers, and which of them are; None for all."""
        inside = whole.min(self.size - 1.0).max(0.0)
        if self.padding == "border":
            return inside, None
        if self.padding == "reflection":
            found = self.brought_in(whole)
            # What becomes a whole number is cut off.
            return found.cast(_INT64).cast(_FLOAT).min(self.size - 1.0).max(0.0), None
        return inside, inside.compare("Equal", whole)


def _read(
    ctx: Context, pixels: Pixels, down: _Axis, across: _Axis, y: Formula, x: Formula
) -> Formula:
    """Return the pixels at whole numbers, ``[..., C]``; those outside have zeros."""
    (row, has_row), (column, has_column) = down.place(y), across.place(x)
    value = pixels.at(ctx, _without_last(ctx, pixels.place(row, column).value))
    if has_row is None or has_column is None:
        return value
    return has_row.both(has_column).where(value, 0.0)


def grid_sample(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """One image in each sample; both its sizes may differ.

    Raises:
        Decline: A sample has several images, or they have more than two axes.
    """
    x, points = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "grid")
    given = str(ctx.attribute(node, "mode", "linear"))
    mode = _MODES.get(given, given)
    if x.rank != 4 or x.dims[0] != 1 or points.dims[0] != 1 or x.dtype != _FLOAT:
        raise Decline(Code.NO_RULE, "it is not of one image of float in each sample")
    if points.dtype != _FLOAT:
        raise Decline(Code.NO_RULE, "its points are no floats")
    held, samples = with_samples(ctx, _laid(ctx, points))
    pixels = pixels_of(ctx, x, samples)
    sizes = pixels.width.cast(_FLOAT), pixels.height.cast(_FLOAT)
    is_aligned = bool(ctx.attribute(node, "align_corners", 0))
    padding = str(ctx.attribute(node, "padding_mode", "zeros"))
    found = []
    axes = []
    for position, size in enumerate(sizes):
        start = ctx.ints(position), ctx.ints(position + 1), ctx.ints(-1)
        n = _on_one(reals(ctx, ctx.op("Slice", [held.value, *start]))) + 1.0
        at = n / 2.0 * (size - 1.0) if is_aligned else (n * size - 1.0) / 2.0
        ends = (size * 0.0, size - 1.0) if is_aligned else (size * 0.0 - 0.5, size - 0.5)
        axes.append(_Axis(size, ends, padding))
        at = at.on(lambda v: ctx.op("Round", [v])) if mode == "nearest" else at
        # Weights of a cubic hang on how far a point lies beyond a border.
        is_kept = mode == "cubic" and padding == "border"
        found.append(at if is_kept else axes[-1].brought_in(at))
    (across, down), (at_x, at_y) = axes, found
    value = _BY_MODE[mode](ctx, pixels, down, across, at_y, at_x)
    return [_in_front(ctx, value.value, held)]


def _on_one(points: Formula) -> Formula:
    """Return points with -1 for what is no number, or too large for a place, as the kernel does.

    ``linspace(-1, 1, h)`` is a division of 0 by 0 where ``h`` is 1.
    """
    return points.abs().compare("Less", _FARTHEST).where(points, -1.0)


def _linear(
    ctx: Context, pixels: Pixels, down: _Axis, across: _Axis, y: Formula, x: Formula
) -> Formula:
    """Return the weighted sum of the four pixels around each point."""
    top, left = y.floor(), x.floor()
    bottom, right = top + 1.0, left + 1.0
    p = [
        _read(ctx, pixels, down, across, *one)
        for one in itertools.product((top, bottom), (left, right))
    ]
    above = p[0] * (right - x) + p[1] * (x - left)
    below = p[2] * (right - x) + p[3] * (x - left)
    return above * (bottom - y) + below * (y - top)


def _cubic(
    ctx: Context, pixels: Pixels, down: _Axis, across: _Axis, y: Formula, x: Formula
) -> Formula:
    """Return the weighted sum of the sixteen pixels around each point, row by row."""
    top, left = y.floor() - 1.0, x.floor() - 1.0
    columns = [left + float(i) for i in range(4)]
    by_column, by_row = _weights(x - left - 1.0), _weights(y - top - 1.0)
    rows = []
    for i in range(4):
        line = [_read(ctx, pixels, down, across, top + float(i), one) for one in columns]
        rows.append(_weighted(line, by_column))
    return _weighted(rows, by_row)


def _weights(beyond: Formula) -> list[Formula]:
    """Return the weights of four places by how far a point lies behind the second one."""
    a = _KEYS
    ahead = 1.0 - beyond
    outer = [((x * a - 5 * a) * x + 8 * a) * x - 4 * a for x in (beyond + 1.0, 2.0 - beyond)]
    inner = [(x * (a + 2) - (a + 3)) * x * x + 1.0 for x in (beyond, ahead)]
    return [outer[0], *inner, outer[1]]


def _weighted(values: Sequence[Formula], weights: Sequence[Formula]) -> Formula:
    terms = [value * weight for value, weight in zip(values, weights, strict=True)]
    return terms[0] + terms[1] + terms[2] + terms[3]


_BY_MODE = {"nearest": _read, "linear": _linear, "cubic": _cubic}


def _laid(ctx: Context, points: Batched) -> Batched:
    return packed_laid_out(ctx, points) if points.is_packed else points


def _without_last(ctx: Context, value: ir.Value) -> ir.Value:
    """Return a value without its last axis, of size 1."""
    return ctx.op("Squeeze", [value, ctx.ints(-1)])


def _in_front(ctx: Context, value: ir.Value, held: Batched) -> Output:
    """Return ``[1, y, x, C]`` of each sample as ``[1, C, y, x]``."""
    if held.flat is None:
        return ctx.stacked(ctx.op("Transpose", [value], {"perm": [0, 1, 4, 2, 3]}))
    return ctx.flat(value, dataclasses.replace(held.flat, order=(0, 3, 1, 2)))
