"""Arithmetic of small integers: sums and multiples of sizes, and quotients of constants.

Vectors of constants are added up, or written by place, too, as packing does with lengths.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from passes.numbers.integer_reads import (
    FAR,
    INTEGERS,
    NumberReader,
    Numbers,
    Rule,
    operand_numbers,
    zipped,
)
from passes.numbers.integers import Dim, Linear
from passes.numbers.number_order import greatest, is_nonnegative, least
from passes.numbers.vector_reads import lowest

__all__ = ["ARITHMETIC_RULES", "COUNTING_RULES"]


def _running(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Add a vector of constants up, from number to number."""
    numbers, axis = _constants(evaluator, node.inputs[0]), _constants(evaluator, node.inputs[1])
    if numbers is None or axis is None or axis not in ([0], [-1]):
        return None
    if node.attributes.get_int("reverse", 0) or not numbers:
        return None
    sums = list(itertools.accumulate(numbers, initial=0))
    return _linear(sums[:-1] if node.attributes.get_int("exclusive", 0) else sums[1:])


def _scattered(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Add constants to a vector of constants at known places, or write them there."""
    given = [_constants(evaluator, value) for value in node.inputs]
    data, places, updates = given
    reduction = node.attributes.get_string("reduction", "none")
    if data is None or places is None or updates is None or len(places) != len(updates):
        return None
    is_known = reduction == "add" or (reduction == "none" and len(set(places)) == len(places))
    if not is_known or not all(0 <= place < len(data) for place in places):
        return None
    made = list(data)
    for place, update in zip(places, updates, strict=True):
        made[place] = update + (made[place] if reduction == "add" else 0)
    return _linear(made)


def _constants(evaluator: NumberReader, value: ir.Value | None) -> list[int] | None:
    """Return the integers of a vector, or of a scalar; None if one is not known."""
    if value is None or evaluator.dtype(value) not in INTEGERS:
        return None
    numbers, rank = evaluator.of(value), evaluator.rank(value)
    if numbers is None or rank not in (0, 1):
        return None
    found = [one.number for one in numbers if one.number is not None]
    return found if len(found) == len(numbers) else None


def _linear(numbers: Sequence[int]) -> Numbers:
    return tuple(Linear(number) for number in numbers)


COUNTING_RULES: Mapping[str, Rule] = {"CumSum": _running, "ScatterElements": _scattered}


def _add(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    pairs = zipped(evaluator, node)
    return None if pairs is None else tuple(a + b for a, b in pairs)


def _sub(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    pairs = zipped(evaluator, node)
    return None if pairs is None else tuple(a - b for a, b in pairs)


def _mul(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    pairs = zipped(evaluator, node)
    if pairs is None:
        return None
    made = []
    for a, b in pairs:
        if a.number is not None:
            made.append(b * a.number)
        elif b.number is not None:
            made.append(a * b.number)
        else:
            return None
    return tuple(made)


def _div(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Divide integer constants; ONNX truncates, which is the floor of numbers not negative.

    Whole numbers are divided by 1 and -1 in floats, too, as the count of a Python range is.
    """
    pairs = zipped(evaluator, node)
    if pairs is not None and all(b.number in (1, -1) for _, b in pairs):
        return tuple(a * (b.number or 1) for a, b in pairs)
    if pairs is None or evaluator.dtype(node.outputs[0]) not in INTEGERS:
        return None
    made = []
    for a, b in pairs:
        if b.number == 1:
            made.append(a)
        elif a.number is not None and b.number is not None and a.number >= 0 and b.number > 0:
            made.append(Linear(a.number // b.number))
        else:
            return None
    return tuple(made)


def _neg(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    numbers = evaluator.of(node.inputs[0])
    return None if numbers is None else tuple(n * -1 for n in numbers)


def _abs(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    numbers = evaluator.of(node.inputs[0])
    if numbers is None or not all(is_nonnegative(n) or n.number is not None for n in numbers):
        return None
    return tuple(n if n.number is None else Linear(abs(n.number)) for n in numbers)


def _mod(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Give what is left of natural constants, for which all ways to round a quotient agree."""
    pairs = zipped(evaluator, node)
    known = [(a.number, b.number) for a, b in pairs or ()]
    if pairs is None or evaluator.dtype(node.outputs[0]) not in INTEGERS:
        return None
    rests = [a % b for a, b in known if a is not None and b and a >= 0 and b > 0]
    return tuple(map(Linear, rests)) if len(rests) == len(known) else None


def _rounded(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Round whole numbers, which stay what they are."""
    operands = operand_numbers(evaluator, node)
    return None if not operands else operands[0]


def _min(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    groups, bound = zipped(evaluator, node), _bound(evaluator)
    return None if groups is None else tuple(least(group, bound) for group in groups)


def _max(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    groups = zipped(evaluator, node)
    return None if groups is None else tuple(_greatest(evaluator, group) for group in groups)


def _greatest(evaluator: NumberReader, group: Sequence[Linear]) -> Linear:
    """Return the greatest of some numbers; 10^9 is greater than any place, by what is noted.

    TensorFlow's exporter writes so that a Slice goes to the end.
    """
    bound = _bound(evaluator)
    found = greatest(group, bound)
    known = [n for n in group if n.number is not None and n.number >= FAR]
    others = [n for n in group if n.number is None]
    is_far = all(_is_place(Linear() - bound(Linear() - n)) for n in others)
    if found.number is None and known and is_far and evaluator.notes_far():
        return greatest(known)
    return found


def _is_place(most: Linear) -> bool:
    """Whether a number is no greater than a dimension."""
    if len(most.terms) != 1 or most.constant > 0:
        return False
    ((atom, count),) = most.terms
    return isinstance(atom, Dim) and count == 1


def _bound(evaluator: NumberReader) -> Callable[[Linear], Linear]:
    return functools.partial(lowest, last=evaluator.last)


def _reduced(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Reduce a vector to its least or greatest number, or to its sum."""
    numbers = evaluator.of(node.inputs[0])
    if node.attributes.get_int("noop_with_empty_axes", 0):
        return None
    if not numbers or evaluator.rank(node.inputs[0]) not in (0, 1):
        return None
    if node.op_type == "ReduceSum":
        return (sum(numbers, Linear()),)
    pick = least if node.op_type == "ReduceMin" else greatest
    return (pick(numbers, _bound(evaluator)),)


def _multiplied(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Multiply all numbers of a vector; one of them may be unknown before the model runs."""
    numbers = evaluator.of(node.inputs[0])
    if node.attributes.get_int("noop_with_empty_axes", 0) or not numbers:
        return None
    if evaluator.rank(node.inputs[0]) not in (0, 1):
        return None
    known = [n.number for n in numbers if n.number is not None]
    unknown = [n for n in numbers if n.number is None]
    total = math.prod(known)
    if len(unknown) > 1:
        return None
    return (unknown[0] * total if unknown else Linear(total),)


ARITHMETIC_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Ceil", "Floor", "Round"), _rounded),
    **dict.fromkeys(("ReduceMin", "ReduceMax", "ReduceSum"), _reduced),
    "ReduceProd": _multiplied,
    "Abs": _abs,
    "Add": _add,
    "Div": _div,
    "Max": _max,
    "Min": _min,
    "Mod": _mod,
    "Mul": _mul,
    "Neg": _neg,
    "Sub": _sub,
}
