"""Masks of recurrent cells: iterations that leave the states of some rows as they are.

``h = Where(m, new, h)``, or ``h = m * new + (1 - m) * h`` where ``m`` is a boolean that is cast.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.common.selections import Selection, find_replacing
from passes.graph.graphs import constant_value, subgraphs
from passes.graph.made import either_order, made_by, only_number, operand, skip_identities
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_kept", "find_mask", "is_same_mask", "is_true_where"]

_DEEPEST = 8
"""Masks that two states compute alike are compared through fewer nodes than this."""

_MOVES = ("Expand", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that leave flags what they are."""


def find_kept(carried: Carried, facts: LoopFacts, typing: Typing) -> Selection | None:
    """Return where a carried value takes a new one, ``chosen``, and where it stays as it is.

    The condition is a boolean, or a boolean that was cast. None where it is something else.

    Args:
        carried: The carried value.
        facts: The Loop or Scan.
        typing: The proven typing.
    """
    found = find_replacing(carried.next, carried.inner, facts.iteration.body)
    found = found or _weighed(carried, facts, typing)
    return None if found is None or found.branches else found


def find_mask(
    states: Sequence[Carried], facts: LoopFacts, typing: Typing
) -> tuple[Selection, list[Carried]] | None:
    """Return the one mask of some states, and the states as they are without it.

    Args:
        states: The states of a cell.
        facts: The Loop or Scan.
        typing: The proven typing.
    """
    found = [find_kept(one, facts, typing) for one in states]
    masks = [mask for mask in found if mask is not None]
    if len(masks) != len(states) or not all(is_same_mask(masks[0], one) for one in masks):
        return None
    pairs = zip(states, masks, strict=True)
    return masks[0], [dataclasses.replace(one, next=mask.chosen) for one, mask in pairs]


def is_same_mask(one: Selection, other: Selection) -> bool:
    """Whether two choices take the new value in the same iterations and rows."""
    is_alike = one.is_turned == other.is_turned and one.weighs == other.weighs
    return is_alike and _is_same(one.condition, other.condition, _DEEPEST)


def is_true_where(
    flag: ir.Value, mask: Selection, typing: Typing, *, is_turned: bool = False
) -> bool:
    """Whether a flag, a boolean or one that was cast, is true where a mask takes the new value.

    Args:
        flag: The flag.
        mask: The mask.
        typing: The proven typing.
        is_turned: Whether it has to be false there.
    """
    if _is_same(flag, mask.condition, _DEEPEST):
        return is_turned == mask.is_turned
    if _is_one_less(flag, mask.condition):
        return is_turned != mask.is_turned
    if (node := made_by(flag, "Cast", "Not")) is None:
        return False
    given = operand(node, 0)
    if node.op_type == "Cast" and typing.dtype(given) != ir.DataType.BOOL:
        return False
    is_other = is_turned != (node.op_type == "Not")
    return is_true_where(given, mask, typing, is_turned=is_other)


def _is_same(one: ir.Value, other: ir.Value, depth: int) -> bool:
    """Whether two values are computed by the same operators of the same values."""
    one, other = skip_identities(one), skip_identities(other)
    if one is other:
        return True
    mine, theirs = constant_value(one), constant_value(other)
    if mine is not None and theirs is not None:
        return mine.dtype == theirs.dtype and np.array_equal(mine, theirs)
    a, b = one.producer(), other.producer()
    if a is None or b is None or not depth or a.op_identifier() != b.op_identifier():
        return False
    if list(subgraphs(a)) or dict(a.attributes) != dict(b.attributes):
        return False
    if len(a.outputs) != 1 or len(a.inputs) != len(b.inputs):
        return False
    pairs = zip(a.inputs, b.inputs, strict=True)
    return all(
        mine is theirs if mine is None or theirs is None else _is_same(mine, theirs, depth - 1)
        for mine, theirs in pairs
    )


def _weighed(carried: Carried, facts: LoopFacts, typing: Typing) -> Selection | None:
    """Return the choice that ``m * new + (1 - m) * h`` makes, or ``m * h + (1 - m) * new``."""
    for one, other in either_order(made_by(carried.next, "Add")):
        for flag, new in either_order(made_by(one, "Mul")):
            for rest, old in either_order(made_by(other, "Mul")):
                if skip_identities(old) is not carried.inner:
                    continue
                for condition, left, is_turned in ((flag, rest, False), (rest, flag, True)):
                    if _is_one_less(left, condition) and _is_flag(condition, facts, typing):
                        new = skip_identities(new)
                        return Selection(
                            condition, new, carried.inner, weighs=True, is_turned=is_turned
                        )
    return None


def _is_one_less(value: ir.Value, flag: ir.Value) -> bool:
    """Whether a value is ``1 - flag``."""
    for one, other in either_order(made_by(value, "Add")):  # as TorchScript writes it
        if only_number(one) == 1 and (turned := made_by(other, "Neg")) is not None:
            return _is_same(operand(turned, 0), flag, _DEEPEST)
    node = made_by(value, "Sub")
    is_turned = node is not None and only_number(operand(node, 0)) == 1
    return node is not None and is_turned and _is_same(operand(node, 1), flag, _DEEPEST)


def _is_flag(value: ir.Value, facts: LoopFacts, typing: Typing) -> bool:
    """Whether a number is a boolean that was cast, in the iteration or in front of the Loop."""
    scanned = {inner: source.tensor for inner, source in facts.iteration.scanned}
    while True:
        value = skip_identities(facts.evaluator.outside(value))
        value = scanned.get(value, value)
        if (node := made_by(value, "Cast", *_MOVES)) is None:
            return False
        value = operand(node, 0)
        if node.op_type == "Cast" and typing.dtype(value) == ir.DataType.BOOL:
            return True
