"""Totals under a condition: what an iteration adds where its condition does not hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.common.selections import Selection
from passes.carried.pattern import FLOATS, added, added_constant, added_integers
from passes.graph.made import either_order, made_by, only_number, operand, through

__all__ = ["choice", "flag_of", "less_than_one", "masked_terms", "neutral_of", "neutral_value"]


def masked_terms(
    values: Sequence[ir.Value],
    mask: Selection,
    is_turned: bool,
    family: str,
    dtype: ir.DataType,
) -> tuple[list[ir.Value], list[ir.Node]]:
    """Return values that change no total where a condition does not hold, and their nodes.

    Args:
        values: Values of one iteration.
        mask: The condition.
        is_turned: Whether they count where it does not hold.
        family: What is made of them, such as ``Add`` or ``Max``.
        dtype: Their element type.
    """
    neutral = np.array(neutral_of(family, dtype), dtype.numpy())
    constant = added_constant(neutral)
    nodes, masked = [constant], []
    condition, beside = flag_of(mask.condition) if mask.is_whole else (mask.condition, [])
    nodes += beside
    for value in values:
        one, other = (constant.outputs[0], value) if is_turned else (value, constant.outputs[0])
        made = choice(condition, one, other, dtype)
        nodes += made
        masked.append(made[-1].outputs[0])
    return masked, nodes


def choice(flag: ir.Value, one: ir.Value, other: ir.Value, dtype: ir.DataType) -> list[ir.Node]:
    """Return the nodes that compute ``one`` where a flag holds, else ``other``, the result last.

    onnxruntime has no Where of booleans.
    """
    if dtype != ir.DataType.BOOL:
        return [added("Where", [flag, one, other])]
    is_one, turned = added("And", [flag, one]), added("Not", [flag])
    is_other = added("And", [turned.outputs[0], other])
    either = added("Or", [is_one.outputs[0], is_other.outputs[0]])
    return [is_one, turned, is_other, either]


def neutral_value(
    inner: ir.Value, family: str, dtype: ir.DataType, *, is_scalar: bool
) -> tuple[ir.Value, list[ir.Node]]:
    """Return a value of the shape of a carried one that changes no total, and its nodes."""
    neutral = np.array(neutral_of(family, dtype), dtype.numpy())
    constant = added_constant(neutral)
    if is_scalar:
        return constant.outputs[0], [constant]
    shape = added("Shape", [inner])
    whole = added("Expand", [constant.outputs[0], shape.outputs[0]])
    return whole.outputs[0], [constant, shape, whole]


def flag_of(condition: ir.Value, *, is_turned: bool = False) -> tuple[ir.Value, list[ir.Node]]:
    """Return the condition of an If, which has one element of any rank, as a scalar.

    Args:
        condition: The condition.
        is_turned: Return its opposite.

    Returns:
        The scalar, and the nodes that compute it.
    """
    shape = added_integers()
    scalar = added("Reshape", [condition, shape.outputs[0]])
    nodes = [shape, scalar]
    if is_turned:
        nodes.append(added("Not", [scalar.outputs[0]]))
    return nodes[-1].outputs[0], nodes


def less_than_one(value: ir.Value) -> ir.Value | None:
    """Return what is taken from 1: ``1 - x``, or ``-x + 1`` as PyTorch exports it."""
    less = made_by(value, "Sub")
    if less is not None and _is_one(operand(less, 0)):
        return operand(less, 1)
    for one, other in either_order(made_by(value, "Add")):
        turned = made_by(other, "Neg")
        if turned is not None and _is_one(one):
            return operand(turned, 0)
    return None


def _is_one(value: ir.Value) -> bool:
    """Whether a value is a constant 1, also one that is cast to the type of another value."""
    return only_number(through(value, ("Cast", "CastLike"))) == 1


def neutral_of(family: str, dtype: ir.DataType) -> float | bool:
    """Return what changes no total."""
    match family:
        case "Add" | "BitwiseOr" | "BitwiseXor":
            return 0
        case "BitwiseAnd":
            return int(~dtype.numpy().type(0))
        case "Mul":
            return 1
        case "And":
            return True
        case "Or" | "Xor":
            return False
    is_max = family == "Max"
    if dtype in FLOATS:
        return -np.inf if is_max else np.inf
    limits = np.iinfo(dtype.numpy())
    return limits.min if is_max else limits.max
