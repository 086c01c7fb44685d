"""Resize of flat samples: tables along two axes, by which rows are read afterwards."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.formula import Formula
from passes.batching.flat.laying import laid_out
from passes.batching.flat.moves import one_place_each, restacked, rows_again
from passes.batching.flat.resizing.antialias import AntialiasMode, antialias_table
from passes.batching.flat.resizing.coordinates import ResizedAxis, coordinates, nearest_place
from passes.batching.flat.resizing.one_axis import REGION, with_axis_beside
from passes.batching.flat.resizing.resized_axes import resized_axes
from passes.batching.flat.resizing.size_changes import (
    SizeChange,
    known_scales,
    least_size,
    size_changes,
    with_changed_axes_in_grid,
)
from passes.batching.flat.resizing.taps import cubic_table, linear_table, picked_axis
from passes.batching.flat.samples import AxisTable, FlatSamples, Sampler
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.decisions import Code, Decline
from passes.graph.made import operand

__all__ = ["resize", "resize_apart"]

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64
_SUMMED = frozenset({ir.DataType.FLOAT, ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT32})
_BYTES = frozenset({ir.DataType.UINT8, ir.DataType.INT8})
_ANTIALIASED = frozenset({ir.DataType.FLOAT, ir.DataType.UINT8})


_BILINEAR = (
    (2, [0, 1]),
    (3, [0, 1]),
    (3, [1, 2]),
    (3, [0, 2]),
    (4, [2, 3]),
    (4, [1, 2]),
)
"""By rank: the axes of planes."""

_VOLUMES = {3: (0, 1, 2), 5: (2, 3, 4)}
"""By rank: the axes that onnxruntime sums linearly, be there two that change or three."""


def resize(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Resize each sample along axes of the grid."""
    x = ctx.operand(operands, 0, "X")
    if x.flat is None:
        raise Decline(Code.BATCHED_OPERAND, "its sizes come from samples of several sizes")
    mode = _mode(ctx, node)
    is_nearest = mode == "nearest"
    if x.flat.sampler is not None or (not is_nearest and not one_place_each(x.flat)):
        if x.flat.has_one_shape:
            return restacked(ctx, node, operands)
        x = rows_again(ctx, x)
    if x.flat is not None and mode == "antialias" and not x.flat.is_plain:
        x = rows_again(ctx, x)
    region = _region(ctx, node, operands)
    if region is not None and x.flat is not None and not one_place_each(x.flat):
        x = rows_again(ctx, x)
    if one_place_each(x.own_flat):
        x = with_changed_axes_in_grid(ctx, node, operands, x)
    changes, beside = size_changes(ctx, node, operands, x, x.own_flat), None
    if not changes and region is None:
        return [ctx.flat(x.value, x.own_flat)]
    if not changes:
        raise Decline(Code.NO_RULE, "it takes a region of what keeps its size")
    if len(changes) == 1 and not is_nearest:
        changes, beside = with_axis_beside(ctx, node, x.own_flat, changes[0], mode)
    sampler = None if is_nearest else _sampler(x, x.own_flat, changes, mode, beside)
    tables, axes = list(x.own_flat.tables), resized_axes(ctx, node, x.own_flat, changes)
    if sampler is not None and sampler.mode == "whole":
        sampler = dataclasses.replace(sampler, keeps_rows=_keeps_rows(axes, sampler))
    if sampler is not None and len(sampler.axes) > 2:
        sampler = dataclasses.replace(sampler, copied=_keep_sizes(axes))
    for change, axis in zip(changes, axes, strict=True):
        if region is not None:
            axis = dataclasses.replace(axis, region=_ends(ctx, region, change))
        table = _table(ctx, node, x.own_flat, axis, mode)
        if not table.is_fixed:
            size = change.total or Lengths(ctx.builder, table.count).size
            table = dataclasses.replace(table, size=size)
        tables[change.at] = dataclasses.replace(
            table, least=least_size(ctx, node, operands, change)
        )
    made = dataclasses.replace(x.own_flat, tables=tuple(tables), sampler=sampler)
    if region is not None:
        value = np.array(ctx.attribute(node, "extrapolation_value", 0.0), np.float32)
        made = dataclasses.replace(made, fill=ctx.builder.constant(value))
    rounds = mode == "antialias" and x.dtype == _FLOAT
    return [Batched(Layout.FLAT, x.value, flat=made, is_exact=not rounds)]


