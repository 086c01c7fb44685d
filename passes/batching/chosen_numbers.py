"""Numbers of a vector: a comparison tells some of them.

PyTorch's exporter writes ``expand(n, -1)`` as a shape with 1 in the place of each size that is -1:
``Where(Equal(s, -1), 1, s)`` of ``s = [n, -1]`` is ``[?, 1]``, and not two unknown sizes.
TensorFlow's writes ``slice(x, begin, [1, n, -1])`` with ends that are far where a size is -1:
``begin + s + far * Cast(Equal(s, -1))``.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.numbers.evaluate import Evaluator, Numbers
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative

__all__ = ["cast_one_by_one", "chosen_one_by_one"]


def chosen_one_by_one(
    evaluator: Evaluator, node: ir.Node, found: Numbers | None
) -> Numbers | None:
    """Return what a Where chooses, entry by entry, where it is known.

    Args:
        evaluator: Knows the numbers.
        node: The Where.
        found: What is known of its result otherwise.
    """
    if found is None:
        return None
    flags = _flags(evaluator, node.inputs[0], len(found))
    branches = [_wide(evaluator, v, len(found)) for v in node.inputs[1:]]
    known = [n for n in branches if n is not None]
    if flags is None or len(known) < len(branches):
        return found
    return tuple(
        unknown if same is None else one if same else other
        for same, one, other, unknown in zip(flags, *known, found, strict=True)
    )


def cast_one_by_one(evaluator: Evaluator, node: ir.Node, found: Numbers | None) -> Numbers | None:
    """Return the numbers that flags are cast to, entry by entry, where they are known.

    Args:
        evaluator: Knows the numbers.
        node: The Cast.
        found: What is known of its result otherwise.
    """
    flags = None if found is None else _flags(evaluator, node.inputs[0], len(found))
    if found is None or flags is None:
        return found
    return tuple(
        unknown if flag is None else Linear(int(flag))
        for flag, unknown in zip(flags, found, strict=True)
    )


def _flags(
    evaluator: Evaluator, value: ir.Value | None, count: int
) -> Sequence[bool | None] | None:
    """Return for each entry whether an Equal finds it equal; None where that is not known."""
    made = None if value is None else value.producer()
    if not is_operator(made, "Equal"):
        return None
    sides = [_wide(evaluator, v, count) for v in made.inputs]
    known = [n for n in sides if n is not None]
    if len(known) < len(sides):
        return None
    return [_is_same(a, b) for a, b in zip(*known, strict=True)]


def _wide(evaluator: Evaluator, value: ir.Value | None, count: int) -> Numbers | None:
    """Return so many numbers that a value is broadcast to."""
    numbers = evaluator.of(value)
    if numbers is not None and len(numbers) == 1:
        return numbers * count
    return numbers if numbers is not None and len(numbers) == count else None


def _is_same(one: Linear, other: Linear) -> bool | None:
    """Whether two numbers are equal, None if it is not known."""
    gap = (one - other).number
    if gap is not None:
        return gap == 0
    apart = is_nonnegative(one - other - 1) or is_nonnegative(other - one - 1)
    return False if apart else None
