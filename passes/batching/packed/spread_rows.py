"""A number of each sample for all rows that it has."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.lengths import Lengths
from passes.batching.operators import Operators

__all__ = ["spread"]


def spread(ops: Operators, value: ir.Value, lengths: Lengths) -> ir.Value:
    """Repeat the row of each sample, ``[B, *rest]``, for all its rows: ``[T, *rest]``.

    Where samples are known to have lines, it is repeated for the lines first, and then for the
    rows of each.
    """
    for each in reversed(lengths.known_lines or (lengths,)):
        value = ops.op("Gather", [value, each.samples], {"axis": 0})
    return value
