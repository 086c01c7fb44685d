"""The lesser and the greater of two numbers, chosen by a comparison: ``n if n < m else m``."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.graph.made import skip_identities
from passes.numbers.integer_reads import NumberReader
from passes.numbers.integers import Linear
from passes.numbers.number_order import greatest, least

__all__ = ["chosen_by_order"]

_LESS = ("Less", "LessOrEqual")
_GREATER = ("Greater", "GreaterOrEqual")


def chosen_by_order(evaluator: NumberReader, node: ir.Node) -> Linear | None:
    """Return what a Where chooses that asks which of its two numbers is less; None for another.

    ``a < b`` is ``a + 1 <= b``: two numbers that are one farther apart are told by it, too.
    """
    flag, *branches = node.inputs
    numbers = [evaluator.number(value) for value in branches]
    asked = None if flag is None else _asked(evaluator, flag)
    if asked is None:
        return None
    one, other = numbers
    if one is None or other is None:
        return None
    distance, more = asked
    for sign, pick in ((1, least), (-1, greatest)):
        if (one - other) * sign in (distance, distance + more):
            return pick([one, other])
    return None


def _asked(evaluator: NumberReader, flag: ir.Value) -> tuple[Linear, int] | None:
    """Return a number that is below 0 where a flag is set, or 0 at most, and what may be added."""
    node = skip_identities(flag).producer()
    if not is_operator(node, (*_LESS, *_GREATER)):
        return None
    one, other = (evaluator.number(value) for value in node.inputs)
    if one is None or other is None:
        return None
    if node.op_type in _GREATER:
        one, other = other, one
    is_strict = node.op_type in ("Less", "Greater")
    return one - other, 1 if is_strict else -1
