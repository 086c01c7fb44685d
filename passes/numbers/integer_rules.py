"""The table of the rules by which small integers are computed: one for each operator.

Here stand those that cast, count, join, choose and repeat numbers; the others are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import skip_identities
from passes.numbers.arithmetic_rules import ARITHMETIC_RULES, COUNTING_RULES
from passes.numbers.integer_reads import (
    INTEGERS,
    NumberReader,
    Numbers,
    Rule,
    are_vectors,
    fits,
    length_number,
    operand_numbers,
    shape_numbers,
    size_number,
)
from passes.numbers.integers import Linear
from passes.numbers.number_order import greatest, least
from passes.numbers.truth_rules import TRUTH_RULES, flat_size, truth
from passes.numbers.vector_reads import gather_numbers, slice_numbers

__all__ = ["RULES"]

_LESS = ("Less", "LessOrEqual")
_GREATER = ("Greater", "GreaterOrEqual")
_EXACT_FLOATS = 1 << 24
_MOST_CAST = 64
_MOST_FILLED = 64


def _first(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Give the numbers of the first input: Identity, and what changes a shape only."""
    return evaluator.of(node.inputs[0])


def _cast(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    numbers = evaluator.of(node.inputs[0])
    if node.op_type == "Cast":
        dtype = ir.DataType(node.attributes.get_int("to", 0))
    else:
        dtype = evaluator.dtype(node.inputs[1]) or ir.DataType.UNDEFINED
    if numbers is None:
        return _cast_constant(node, dtype)
    if dtype == ir.DataType.BOOL:
        truths = [truth(n, evaluator.last) for n in numbers]
        return None if None in truths else tuple(Linear(int(t or 0)) for t in truths)
    if dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        if any(_rounds(n, dtype) for n in numbers):
            return None
        is_known = dtype == ir.DataType.DOUBLE or evaluator.is_followed_as_float(numbers)
        return numbers if is_known else None
    return numbers if dtype in INTEGERS and all(fits(n, dtype) for n in numbers) else None


def _cast_constant(node: ir.Node, dtype: ir.DataType) -> Numbers | None:
    """Cut the fractions off constants."""
    array = constant_value(node.inputs[0])
    if array is None or array.dtype.kind != "f" or array.size > _MOST_CAST:
        return None
    if dtype not in INTEGERS or not (np.abs(array) < np.iinfo(dtype.numpy()).max).all():
        return None
    return tuple(Linear(int(n)) for n in array.ravel().tolist())


def _rounds(number: Linear, dtype: ir.DataType) -> bool:
    """Whether a float is another number, or may be one although it is no large one itself."""
    if number.number is None:
        return abs(number.constant) >= _EXACT_FLOATS
    return int(dtype.numpy().type(number.number)) != number.number


def _range(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Count from a number, so often that the last one is known, in constant steps."""
    found = operand_numbers(evaluator, node)
    if found is None or evaluator.dtype(node.outputs[0]) not in INTEGERS:
        return None
    if any(len(one) != 1 for one in found):
        return None
    (start,), (limit,), (step,) = found
    distance, by = (limit - start).number, step.number
    if distance is None or not by or abs(distance) > _MOST_COUNTED:
        return None
    return tuple(start + number for number in range(0, distance, by))


_MOST_COUNTED = 64
"""So far a Range is followed."""


def _concat(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    operands, axis = operand_numbers(evaluator, node), node.attributes.get_int("axis", 0)
    are_rows = axis in (0, -2) and all(evaluator.rank(v) == 2 for v in node.inputs)
    is_one = len(node.inputs) == 1
    if operands is None or not (is_one or are_rows or are_vectors(evaluator, node)):
        return None
    return tuple(n for x in operands for n in x)


def _chosen_by_order(evaluator: NumberReader, node: ir.Node) -> Linear | None:
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


def _where(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Choose numbers by known flags, or by which of two is less."""
    flags, *branches = (evaluator.of(v) for v in node.inputs)
    if not are_vectors(evaluator, node):
        return None
    if flags is None:
        chosen = _chosen_by_order(evaluator, node)
        return None if chosen is None else (chosen,)
    if len(flags) == 1:
        picked = None if flags[0].number is None else branches[0 if flags[0].number else 1]
        sizes = {None if x is None else len(x) for x in branches}
        return picked if len(sizes) == 1 else None
    one, other = (x * len(flags) if x is not None and len(x) == 1 else x for x in branches)
    if one is None or other is None or {len(one), len(other)} != {len(flags)}:
        return None
    if any(flag.number is None for flag in flags):
        return None
    return tuple(a if f.number else b for f, a, b in zip(flags, one, other, strict=True))


def _places(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Give the positions of what is not 0 in a vector: NonZero."""
    found = evaluator.of(node.inputs[0])
    if found is None or evaluator.rank(node.inputs[0]) != 1:
        return None
    truths = [truth(n, evaluator.last) for n in found]
    if None in truths:
        return None
    return tuple(Linear(at) for at, is_true in enumerate(truths) if is_true)


def _transpose(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Turn a matrix over; a vector stays as it is."""
    if evaluator.rank(node.inputs[0]) in (0, 1):
        return evaluator.of(node.inputs[0])
    table = evaluator.table(node.inputs[0])
    order = node.attributes.get_ints("perm")
    if table is None or list(order or (1, 0)) != [1, 0]:
        return None
    return tuple(row[i] for i in range(len(table[0])) for row in table)


def _filled(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Repeat a constant: ConstantOfShape of a known number of entries."""
    count, value = evaluator.number(node.inputs[0]), node.attributes.get("value")
    if count is None or count.number is None or not 0 <= count.number <= _MOST_FILLED:
        return None
    fill = np.zeros(1) if value is None else value.as_tensor().numpy().reshape(-1)
    if fill.dtype.kind not in "iuf" or fill[0] != np.rint(fill[0]) or np.isinf(fill[0]):
        return None
    return (Linear(int(fill[0])),) * count.number


def _expanded(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Repeat one number as often as the shape of the result says, if that is known."""
    numbers, size = evaluator.of(node.inputs[0]), flat_size(evaluator.dims(node.outputs[0]))
    if size is None and numbers is not None:
        size = _count_of(evaluator.of(node.inputs[1]), numbers, evaluator.rank(node.inputs[0]))
    if numbers is None or size is None or size > _MOST_FILLED:
        return None
    return numbers * size if len(numbers) == 1 else numbers


def _count_of(shape: Numbers | None, numbers: Numbers, rank: int | None) -> int | None:
    """Return how many entries a shape has, to which one number, or a vector as long, expands."""
    sizes = [n.number for n in shape or () if n.number is not None]
    if shape is None or len(sizes) < len(shape) or min(sizes, default=0) < 0:
        return None
    is_same = rank == 1 and sizes == [len(numbers)]
    return math.prod(sizes) if is_same or len(numbers) == 1 else None


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Identity", "Unsqueeze", "Squeeze", "Reshape"), _first),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    **TRUTH_RULES,
    **ARITHMETIC_RULES,
    **COUNTING_RULES,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Expand": _expanded,
    "Gather": gather_numbers,
    "NonZero": _places,
    "Range": _range,
    "SequenceLength": length_number,
    "Shape": shape_numbers,
    "Size": size_number,
    "Slice": slice_numbers,
    "Transpose": _transpose,
    "Where": _where,
}
