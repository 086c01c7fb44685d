"""Resizing images and sampling them at other points."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import unmerge_outputs, volume
from passes.batching.flat.resizing.resize import resize_apart
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline
from passes.graph.builder import END

__all__ = ["affine_grid", "resize"]

_FIRST_AXES_OPSET = 18


def affine_grid(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Matrices ``[N, ...]``: the samples join the axis ``N``, which ``size[0]`` must be."""
    theta = ctx.operand(operands, 0, "theta")
    size = ctx.require_shared(ctx.operand(operands, 1, "size"), "size")
    assert size is not None
    count = ctx.op("Mul", [ctx.batch, ctx.op("Slice", [size, ctx.ints(0), ctx.ints(1)])])
    rest = ctx.op("Slice", [size, ctx.ints(1), ctx.ints(END)])
    merged = ctx.op("Concat", [count, rest], {"axis": 0})
    new = ctx.same(node, [ctx.merged(theta.value), merged])
    return unmerge_outputs(ctx, new, theta.value)


@dataclasses.dataclass(frozen=True)
class _Resize:
    """A Resize as its rule reads it.

    Attributes:
        node: The node.
        x: The images.
        roi: The crop, where the node uses it.
        scales: The scales, if they count.
        sizes: The sizes, if they count.
        axes: The axes of a sample that roi, scales and sizes speak of, none negative.
    """

    node: ir.Node
    x: Batched
    roi: Operand
    scales: Operand
    sizes: Operand
    axes: tuple[int, ...]

    @property
    def keeps_ratio(self) -> bool:
        policy = self.node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
        return self.sizes is not None and policy != "stretch"

    def is_resized(self, ctx: Context, axis: int) -> bool | None:
        """Whether an axis of a sample changes; None if that is not known here."""
        if axis not in self.axes:
            return False
        if self.roi is not None or self.keeps_ratio:
            return True
        position, dim = self.axes.index(axis), self.x.dims[axis]
        if self.sizes is not None:
            sizes = ctx.constant(self.sizes)
            if sizes is None or not isinstance(dim, int):
                return None
            return bool(sizes[position] != dim)
        scales = ctx.constant(self.scales)
        return None if scales is None else bool(scales[position] != 1)


