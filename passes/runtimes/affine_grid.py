"""AffineGrid as arithmetic on the places of an image, ``[N, H, W, 2]``.

Its definition as a function decides by an If between images and volumes, and a branch of it is
not valid for the other.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.made import operand
from passes.typing import Typing

__all__ = ["affine_grid"]


def affine_grid(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """Grids of images; those of volumes stay."""
    theta, size = operand(node, 0), operand(node, 1)
    dtype = typing.dtype(theta)
    if typing.static_dims(size) != (4,) or dtype is None:
        return None
    is_aligned = bool(node.attributes.get_int("align_corners", 0))
    column, row = (_steps(builder, size, axis, dtype, is_aligned) for axis in (3, 2))
    row = builder.op("Unsqueeze", [row, builder.ints(1)])
    factors = [builder.op("Gather", [theta, builder.scalar(i)], {"axis": 2}) for i in range(3)]
    x, y, shift = (builder.op("Unsqueeze", [one, builder.ints(1, 2)]) for one in factors)
    along = builder.op("Add", [builder.op("Mul", [x, column]), builder.op("Mul", [y, row])])
    return [builder.op("Add", [along, shift])]


def _steps(
    builder: Builder, size: ir.Value, axis: int, dtype: ir.DataType, is_aligned: bool
) -> ir.Value:
    """Return the places along an axis, from -1 to 1, ``[n, 1]``."""

    def number(value: float) -> ir.Value:
        return builder.constant(np.array(value, dtype.numpy()))

    count = builder.op("Gather", [size, builder.scalar(axis)], {"axis": 0})
    places = builder.arange(count)
    places, total = (builder.op("Cast", [v], {"to": int(dtype)}) for v in (places, count))
    double = builder.op("Mul", [places, number(2)])
    if is_aligned:
        # The one place of a single one is the last, 1.
        total = builder.op("Sub", [total, number(1)])
        least = builder.op("Max", [total, number(1)])
        first = builder.op("Sub", [builder.op("Sub", [least, total]), number(0.5)])
        start = builder.op("Mul", [first, number(2)])
        steps = builder.op("Add", [builder.op("Div", [double, least]), start])
    else:
        middle = builder.op("Add", [double, number(1)])
        steps = builder.op("Sub", [builder.op("Div", [middle, total]), number(1)])
    return builder.op("Unsqueeze", [steps, builder.ints(1)])
