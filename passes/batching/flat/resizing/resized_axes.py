"""The numbers of the axes that a Resize of flat samples changes: sizes, scales and places.

By scales of 1.5, ``[2, 3]`` has the sizes ``[3, 4]``, and by the sizes ``[4, 6]`` scales of 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.flat.axis_table import largest, places
from passes.batching.flat.formula import Formula, integers, reals
from passes.batching.flat.resizing.coordinates import ResizedAxis
from passes.batching.flat.resizing.size_changes import SizeChange
from passes.batching.flat.samples import FlatSamples
from passes.batching.packed.checks import failing_where

__all__ = ["resized_axes"]

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64


def resized_axes(
    ctx: Context, node: ir.Node, flat: FlatSamples, changes: Sequence[SizeChange]
) -> list[ResizedAxis]:
    """Return the numbers of each axis that changes."""
    policy = ctx.attribute(node, "keep_aspect_ratio_policy", "stretch")
    keeps_ratio = changes[0].is_size and policy != "stretch"
    sizes = [_some(ctx, flat, c) if keeps_ratio else flat.size(c.at) for c in changes]
    before = [integers(ctx, size).cast(_FLOAT) for size in sizes]
    if changes[0].is_size:
        given = [integers(ctx, c.amount).cast(_FLOAT) for c in changes]
        scales = [size / n for size, n in zip(given, before, strict=True)]
        after = given
        if policy != "stretch":
            scale = scales[0]
            for other in scales[1:]:
                scale = scale.min(other) if policy == "not_larger" else scale.max(other)
            scales = [scale] * len(changes)
            after = [_rounded(scale * n) for n in before]
    else:
        scales = [reals(ctx, c.amount) for c in changes]
        after = [(scale * n).floor() for scale, n in zip(scales, before, strict=True)]
    kept = _kept(changes, before, after)
    found = []
    for change, n, m, scale in zip(changes, before, after, scales, strict=True):
        whole = m.cast(_INT64).value
        width = whole if change.is_one else largest(ctx, whole)
        at = integers(ctx, places(ctx, width)).cast(_FLOAT)
        n, m, scale = n.unsqueeze(1), m.unsqueeze(1), scale.unsqueeze(1)
        found.append(ResizedAxis(change.at, whole, change.is_one, at, n, m, scale, kept))
    return found


def _some(ctx: Context, flat: FlatSamples, change: SizeChange) -> ir.Value:
    """Return the sizes of an axis; it is an error at run time to make something of nothing.

    By its ratio an image without a row would become one without a row, and be padded in silence.
    """
    size = flat.size(change.at)
    is_none = integers(ctx, size).compare("Equal", 0)
    asked = integers(ctx, change.amount).compare("Greater", 0)
    return failing_where(ctx, size, [is_none.both(asked).value])


def _rounded(x: Formula) -> Formula:
    """Return numbers rounded, halves up."""
    below = x.floor()
    return below + (x - below).compare("GreaterOrEqual", 0.5).cast(x.dtype)


def _kept(
    changes: Sequence[SizeChange], before: Sequence[Formula], after: Sequence[Formula]
) -> Formula | None:
    """Return which samples are copied: those that keep their size although a scale is not 1."""
    if changes[0].is_size:
        return None
    kept = before[0].compare("Equal", after[0])
    for n, m in zip(before[1:], after[1:], strict=True):
        kept = kept.both(n.compare("Equal", m))
    return kept.unsqueeze(1)
