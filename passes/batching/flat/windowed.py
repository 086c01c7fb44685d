"""Conv and pools of flat samples: padded behind to the largest, masked, and cut again.

What lies behind a sample is set to what the operator pads with, so that each sample sees exactly
its own padding. The sizes of the results follow from its own formula. Where the padding before a
sample hangs on its size, the samples stay apart. A sample that no window fits into is an error, as
it is alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.alone import flat_alone
from passes.batching.flat.axis_table import places
from passes.batching.flat.formula import integers
from passes.batching.flat.masked import cut_to, lengths_of, masked, stacked_rule
from passes.batching.flat.moves import one_place_each, restacked, rows_again
from passes.batching.flat.places import along
from passes.batching.flat.reading import as_stacked
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.decisions import Code, Decline
from passes.reading.integers import Linear

__all__ = ["convolution", "pool", "transposed"]

_CLIPPED = frozenset({"MaxPool", "LpPool"})
"""Operators to which what a window has beside a sample makes no difference."""


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
    kernel = ctx.attribute(node, "kernel_shape", weights.dims[2:])
    return _windowed(ctx, node, operands, kernel, 0.0)


def transposed(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """ConvTranspose: zeros behind an image add nothing to what it spreads."""
    (x, flat), weights = flat_alone(ctx, operands, "X"), ctx.operand(operands, 1, "W")
    if flat.has_one_shape:
        return restacked(ctx, node, operands)
    is_plain = ctx.attribute(node, "auto_pad", "NOTSET") == "NOTSET"
    if ctx.attribute(node, "output_shape") or not is_plain:
        raise Decline(Code.NO_RULE, "what it pads hangs on the size of an image")
    kernel = ctx.attribute(node, "kernel_shape", weights.dims[2:])
    window, sizes = _window(ctx, node, kernel), lengths_of(ctx, x)
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
    if node.op_type == "AveragePool" and not ctx.attribute(node, "count_include_pad", 0):
        return _averaged(ctx, node, operands, kernel)
    fill = -np.inf if node.op_type == "MaxPool" else 0.0
    return _windowed(ctx, node, operands, kernel, fill)


def _averaged(
    ctx: Context, node: ir.Node, operands: Sequence[Operand], kernel: Sequence[int | str | None]
) -> Sequence[Output]:
    """Average over the places of an image: the mean over all, by how many of them it has."""
    x, flat = flat_alone(ctx, operands, "X")
    given = {name: one.value for name, one in node.attributes.items()} | {"count_include_pad": 1}
    whole = ir.node(node.op_type, [], given)
    if flat.has_one_shape or not any(_window(ctx, node, kernel).pads):
        return _windowed(ctx, node, operands, kernel, 0.0)
    if not one_place_each(flat):
        x = rows_again(ctx, x)
    assert x.dtype is not None
    one = ctx.builder.constant(np.array(1, x.dtype.numpy()))
    ones = dataclasses.replace(x, value=ctx.op("Expand", [one, ctx.op("Shape", [x.value])]))
    (mean,), (share,) = (_windowed(ctx, whole, [v], kernel, 0.0) for v in (x, ones))
    assert mean.flat is not None
    return [ctx.flat(ctx.op("Div", [mean.value, share.value]), mean.flat)]


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
    sizes = lengths_of(ctx, x)
    checked = {axis: size.value for axis, size in sizes.items()}
    if node.op_type not in _CLIPPED:
        checked = {
            axis: failing_where(ctx, size, [_is_narrow(ctx, size, window, axis - 2)])
            for axis, size in checked.items()
        }
    takes_nothing = node.op_type.startswith("Conv")
    images = _padded(ctx, x, checked, window, fill, takes_nothing=takes_nothing)
    merged = ctx.merged(images, x.dims)
    others = [None if o is None else o.value for o in operands[1:]]
    (new,) = ctx.same(node, [merged, *others])
    whole = ctx.unmerged(new.value, images)
    result = Batched(Layout.STACKED, whole, x.type)
    left = {axis: _left(ctx, lengths, window, axis - 2) for axis, lengths in sizes.items()}
    return [cut_to(ctx, whole, result, x.rank, left)]


def _window(ctx: Context, node: ir.Node, kernel: Sequence[int | str | None]) -> _Window:
    """Return the window of an operator.

    Raises:
        Decline: It is not known, or what is padded hangs on the size of an image.
    """
    given = [k for k in kernel if isinstance(k, int)]
    if len(given) < len(kernel):
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells the size of its filters")
    ones = [1] * len(given)
    dilations = ctx.attribute(node, "dilations", ones)
    steps = tuple(ctx.attribute(node, "strides", ones))
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, given, strict=True))
    pads = tuple(ctx.attribute(node, "pads", [0] * (2 * len(given))))
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
    ctx: Context,
    x: Batched,
    sizes: dict[int, ir.Value],
    window: _Window,
    fill: float,
    *,
    takes_nothing: bool,
) -> ir.Value:
    """Return images padded behind to the largest, ``[B, N, C, *S]``.

    An image of no pixels is none but padding, or an error.
    """
    assert x.flat is not None and x.dtype is not None
    dtype = x.dtype.numpy()
    least = np.iinfo(dtype).min if np.isinf(fill) and dtype.kind in "iu" else fill
    around = ctx.builder.constant(np.array(least).astype(dtype))
    if takes_nothing and one_place_each(x.flat):
        value = masked(ctx, x, fill, sizes).value
    else:
        value = as_stacked(ctx, x)
        value = ctx.op("Where", [_inside(ctx, value, sizes, x.rank), value, around])
    # Of no image the largest is one place: a window has to fit there too.
    count = len(window.reach)
    spare = [
        max(r - 1 - b - e, 0)
        for r, b, e in zip(window.reach, window.pads[:count], window.pads[count:], strict=True)
    ]
    if not any(spare):
        return value
    pads = ctx.ints(*[0] * (x.rank + 1), *[0] * (x.rank + 1 - count), *spare)
    return ctx.op("Pad", [value, pads, around])


def _inside(ctx: Context, value: ir.Value, sizes: dict[int, ir.Value], rank: int) -> ir.Value:
    """Return which places of ``[B, *s]`` lie within their sample."""
    inside: ir.Value | None = None
    for axis, size in sizes.items():
        width = ctx.shape(value, axis + 1, axis + 2)
        one = ctx.op("Less", [places(ctx, width), ctx.unsqueeze(size, [1])])
        one = along(ctx, one, axis, rank)
        inside = one if inside is None else ctx.op("And", [inside, one])
    assert inside is not None
    return inside


def _left(ctx: Context, lengths: Lengths, window: _Window, i: int) -> Lengths:
    """Return the sizes of results along an axis: one object for windows that go alike.

    It is an error at run time if such a size were less than none.
    """
    step, spare = window.steps[i], _spare(window, i)

    def make() -> Lengths:
        left = (integers(ctx, lengths.value) + spare) / step + 1
        checked = failing_where(ctx, left.value, [left.compare("Less", 0).value])
        size = lengths.size + (spare + 1) if step == 1 else None
        return Lengths(ctx.builder, checked, size=size)

    return ctx.lengths_by((lengths.size + spare, Linear(step), Linear(-1)), make)


def _spare(window: _Window, i: int) -> int:
    """Return how many places there are beside one window, more than the sample has itself."""
    return window.pads[i] + window.pads[len(window.reach) + i] - window.reach[i]


def _is_narrow(ctx: Context, size: ir.Value, window: _Window, i: int) -> ir.Value:
    """Return which samples are smaller than a window along an axis, bool ``[B]``."""
    return (integers(ctx, size) + _spare(window, i)).compare("Less", 0).value
