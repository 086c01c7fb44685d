"""Tensors all of whose elements are one number."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import is_default_domain
from passes.reading.evaluate import Evaluator
from passes.reading.integers import Linear

__all__ = ["one_number"]

_FILLS = frozenset({"Expand", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Tile", "Cast"})
"""Operators whose result holds one number if their first operand does."""


def one_number(value: ir.Value, evaluator: Evaluator) -> Linear | None:
    """Return the number that all elements of a tensor are, None if they may differ."""
    while True:
        number = evaluator.number(value)
        if number is not None:
            return number
        node = value.producer()
        if node is None or node.op_type not in _FILLS or not is_default_domain(node):
            return None
        if node.op_type == "Cast" and node.attributes.get_int("to", 0) not in (6, 7):
            return None
        operand = node.inputs[0]
        if operand is None:
            return None
        value = operand