def _region(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Batched | None:
    """Return the region of interest; None where the mode of coordinates knows none.

    Raises:
        Decline: Such a region has no form here.
    """
    if ctx.attribute(node, "coordinate_transformation_mode", "half_pixel") != REGION:
        return None
    x, roi = ctx.operand(operands, 0, "X"), ctx.operand(operands, 1, "roi")
    policy = ctx.attribute(node, "keep_aspect_ratio_policy", "stretch")
    mode = _mode(ctx, node)
    if x.dtype != _FLOAT or mode not in ("nearest", "linear") or policy != "stretch":
        raise Decline(
            Code.NO_RULE, f"regions of {x.dtype} by {mode} have no form for several sizes"
        )
    if mode == "linear" and x.rank == 3:
        raise Decline(Code.NO_RULE, "onnxruntime sums regions of rank 3 along three axes")
    if not roi.has_an_axis:
        raise Decline(Code.RAGGED, "its region differs along several axes")
    return roi


def _ends(ctx: Context, region: Batched, change: SizeChange) -> tuple[Formula, Formula]:
    """Return where the region begins and ends along an axis, ``[B, 1]`` or ``[1, 1]``."""
    found = []
    for position in (change.position, change.position + change.axes):
        place = ctx.builder.scalar(position)
        if region.is_shared:
            place = ctx.ints(position)
        value = ctx.op("Gather", [region.value, place], {"axis": int(region.is_stacked)})
        number = Formula(ctx, value, region.dtype or _FLOAT).cast(_FLOAT)
        found.append(number.unsqueeze(1))
    return found[0], found[1]


def resize_apart(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Resize shared or stacked samples, each to a size of its own."""
    x = ctx.operand(operands, 0, "X")
    given = node.attributes.get_ints("axes", range(x.rank))
    sizes = ctx.optional(operands, 3)
    sums = None if sizes is None else ctx.numbers.of(node.inputs[3])
    known = None if sizes is not None else known_scales(ctx, node.inputs[2])
    axes = []
    for position, axis in enumerate(given):
        stays = known is not None and len(known) == len(given) and known[position] == 1.0
        if sums is not None and len(sums) == len(given):
            stays = sums[position] == ctx.numbers.dimension(operand(node, 0), axis)
        if not stays:
            axes.append(axis)
    return resize(ctx, node, [laid_out(ctx, x, axes), *operands[1:]])


def _mode(ctx: Context, node: ir.Node) -> str:
    mode = str(ctx.attribute(node, "mode", "nearest"))
    if not ctx.attribute(node, "antialias", 0):
        return mode
    if mode == "nearest":
        raise Decline(Code.NO_RULE, "it is antialiased to the nearest place")
    return "antialias"


def _table(
    ctx: Context, node: ir.Node, flat: FlatSamples, axis: ResizedAxis, mode: str
) -> AxisTable:
    """Return what the places of the result read along one axis."""
    x = coordinates(axis, ctx.attribute(node, "coordinate_transformation_mode", "half_pixel"))
    if mode == "nearest":
        rounding = ctx.attribute(node, "nearest_mode", "round_prefer_floor")
        return _within(axis, x, picked_axis(ctx, flat, axis, nearest_place(x, rounding)))
    if mode == "linear":
        return _within(axis, x, linear_table(ctx, flat, axis, x))
    coefficient = float(ctx.attribute(node, "cubic_coeff_a", -0.75))
    excludes_outside = bool(ctx.attribute(node, "exclude_outside", 0))
    if mode == "cubic":
        return cubic_table(ctx, flat, axis, x, coefficient, excludes_outside=excludes_outside)
    reach = 1 if ctx.attribute(node, "mode") == "linear" else 2
    weights = AntialiasMode(reach, coefficient, excludes_outside)
    return antialias_table(ctx, weights, axis, x)


def _within(axis: ResizedAxis, x: Formula, table: AxisTable) -> AxisTable:
    """Return a table in which a place outside of the axis reads nothing, if it has a region.

    An axis without places is read all the same, which is an error.
    """
    if axis.region is None:
        return table
    inside = x.compare("GreaterOrEqual", 0.0).both(x.compare("LessOrEqual", axis.before - 1.0))
    read = inside.either(axis.before.compare("Less", 1.0))
    return dataclasses.replace(table, valid=read.value)


def _keeps_rows(axes: Sequence[ResizedAxis], sampler: Sampler) -> ir.Value:
    """Return which samples keep their rows, ``[B, 1]``."""
    (rows,) = (axis for axis in axes if axis.at == sampler.axes[0])
    return rows.scale.compare("Equal", 1.0).value


def _keep_sizes(axes: Sequence[ResizedAxis]) -> ir.Value:
    """Return which samples keep their size, ``[B, 1]`` or ``[1, 1]``."""
    kept = [axis.before.compare("Equal", axis.after) for axis in axes]
    return functools.reduce(Formula.both, kept).value


def _sampler(
    x: Batched, flat: FlatSamples, changes: Sequence[SizeChange], mode: str, beside: int | None
) -> Sampler:
    """Return how the places are summed, by the rank that onnxruntime sees."""
    allowed = {"antialias": _ANTIALIASED, "linear": _SUMMED, "cubic": {_FLOAT}}.get(mode, _SUMMED)
    if x.dtype not in allowed:
        raise Decline(
            Code.NO_RULE, f"{mode} of {x.dtype} has no form for samples of several sizes"
        )
    rank = len(flat.order)
    axes = sorted(flat.order.index(change.at) for change in changes)
    if beside is not None:
        return Sampler(mode, (changes[0].at, beside), beside)
    if mode == "linear" and len(axes) > 1 and set(axes) <= set(_VOLUMES.get(rank, ())):
        stays = [flat.order[axis] for axis in _VOLUMES[rank] if axis not in axes]
        summed = tuple(flat.order[axis] for axis in _VOLUMES[rank])
        return Sampler(mode, summed, stays[0] if stays else None)
    if (rank, axes) not in _BILINEAR:
        raise Decline(Code.NO_RULE, f"it resizes axes {axes} of samples of rank {rank}")
    if mode == "cubic" and (rank, axes) not in ((2, [0, 1]), (4, [2, 3])):
        raise Decline(Code.NO_RULE, "onnxruntime knows cubic sums of [H,W] and [N,C,H,W] alone")
    if (rank, axes) == (4, [1, 2]) and x.dtype in _BYTES and mode == "linear":
        mode = "whole"
    return Sampler(mode, tuple(flat.order[axis] for axis in axes))
