"""Factors of 1, which PaddlePaddle writes around a number that it adds to: ``1 * s + 1``."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import constant_value
from passes.graph.made import either_order, made_by, skip_identities
from passes.graph.scopes import Scope
from passes.numbers.evaluate import Evaluator
from passes.typing.value_types import Typing

__all__ = ["skip_factors_of_one"]


def skip_factors_of_one(
    value: ir.Value, body: ir.Graph | Scope, typing: Typing | Evaluator
) -> ir.Value:
    """Return what a value is before it was multiplied by 1, which adds no axis to it."""
    while (node := made_by(value, "Mul", body=body)) is not None:
        pairs = either_order(node)
        found = next((one for one, factor in pairs if _is_one(factor, one, typing)), None)
        if found is None:
            break
        value = skip_identities(found)
    return value


def _is_one(factor: ir.Value, other: ir.Value, typing: Typing | Evaluator) -> bool:
    number, rank = constant_value(skip_identities(factor)), typing.rank(other)
    if number is None or number.size != 1 or number.item() != 1:
        return False
    return number.ndim == 0 or (rank is not None and number.ndim <= rank)
