"""Lengths of samples by the sample that each row belongs to."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.batching.lengths import Lengths
from passes.batching.rows_by_steps import ADDS, counted_by_ends
from passes.graph.builder import Builder

__all__ = ["lengths_of_rows"]


def lengths_of_rows(
    builder: Builder, samples: ir.Value, count: ir.Value, *, held_padded: bool = False
) -> Lengths:
    """Return the lengths of samples by the sample that each row belongs to.

    Args:
        builder: See `Lengths`.
        samples: Numbers of samples, ascending, int64 ``[T]``.
        count: How many samples there are, int64 ``[1]``.
        held_padded: See `Lengths`.
    """
    zero, one = ir.tensor(np.zeros(1, np.int64)), ir.tensor(np.ones(1, np.int64))
    none = builder.op("ConstantOfShape", [count], {"value": zero})
    total = builder.op("Shape", [samples])
    if builder.opset is not None and builder.opset < ADDS:
        value = counted_by_ends(builder, samples, none)
    else:
        ones = builder.op("ConstantOfShape", [total], {"value": one})
        attributes = {"axis": 0, "reduction": "add"}
        value = builder.op("ScatterElements", [none, samples, ones], attributes)
    made = Lengths(builder, value, samples=samples, held_padded=held_padded)
    vars(made)["total"] = total
    return made
