"""Conv and pools of flat samples: padded behind to the largest, masked, and cut again.

What lies behind a sample is set to what the operator pads with, so that each sample sees exactly
its own padding. The sizes of the results follow from its own formula. Where the padding before a
sample hangs on its size, the sample is padded first. A sample that no window fits into is an
error, as it is alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.masked import cut_to, lengths_of, masked
from passes.batching.flat.families.window_sizes import ImageWindow, is_narrow, left, window_of
from passes.batching.flat.families.windows import padded_along
from passes.batching.flat.formula import integers
from passes.batching.flat.moves import (
    flat_alone,
    one_place_each,
    read_off,
    stacked_rule,
)
from passes.batching.flat.places import inside
from passes.batching.flat.reading import as_stacked
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.decisions import Code, Decline

__all__ = ["convolution", "pool", "transposed"]

_CLIPPED = frozenset({"MaxPool", "LpPool"})
"""Operators to which what a window has beside a sample makes no difference."""


def convolution(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Convolve images of several sizes by filters that all share."""
    weights = ctx.operand(operands, 1, "W")
    if any(x is not None and not x.is_shared for x in operands[1:]):
        raise Decline(Code.BATCHED_OPERAND, "its filters differ from sample to sample")
    kernel = ctx.attribute(node, "kernel_shape", weights.dims[2:])
    return _windowed(ctx, node, operands, kernel, 0.0)


