"""Hides from onnxruntime which shape is declared of the elements of a sequence."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder

__all__ = ["hide_type"]

_NO_RANK = 9
"""A rank that the elements of no sequence have."""


def hide_type(builder: Builder, sequence: ir.Value, dtype: ir.DataType | None) -> ir.Value:
    """Return a sequence whose declared element shape onnxruntime does not know.

    onnxruntime specialises a graph from declared element shapes, true or not: a guard that reads
    the sequence itself is folded to what the declaration says. Here an element of a rank that no
    other has is inserted and erased again, which copies no element: what inference says of the
    elements covers both ranks, and so says nothing.

    Args:
        builder: Writes the graph that the sequence is read in.
        sequence: The sequence.
        dtype: The type of its elements; None where nothing is declared of them, so that nothing
            has to be hidden.
    """
    if dtype is None:
        return sequence
    rank = [1] * _NO_RANK
    is_text = dtype == ir.DataType.STRING
    other = np.full(rank, "", object) if is_text else np.zeros(rank, dtype.numpy())
    longer = builder.op("SequenceInsert", [sequence, builder.constant(other)])
    value = builder.op("SequenceErase", [longer])
    longer.type = value.type = ir.SequenceType(ir.TensorType(dtype))
    return value
