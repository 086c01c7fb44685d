"""Tensors all of whose elements are one number."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.made import made_by, operand
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import Linear

__all__ = ["one_number"]

_FILLS = ("Expand", "Reshape", "Unsqueeze", "Squeeze", "Tile", "Cast")
"""Operators whose result holds one number if their first operand does."""


def one_number(value: ir.Value, evaluator: Evaluator) -> Linear | None:
    """Return the number that all elements of a tensor are, None if they may differ."""
    while (number := evaluator.number(value)) is None:
        node = made_by(value, *_FILLS)
        if node is None:
            return None
        if node.op_type == "Cast" and node.attributes.get_int("to", 0) not in (6, 7):
            return None
        value = operand(node, 0)
    return number