def transposed(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """ConvTranspose: zeros behind an image add nothing to what it spreads."""
    (x, _), weights = flat_alone(ctx, operands, "X"), ctx.operand(operands, 1, "W")
    is_plain = ctx.attribute(node, "auto_pad", "NOTSET") == "NOTSET"
    if ctx.attribute(node, "output_shape") or not is_plain:
        raise Decline(Code.NO_RULE, "what it pads hangs on the size of an image")
    kernel = ctx.attribute(node, "kernel_shape", weights.dims[2:])
    window, sizes = window_of(ctx, node, kernel), lengths_of(ctx, x)
    if min(sizes) < 2:
        raise Decline(Code.RAGGED, "images differ in number, or in their channels")
    spare = ctx.attribute(node, "output_padding", [0] * len(window.reach))
    (made,) = stacked_rule(ctx, node, [masked(ctx, x), *operands[1:]])
    cut = {}
    for axis, lengths in sizes.items():
        i = axis - 2
        more = window.reach[i] + spare[i] - window.pads[i] - window.pads[len(spare) + i]
        wide = (integers(ctx, lengths.value) - 1) * window.steps[i] + more
        total = lengths.size * window.steps[i] + (more - window.steps[i])
        cut[axis] = Lengths(ctx.builder, wide.max(0).value, size=total)
    return [cut_to(ctx, made.value, x, x.rank, cut)]


def pool(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Pool images of several sizes."""
    if len([value for value in node.outputs if value.name]) > 1:
        raise Decline(Code.NO_RULE, "the places of the greatest differ with the size of an image")
    kernel = ctx.attribute(node, "kernel_shape")
    if node.op_type == "AveragePool":
        window = window_of(ctx, node, kernel)
        pads = bool(window.evens) or any(window.pads)
        counts = pads and ctx.attribute(node, "count_include_pad", 0)
        if counts and window.rounds_up:
            raise Decline(Code.NO_RULE, "rounded up, its last window counts a part of the padding")
        if not counts and (pads or window.rounds_up):
            return _averaged(ctx, node, operands, kernel)
    fill = -np.inf if node.op_type == "MaxPool" else 0.0
    return _windowed(ctx, node, operands, kernel, fill)


def _averaged(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], kernel: Sequence[int | str | None]
) -> Sequence[Output]:
    """Average over the places of an image: the mean over all, by how many of them it has."""
    x, _ = flat_alone(ctx, operands, "X")
    given = {name: one.value for name, one in node.attributes.items()} | {"count_include_pad": 1}
    whole = ir.node(node.op_type, [], given)
    x = read_off(ctx, x)
    assert x.dtype is not None
    one = ctx.builder.constant(np.array(1, x.dtype.numpy()))
    ones = dataclasses.replace(x, value=ctx.op("Expand", [one, ctx.op("Shape", [x.value])]))
    (mean,), (share,) = (_windowed(ctx, whole, [v], kernel, 0.0) for v in (x, ones))
    return [ctx.flat(ctx.op("Div", [mean.value, share.value]), mean.own_flat)]


def _windowed(
    ctx: Context,
    node: ir.Node,
    operands: Sequence[Operand],
    kernel: Sequence[int | str | None],
    fill: float,
) -> Sequence[Output]:
    x = ctx.operand(operands, 0, "X")
    flat = x.flat
    if flat is None:
        raise Decline(Code.BATCHED_OPERAND, "what it goes by differs along several axes")
    ragged = [axis for axis in range(x.rank) if flat.is_ragged(axis)]
    if ragged[0] < 2:
        raise Decline(Code.RAGGED, "images differ in number, or in their channels")
    window = window_of(ctx, node, kernel)
    sizes = lengths_of(ctx, x)
    counts = {axis: left(ctx, lengths, window, axis - 2) for axis, lengths in sizes.items()}
    changed: dict[str, Any] = {}
    if window.evens:
        x, window = _evened(ctx, x, window, fill)
        sizes = lengths_of(ctx, x)
        changed = {"auto_pad": "NOTSET", "pads": window.pads}
    takes_nothing = node.op_type.startswith("Conv")
    checked = {axis: size.value for axis, size in sizes.items()}
    if node.op_type not in _CLIPPED and not window.rounds_up:
        for axis, size in checked.items():
            narrow = is_narrow(ctx, size, window, axis - 2, may_yield_none=not takes_nothing)
            checked[axis] = failing_where(ctx, size, [narrow])
    images = _padded(ctx, x, checked, window, fill, takes_nothing=takes_nothing)
    merged = ctx.merged(images, x.dims)
    others = [None if o is None else o.value for o in operands[1:]]
    (new,) = ctx.same(node, [merged, *others], changed)
    whole = ctx.unmerged(new.value, images)
    result = Batched(Layout.STACKED, whole, x.type)
    return [cut_to(ctx, whole, result, x.rank, counts)]


def _evened(
    ctx: Context, x: Batched, window: ImageWindow, fill: float
) -> tuple[Batched, ImageWindow]:
    """Pad each image by its own size, as SAME does, and return the window that pads no more.

    Raises:
        Decline: All images share a size along an axis, and nothing tells it.
    """
    x = read_off(ctx, x)
    flat, count = x.flat, len(window.reach)
    assert flat is not None
    tables, pads = list(flat.tables), [0] * (2 * count)
    for i in range(count):
        axis = x.rank - count + i
        if flat.is_ragged(axis):
            at = flat.order[axis]
            before, behind = window.evened(integers(ctx, flat.size(at)), i)
            tables[at] = padded_along(ctx, flat, at, before, behind)
            continue
        size = x.dims[axis]
        if not isinstance(size, int):
            raise Decline(Code.UNKNOWN_SHAPE, "nothing tells a size that its padding hangs on")
        pads[i], pads[count + i] = window.evened_for_all(size, i)
    made = dataclasses.replace(flat, tables=tuple(tables), fill=_around(ctx, x, fill))
    return dataclasses.replace(x, flat=made), dataclasses.replace(
        window, pads=tuple(pads), evens=""
    )


def _padded(
    ctx: Context,
    x: Batched,
    sizes: dict[int, ir.Value],
    window: ImageWindow,
    fill: float,
    *,
    takes_nothing: bool,
) -> ir.Value:
    """Return images padded behind to the largest, ``[B, N, C, *S]``.

    An image of no pixels is none but padding, or an error.
    """
    around = _around(ctx, x, fill)
    if takes_nothing and one_place_each(x.own_flat):
        value = masked(ctx, x, fill, sizes).value
    else:
        value = as_stacked(ctx, x)
        mask = inside(ctx, value, sizes, x.rank)
        assert mask is not None  # some axis is ragged
        value = ctx.op("Where", [mask, value, around])
    # Of no image the largest is one place: a window has to fit there too.
    count = len(window.reach)
    ragged = [i for i in range(count) if x.rank - count + i in sizes]
    spare = [max(-window.spare(i) - 1, 0) if i in ragged else 0 for i in range(count)]
    if not any(spare):
        return value
    pads = ctx.ints(*[0] * (x.rank + 1), *[0] * (x.rank + 1 - count), *spare)
    return ctx.op("Pad", [value, pads, around])


def _around(ctx: Context, x: Batched, fill: float) -> ir.Value:
    """Return the number beside images; for the least of all, the least that is finite.

    It is what a maximum over nothing but padding is, ``-inf`` is not.
    """
    least = x.element_type.min if np.isinf(fill) else fill
    return ctx.builder.constant(np.array(least).astype(x.element_type.numpy()))
