"""Integers that are proven never to be negative, by the operators that compute them."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator

__all__ = ["SIZES", "is_natural"]

SIZES = frozenset({"SequenceLength", "Shape", "Size"})
# Of natural numbers these are natural again.
_KEEPING = frozenset({"Add", "Div", "Identity", "Min", "Mul", "Squeeze", "Unsqueeze"})
_DEEPEST = 12


def is_natural(
    value: ir.Value | None, iterations: Collection[ir.Value] = (), depth: int = 0
) -> bool:
    """Return whether integers are proven never to be negative.

    Args:
        value: The integers.
        iterations: The iteration numbers of Loops.
        depth: How many operators were followed.
    """
    if value is None or depth > _DEEPEST:
        return False
    constant = constant_value(value)
    if constant is not None:
        return bool((constant >= 0).all())
    node = value.producer()
    if is_operator(node, SIZES):
        return True
    if not is_operator(node, {"Gather", "Max", *_KEEPING}):
        return value in iterations
    natural = (is_natural(one, iterations, depth + 1) for one in node.inputs)
    if node.op_type == "Max":
        return any(natural)
    if node.op_type == "Gather":
        return next(natural)
    return all(natural)
