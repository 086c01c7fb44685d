"""Packed samples side by side, as operators with lengths of their own want them, and back.

Lengths ``[2, 0, 3]``: five rows are laid out as ``[3, 3, *rest]``, in the places
``[[0, 1, -], [-, -, -], [2, 3, 4]]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.typing.value_types import is_number

__all__ = ["Spans", "laid_out", "padded", "places_inside", "unpadded", "zero_of"]


@dataclasses.dataclass(frozen=True)
class Spans:
    """Spans of neighbouring rows.

    Attributes:
        starts: First row of each, int64 ``[C]``.
        sizes: How many rows follow, int64 ``[C]``; what lies behind a width is left out.
        total: Number of all rows, int64 ``[1]``.
    """

    starts: ir.Value
    sizes: ir.Value
    total: ir.Value


def places_inside(ctx: Context, sizes: ir.Value, width: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the places ``[L]`` of a sample, and which of them samples have, ``bool[B, L]``."""
    places = ctx.arange(ctx.squeeze(width, [0]))
    return places, ctx.op("Less", [places, ctx.unsqueeze(sizes, [1])])


def zero_of(x: Batched) -> np.ndarray | None:
    """Return the 0 of the element type of a value, None where that is not known."""
    return np.zeros((), x.dtype.numpy()) if is_number(x.dtype) else None


def padded(
    ctx: Context,
    value: ir.Value,
    lengths: Lengths,
    width: ir.Value,
    fill: np.ndarray | None = None,
    rest: Sequence[int | str | None] | None = None,
) -> ir.Value:
    """Lay samples side by side, ``[B, L, *rest]``, with rows of one number behind shorter ones.

    Args:
        ctx: The context.
        value: The rows of all samples, ``[T, *rest]``.
        lengths: The lengths of the samples.
        width: ``L``, int64 ``[1]``.
        fill: The number, of the element type of the rows; None is 0.
        rest: The dimensions of a row; None if they are not known.
    """
    spans = Spans(lengths.starts, lengths.value, lengths.total)
    return laid_out(ctx, value, spans, width, fill, rest)


def laid_out(
    ctx: Context,
    value: ir.Value,
    spans: Spans,
    width: ir.Value,
    fill: np.ndarray | None = None,
    rest: Sequence[int | str | None] | None = None,
) -> ir.Value:
    """Lay spans of rows side by side, ``[C, L, *rest]``; see `padded`."""
    numbers = [dim for dim in rest or () if isinstance(dim, int)]
    if rest is not None and len(numbers) == len(rest):
        row = ctx.ints(1, *numbers)
    else:
        row = ctx.op("Concat", [ctx.ints(1), ctx.shape(value, 1)], {"axis": 0})
    if fill is None:
        spare = ctx.op("CastLike", [ctx.op("ConstantOfShape", [row]), value])
    else:
        spare = ctx.op("ConstantOfShape", [row], {"value": ir.tensor(fill.reshape(1))})
    rows = ctx.op("Concat", [value, spare], {"axis": 0})
    places, inside = places_inside(ctx, spans.sizes, width)
    own = ctx.op("Add", [places, ctx.unsqueeze(spans.starts, [1])])
    where = ctx.op("Where", [inside, own, spans.total])
    return ctx.op("Gather", [rows, where], {"axis": 0})


def unpadded(ctx: Context, value: ir.Value, lengths: Lengths, width: ir.Value) -> ir.Value:
    """Cut what lies behind the samples' last rows: ``[B, L, *rest]`` to ``[T, *rest]``."""
    first = ctx.op("Mul", [lengths.samples, width])
    where = ctx.op("Add", [first, lengths.positions])
    return ctx.op("Gather", [ctx.merged(value), where], {"axis": 0})
