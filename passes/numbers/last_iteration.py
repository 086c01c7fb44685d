"""What no iteration exceeds, where the number of iterations is a quotient.

Windows that begin at ``4 * k`` and are 4 wide end at ``4 * k + 4``; of ``size / 4`` windows none
ends behind ``size``.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.graph.made import made_by, only_number, operand
from passes.numbers.integer_reads import INTEGERS, NumberReader
from passes.numbers.integers import ITERATION, Linear, Scalar
from passes.numbers.number_order import is_nonnegative
from passes.numbers.vector_reads import lowest

__all__ = ["ALONE", "is_never_negative", "maker", "most"]

ALONE = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that change nothing about one number."""


def most(evaluator: NumberReader, number: Linear) -> Linear | None:
    """Return a number that a number of no iteration exceeds, None if none is known.

    Of samples that begin at 0, 4, 8, ... before ``n`` none begins behind ``n - 1``.
    """
    times = number.coefficient(ITERATION)
    if not times or evaluator.last is None:
        return number if not times else None
    span, step = _span(evaluator, evaluator.last + 1)
    if times % step:
        span, step = evaluator.last + 1, 1
    if span is None or times < 0:
        return None
    return number.without(ITERATION) + (span - 1) * (times // step)


def is_never_negative(evaluator: NumberReader, number: Linear) -> bool:
    """Whether a number is 0 or more in all iterations, by proof."""
    if is_nonnegative(lowest(number, evaluator.last)):
        return True
    highest = most(evaluator, number * -1)
    return highest is not None and is_nonnegative(highest * -1)


def maker(value: ir.Value | None) -> ir.Node | None:
    """Return the node that computes a number, behind those that change nothing about it."""
    node = None if value is None else value.producer()
    while is_operator(node, ALONE):
        node = operand(node, 0).producer()
    return node


def _span(evaluator: NumberReader, count: Linear) -> tuple[Linear | None, int]:
    """Return what a number of iterations is a part of, rounded up: ``ceil(span / step)``."""
    for atom, _ in count.terms:
        if isinstance(atom, Scalar) and count == Linear.of(atom):
            made = maker(atom.value)
            if is_operator(made, "Ceil"):
                return _rounded_up(evaluator, made)
            if is_operator(made, "Div"):
                return _divided(evaluator, made)
    return count, 1


def _divided(evaluator: NumberReader, node: ir.Node) -> tuple[Linear | None, int]:
    """Return the same of ``(span + step - 1) / step`` in integers."""
    whole, by = (evaluator.number(v) for v in node.inputs[:2])
    if evaluator.dtype(node.outputs[0]) not in INTEGERS or whole is None or by is None:
        return None, 1
    step = by.number
    return (whole - (step - 1), step) if step is not None and step > 0 else (None, 1)


def _rounded_up(evaluator: NumberReader, node: ir.Node) -> tuple[Linear | None, int]:
    quotient = made_by(node.inputs[0], "Div")
    cast = None if quotient is None else made_by(quotient.inputs[0], "Cast")
    step = None if quotient is None else only_number(quotient.inputs[1])
    if cast is None or step is None or not 1 <= step < float("inf"):
        return None, 1
    return evaluator.number(cast.inputs[0]), int(step)  # by a larger number there are no more
