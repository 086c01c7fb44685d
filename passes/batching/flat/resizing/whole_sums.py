"""Linear interpolation of bytes with the channels last, as onnxruntime has it: in whole numbers.

Weights are counted in parts of 1,024, and what is behind the point of the sum is cut off. Samples
that keep their rows are summed in floats: onnxruntime takes their rows for channels, their columns
for rows and their channels for columns, which all stay.
"""

from __future__ import annotations

import itertools

import onnx_ir as ir

from passes.batching.flat.formula import Formula, added
from passes.batching.flat.places import filled, tables_of
from passes.batching.flat.resizing.taps import Tap, halves_of, read_place, taps_of
from passes.batching.layouts import Batched
from passes.batching.operators import Operators

__all__ = ["summed_whole"]

_INT32 = ir.DataType.INT32
_PARTS = 1 << 10


def summed_whole(ops: Operators, x: Batched) -> ir.Value:
    """Return samples as ``[B, *s]``, their axes in the order in which they lie in memory."""
    flat = x.own_flat
    assert flat.sampler is not None and x.dtype is not None
    tables, rank = tables_of(ops, flat), len(flat.order)
    rows, columns = flat.sampler.axes
    down, across = (taps_of(ops, tables[at], at, rank) for at in (rows, columns))
    read = [
        [read_place(ops, x, flat, tables, {rows: y, columns: z}) for z in across] for y in down
    ]
    weights = itertools.product(_whole(down), _whole(across))
    pixels = itertools.chain.from_iterable(read)
    terms = [
        z_weight * y_weight * pixel.cast(_INT32)
        for (y_weight, z_weight), pixel in zip(weights, pixels, strict=True)
    ]
    found = (added(terms) / (_PARTS * _PARTS)).cast(x.dtype)
    if flat.sampler.keeps_rows is not None:
        halves = halves_of(ops, x, flat, tables, flat.order[3], rank)
        alone = _along_columns(across, read[0], halves).cast(x.dtype)
        kept = Formula(ops, flat.sampler.keeps_rows, ir.DataType.BOOL)
        found = kept.unsqueeze(*range(2, rank + 1)).where(alone, found)
    return filled(ops, flat, tables, found.value, rank)


def _whole(taps: list[Tap]) -> list[Formula]:
    """Return the weights of two places in parts of 1,024."""
    behind = (taps[1].weight * float(_PARTS)).floor().cast(_INT32)
    return [_PARTS - behind, behind]


def _along_columns(across: list[Tap], pixels: list[Formula], halves: list[Tap]) -> Formula:
    """Return the sum over two columns, that of the last channel as two halves."""
    return added(
        [
            half.weight * tap.weight * pixel
            for tap, pixel in zip(across, pixels, strict=True)
            for half in halves
        ]
    )
