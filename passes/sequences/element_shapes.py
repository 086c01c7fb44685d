"""Values that have the shape of a list's elements, as long as what is read of the list has it."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from passes.carried.joined import covers, same_dims
from passes.graph.graphs import is_operator
from passes.graph.made import operand, operands
from passes.typing.value_types import Typing

__all__ = ["is_like_elements"]

_BY_NUMBERS = frozenset(
    {"Abs", "Add", "Div", "Exp", "Identity", "Log", "Max", "Min", "Mul", "Neg", "Relu"}
    | {"Sigmoid", "Sqrt", "Sub", "Tanh", "Where"}
)
"""Operators of one result that is as large as all operands broadcast to one another."""


def is_like_elements(
    value: ir.Value, lists: Collection[ir.Value], first: ir.Value, typing: Typing
) -> bool:
    """Whether a value has the shape of the elements of some lists, by proof.

    Each iteration finds elements of that shape, if the one before it left such.

    Args:
        value: The value.
        lists: What a list is in the course of an iteration.
        first: An element that it begins with.
        typing: The proven typing.
    """
    known: dict[ir.Value, bool] = {}

    def is_like(one: ir.Value) -> bool:
        if one not in known:
            known[one] = _reads(one, lists) or same_dims(typing, one, typing.dims(first))
            known[one] = known[one] or is_made_like(one)
        return known[one]

    def is_made_like(one: ir.Value) -> bool:
        node = one.producer()
        if not is_operator(node, _BY_NUMBERS):
            return False
        like = [is_like(v) for v in operands(node)]
        beside = [covers(typing, first, typing.dims(v)) for v in operands(node)]
        return any(like) and all(a or b for a, b in zip(like, beside, strict=True))

    return is_like(value)


def _reads(value: ir.Value, lists: Collection[ir.Value]) -> bool:
    node = value.producer()
    return is_operator(node, "SequenceAt") and operand(node, 0) in lists
