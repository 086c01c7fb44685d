"""Conv and pools of flat samples: padded behind to the largest, masked, and cut again.

What lies behind a sample is set to what the operator pads with, so that each sample sees exactly
its own padding. The sizes of the results follow from its own formula. Where the padding before a
sample hangs on its size, the samples stay apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.axis_table import picked, places
from passes.batching.flat.formula import integers
from passes.batching.flat.laying import laid_out
from passes.batching.flat.moves import restacked
from passes.batching.flat.places import along
from passes.batching.flat.reading import as_stacked
from passes.batching.layouts import Batched, Layout
from passes.decisions import Code, Decline
from passes.typing import ValueType

__all__ = ["convolution", "pool"]


@dataclasses.dataclass(frozen=True)
class _Window:
    """What an operator reads for one place of its result, along each axis of an image.

    Attributes:
        reach: How many places lie between the first and the one behind the last.
        steps: From one place of the result to the next.
        pads: How many places are added before and behind.
    """

    reach: tuple[int, ...]
    steps: tuple[int, ...]
    pads: tuple[int, ...]


def convolution(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Convolve images of several sizes by filters that all share."""
    weights = ctx.operand(operands, 1, "W")
    if any(x is not None and not x.is_shared for x in operands[1:]):
        raise Decline(Code.BATCHED_OPERAND, "its filters differ from sample to sample")
    kernel = ctx.attribute(node, "kernel_shape") or weights.dims[2:]
    return _windowed(ctx, node, operands, kernel, 0.0)


def pool(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Pool images of several sizes."""
    if len([value for value in node.outputs if value.name]) > 1:
        raise Decline(Code.NO_RULE, "the places of the greatest differ with the size of an image")
    fill = -np.inf if node.op_type == "MaxPool" else 0.0
    if node.op_type == "AveragePool" and not ctx.attribute(node, "count_include_pad", 0):
        fill = np.nan
    return _windowed(ctx, node, operands, ctx.attribute(node, "kernel_shape"), fill)


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
    if flat.has_one_shape:
        return restacked(ctx, node, operands)
    ragged = [axis for axis in range(x.rank) if flat.is_ragged(axis)]
    if ragged[0] < 2:
        raise Decline(Code.RAGGED, "images differ in number, or in their channels")
    window = _window(ctx, node, kernel)
    if np.isnan(fill) and any(window.pads):
        raise Decline(Code.NO_RULE, "it averages over fewer places where it has padded")
    sizes = {axis: flat.size(flat.order[axis]) for axis in ragged}
    images = _padded(ctx, x, sizes, window, 0.0 if np.isnan(fill) else fill)
    merged = ctx.merged(images, x.dims)
    others = [None if o is None else o.value for o in operands[1:]]
    (new,) = ctx.same(node, [merged, *others])
    whole = ctx.unmerged(new.value, images)
    result = Batched(Layout.STACKED, whole, ctx.type_of(node.outputs[0]))
    return [_cut(ctx, result, sizes, window)]


def _window(ctx: Context, node: ir.Node, kernel: Sequence[int | str | None]) -> _Window:
    """Return the window of an operator.

    Raises:
        Decline: It is not known, or what is padded hangs on the size of an image.
    """
    given = [k for k in kernel if isinstance(k, int)]
    if len(given) < len(kernel):
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells the size of its filters")
    ones = [1] * len(given)
    dilations = ctx.attribute(node, "dilations") or ones
    steps = tuple(ctx.attribute(node, "strides") or ones)
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, given, strict=True))
    pads = tuple(ctx.attribute(node, "pads") or [0] * (2 * len(given)))
    auto = ctx.attribute(node, "auto_pad", "NOTSET")
    if ctx.attribute(node, "ceil_mode", 0):
        raise Decline(Code.NO_RULE, "rounded up, its last window hangs on the size of an image")
    if auto.startswith("SAME"):
        if any(step > 1 for step in steps):
            raise Decline(Code.NO_RULE, "what it pads with SAME hangs on the size of an image")
        halves = [(r - 1) // 2 for r in reach]
        others = [r - 1 - half for r, half in zip(reach, halves, strict=True)]
        pads = (*halves, *others)
    elif auto == "VALID":
        pads = tuple([0] * len(pads))
    return _Window(reach, steps, pads)


def _padded(
    ctx: Context, x: Batched, sizes: dict[int, ir.Value], window: _Window, fill: float
) -> ir.Value:
    """Return images padded behind to the largest, ``[B, N, C, *S]``."""
    value, rank = as_stacked(ctx, x), x.rank
    inside: ir.Value | None = None
    for axis, size in sizes.items():
        width = ctx.shape(value, axis + 1, axis + 2)
        one = ctx.op("Less", [places(ctx, width), ctx.unsqueeze(size, [1])])
        one = along(ctx, one, axis, rank)
        inside = one if inside is None else ctx.op("And", [inside, one])
    assert inside is not None and x.dtype is not None
    dtype = x.dtype.numpy()
    least = np.iinfo(dtype).min if np.isinf(fill) and dtype.kind in "iu" else fill
    around = ctx.builder.constant(np.array(least).astype(dtype))
    value = ctx.op("Where", [inside, value, around])
    # Of no image the largest is one place: a window has to fit there too.
    count = len(window.reach)
    spare = [
        max(r - 1 - b - e, 0)
        for r, b, e in zip(window.reach, window.pads[:count], window.pads[count:], strict=True)
    ]
    if not any(spare):
        return value
    pads = ctx.ints(*[0] * (rank + 1), *[0] * (rank + 1 - count), *spare)
    return ctx.op("Pad", [value, pads, around])


def _cut(ctx: Context, result: Batched, sizes: dict[int, ir.Value], window: _Window) -> Output:
    """Return the results of images of these sizes, which lie in front."""
    dims = tuple(None if a in sizes else d for a, d in enumerate(result.dims))
    whole = dataclasses.replace(result, type=ValueType(result.type.type, dims))
    x = laid_out(ctx, whole, list(sizes))
    flat, count = x.flat, len(window.reach)
    assert flat is not None
    tables = list(flat.tables)
    for axis, size in sizes.items():
        i, at = axis - 2, flat.order[axis]
        spare = window.pads[i] + window.pads[count + i] - window.reach[i]
        left = ((integers(ctx, size) + spare) / window.steps[i] + 1).max(0)
        where = places(ctx, ctx.shape(whole.value, axis + 1, axis + 2))
        tables[at] = picked(ctx, flat, at, where, left.value, is_fixed=False, may_miss=False)
    return ctx.flat(x.value, dataclasses.replace(flat, tables=tuple(tables)))
