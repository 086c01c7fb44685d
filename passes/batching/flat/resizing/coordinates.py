"""The coordinates of a resized axis on the axis as it was.

The formulas, and the order of their operations in float32, are those of onnxruntime's CPU kernels;
ONNX's specification has the same without saying how they round.

By ``half_pixel``, from 3 places to 6, place 0 lies at ``(0 + .5) / 2 - .5 = -.25``.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.batching.flat.formula import Formula
from passes.decisions import Code, Decline

__all__ = ["ResizedAxis", "coordinates", "nearest_place"]


@dataclasses.dataclass(frozen=True)
class ResizedAxis:
    """One axis of all samples that is resized, in float32.

    Attributes:
        at: The axis of their grid.
        count: How many places each sample has, int64 ``[B]`` or ``[1]``.
        is_fixed: Whether that is one number for all samples.
        places: The places of the result, ``[1, O]``.
        before: How many places there were, ``[B, 1]``.
        after: How many there are, ``[B, 1]`` or ``[1, 1]``.
        scale: What the coordinates are scaled by, ``[B, 1]`` or ``[1, 1]``.
        kept: Whether a sample stays as it is whatever the scale, ``[B, 1]``; None if none does.
        region: Where the region of interest begins and ends, in parts of the axis, ``[B, 1]`` or
            ``[1, 1]``; None if there is none.
    """

    at: int
    count: ir.Value
    is_fixed: bool
    places: Formula
    before: Formula
    after: Formula
    scale: Formula
    kept: Formula | None = None
    region: tuple[Formula, Formula] | None = None


def coordinates(axis: ResizedAxis, mode: str) -> Formula:
    """Return the coordinate of each place, ``[B, O]``.

    Raises:
        Decline: The mode is not known here.
    """
    found = _transformed(axis, mode)
    return found if axis.kept is None else axis.kept.where(axis.places, found)


def _transformed(axis: ResizedAxis, mode: str) -> Formula:
    places, before, after, scale = axis.places, axis.before, axis.after, axis.scale
    match mode:
        case "half_pixel":
            return (places + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            many = after.compare("Greater", 1.0)
            return many.where((places + 0.5) / scale - 0.5, 0.0)
        case "tf_half_pixel_for_nn":
            return (places + 0.5) / scale
        case "asymmetric":
            return places / scale
        case "align_corners":
            single = after.compare("Equal", 1.0)
            span = single.where(1.0, after - 1.0)
            return single.where(0.0, places * (before - 1.0) / span)
        case "half_pixel_symmetric":
            offset = before / 2.0 * (1.0 - after / (scale * before))
            double = ir.DataType.DOUBLE
            # onnxruntime adds the two halves in double.
            found = offset.cast(double) + (places.cast(double) + 0.5) / scale.cast(double)
            return (found - 0.5).cast(ir.DataType.FLOAT)
        case "tf_crop_and_resize":
            return _of_region(axis)
    raise Decline(Code.NO_RULE, f"coordinates by {mode} have no form for samples of several sizes")


def _of_region(axis: ResizedAxis) -> Formula:
    """Return the coordinates of a region of interest.

    By ONNX's specification: onnxruntime leaves an axis as it is whose size stays, whatever the
    region.
    """
    before, after = axis.before, axis.after
    assert axis.region is not None
    start, end = axis.region
    last = before - 1.0
    many = after.compare("Greater", 1.0)
    steps = axis.places * (end - start) * last / many.where(after - 1.0, 1.0)
    double = ir.DataType.DOUBLE
    middle = ((start + end).cast(double) * 0.5 * last.cast(double)).cast(ir.DataType.FLOAT)
    return many.where(start * last + steps, middle)


_TIE = 1e-6
"""What lies that close to a half counts as a half in onnxruntime."""


def nearest_place(x: Formula, mode: str) -> Formula:
    """Return the whole number that a coordinate is rounded to.

    Raises:
        Decline: The mode is not known here.
    """
    match mode:
        case "floor":
            return x.floor()
        case "ceil":
            return x.ceil()
        case "round_prefer_floor" | "round_prefer_ceil":
            below = x.floor()
            rest = x - below - 0.5
            is_up = (
                rest.compare("Greater", _TIE)
                if mode == "round_prefer_floor"
                else rest.compare("GreaterOrEqual", -_TIE)
            )
            return below + is_up.cast(x.dtype)
    raise Decline(Code.NO_RULE, f"rounding by {mode} has no form for samples of several sizes")