def resize(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Resize each sample: the batch axis goes in front, or joins the first axis.

    Any rank can be resized to the nearest element. Otherwise onnxruntime knows only some ranks:
    ``[H, W]``, ``[D, H, W]``, and these behind two axes that stay as they are. A sample of rank 4
    and more has such a first axis, which the samples join.
    """
    mode = node.attributes.get_string("coordinate_transformation_mode")
    reads = (1, 2, 3) if mode == "tf_crop_and_resize" else (2, 3)
    amounts = [x for x in (ctx.optional(operands, i) for i in reads) if x is not None]
    if ctx.takes_flat and any(x.is_stacked for x in amounts):
        return resize_apart(ctx, node, operands)
    r = _read(ctx, node, operands)
    if node.attributes.get_string("mode", "nearest") == "nearest" or r.x.rank <= 1:
        return _with_new_axes(ctx, r, 1)
    if r.x.rank >= 4:
        return _with_new_axes(ctx, r, 1) if r.is_resized(ctx, 0) else _merged(ctx, r)
    return _with_new_axes(ctx, r, 1 if _is_image_with_channels(ctx, r) else 2)


def _is_image_with_channels(ctx: Context, r: _Resize) -> bool:
    """Whether a sample is better resized as two axes beside its channels than as three axes.

    The kernel for two axes is faster and known to more runtimes, but gives other integers than
    the one for three, which resizes a single sample.
    """
    if r.x.rank != 3:
        return False
    if r.node.attributes.get_string("mode") == "cubic":
        return True
    floats = r.x.dtype is not None and r.x.dtype.is_floating_point()
    return floats and False in (r.is_resized(ctx, 0), r.is_resized(ctx, 2))


def _read(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> _Resize:
    x = ctx.operand(operands, 0, "X")
    roi, scales, sizes = (ctx.optional(operands, i) for i in (1, 2, 3))
    for operand, name in ((roi, "roi"), (scales, "scales"), (sizes, "sizes")):
        ctx.require_shared(operand, name)
    rank = x.rank
    axes = node.attributes.get_ints("axes", range(rank))
    crops = node.attributes.get_string("coordinate_transformation_mode") == "tf_crop_and_resize"
    return _Resize(
        node,
        x,
        roi if crops else None,
        scales if sizes is None else None,
        sizes,
        tuple(a % rank for a in axes),
    )


def _inputs(
    ctx: Context, r: _Resize, x: ir.Value, roi: ir.Value | None, amounts: ir.Value
) -> list[ir.Value | None]:
    """Return the inputs of the new node; what does not count is left out, or empty."""
    none = None if ctx.opset >= _MAY_LEAVE_OUT else ctx.builder.constant(np.zeros(0, np.float32))
    given = [x, none if roi is None else roi]
    return [*given, amounts] if r.scales is not None else [*given, none, amounts]


_MAY_LEAVE_OUT = 13
"""The first opset in which Resize may lack the region or the scales."""


def _with_new_axes(ctx: Context, r: _Resize, count: int) -> Sequence[Output]:
    """Resize ``[B, *s]`` (``count`` 1) or ``[B, 1, *s]`` (``count`` 2), new axes as they are."""
    x = ctx.unsqueeze(r.x.value, range(1, count))
    amounts = r.scales if r.scales is not None else r.sizes
    if amounts is None:
        raise Decline(Code.NO_RULE, "neither scales nor sizes are given")
    roi = None if r.roi is None else r.roi.value
    attributes = {}
    if ctx.opset >= _FIRST_AXES_OPSET:
        attributes["axes"] = [a + count for a in r.axes]
        changed = amounts.value
    elif r.scales is not None:
        ones = ctx.builder.constant(np.ones(count, np.float32))
        changed = ctx.op("Concat", [ones, amounts.value], {"axis": 0})
    else:
        changed = ctx.op("Concat", [ctx.shape(x, 0, count), amounts.value], {"axis": 0})
    if roi is not None and ctx.opset < _FIRST_AXES_OPSET:
        roi = _roi_behind(ctx, roi, r, count)
    (new,) = ctx.same(r.node, _inputs(ctx, r, x, roi, changed), attributes)
    return [ctx.stacked(ctx.squeeze(new.value, range(1, count)))]


def _roi_behind(ctx: Context, roi: ir.Value, r: _Resize, count: int) -> ir.Value:
    """Return ``[starts, ends]`` with starts 0 and ends 1 of the new axes in front of each."""
    assert r.roi is not None and r.roi.dtype is not None
    dtype = r.roi.dtype.numpy()
    zeros, ones = (ctx.builder.constant(np.full(count, n, dtype)) for n in (0, 1))
    starts = ctx.op("Slice", [roi, ctx.ints(0), ctx.ints(r.x.rank)])
    ends = ctx.op("Slice", [roi, ctx.ints(r.x.rank), ctx.ints(2 * r.x.rank)])
    return ctx.op("Concat", [zeros, starts, ones, ends], {"axis": 0})


def _merged(ctx: Context, r: _Resize) -> Sequence[Output]:
    """Resize ``[B * N, ...]``, where axis ``N`` stays as it is.

    If that is not known, a change of ``N`` shows at run time: the result does not fit.
    """
    x = r.x.value
    roi = None if r.roi is None else r.roi.value
    merged = ctx.merged(x)
    if r.sizes is None:
        amounts = r.scales
        if amounts is None:
            raise Decline(Code.NO_RULE, "neither scales nor sizes are given")
        (new,) = ctx.same(r.node, _inputs(ctx, r, merged, roi, amounts.value))
        return unmerge_outputs(ctx, [new], x)
    sizes = r.sizes.value
    if 0 not in r.axes:
        (new,) = ctx.same(r.node, _inputs(ctx, r, merged, roi, sizes))
        return unmerge_outputs(ctx, [new], x)
    at = r.axes.index(0)
    first = ctx.op("Slice", [sizes, ctx.ints(at), ctx.ints(at + 1)])
    before = ctx.op("Slice", [sizes, ctx.ints(0), ctx.ints(at)])
    after = ctx.op("Slice", [sizes, ctx.ints(at + 1), ctx.ints(r.x.rank)])
    changed = ctx.op("Concat", [before, volume(ctx, x, 0, 2), after], {"axis": 0})
    (new,) = ctx.same(r.node, _inputs(ctx, r, merged, roi, changed))
    target = ctx.op("Concat", [ctx.batch, first, ctx.shape(new.value, 1)], {"axis": 0})
    return [ctx.stacked(ctx.reshape(new.value, target))]
