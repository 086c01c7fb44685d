"""The rules of the evaluator of integers: one for each operator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value
from passes.reading.integer_reads import (
    FAR,
    INTEGERS,
    NumberReader,
    Numbers,
    Rule,
    are_vectors,
    fits,
    length_number,
    shape_numbers,
    size_number,
    zipped,
)
from passes.reading.integers import Dim, Linear, greatest, is_nonnegative, least
from passes.reading.truth_rules import TRUTH_RULES, flat_size, truth
from passes.reading.vector_reads import gather_numbers, lowest, slice_numbers

__all__ = ["RULES"]

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


def _range(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Count from a number, so often that the last one is known, in constant steps."""
    found = evaluator.operands(node)
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


def _rounded(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Round whole numbers, which stay what they are."""
    operands = evaluator.operands(node)
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


def _concat(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    operands, axis = evaluator.operands(node), node.attributes.get_int("axis", 0)
    are_rows = axis in (0, -2) and all(evaluator.rank(v) == 2 for v in node.inputs)
    if operands is None or not (are_rows or are_vectors(evaluator, node)):
        return None
    return tuple(n for x in operands for n in x)


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


def _where(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Choose numbers by known flags."""
    flags, *branches = (evaluator.of(v) for v in node.inputs)
    if flags is None or not are_vectors(evaluator, node):
        return None
    if len(flags) == 1:
        chosen = None if flags[0].number is None else branches[0 if flags[0].number else 1]
        sizes = {None if x is None else len(x) for x in branches}
        return chosen if len(sizes) == 1 else None
    one, other = (x and (x * len(flags) if len(x) == 1 else x) for x in branches)
    if not one or not other or {len(one), len(other)} != {len(flags)}:
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
    if numbers is None or size is None or size > _MOST_FILLED:
        return None
    return numbers * size if len(numbers) == 1 else numbers


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Identity", "Unsqueeze", "Squeeze", "Reshape"), _first),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    **TRUTH_RULES,
    **dict.fromkeys(("Ceil", "Floor", "Round"), _rounded),
    **dict.fromkeys(("ReduceMin", "ReduceMax", "ReduceSum"), _reduced),
    "Abs": _abs,
    "Add": _add,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Div": _div,
    "Expand": _expanded,
    "Gather": gather_numbers,
    "Max": _max,
    "Min": _min,
    "Mod": _mod,
    "Mul": _mul,
    "Neg": _neg,
    "NonZero": _places,
    "Range": _range,
    "SequenceLength": length_number,
    "Shape": shape_numbers,
    "Size": size_number,
    "Slice": slice_numbers,
    "Sub": _sub,
    "Transpose": _transpose,
    "Where": _where,
}
