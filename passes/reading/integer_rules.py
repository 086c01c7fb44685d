"""What each operator makes of integers that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import onnx_ir as ir

from passes.reading.integer_reads import (
    INTEGERS,
    Numbers,
    gather_numbers,
    length_number,
    shape_numbers,
    size_number,
    slice_numbers,
)
from passes.reading.integers import Linear, greatest, is_nonnegative, least

if TYPE_CHECKING:
    from passes.reading.evaluate import Evaluator

__all__ = ["RULES", "Rule"]

_EXACT_FLOATS = 1 << 24

Rule: TypeAlias = "Callable[[Evaluator, ir.Node], Numbers | None]"


def _first(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    """Give the numbers of the first input: Identity, and what changes a shape only."""
    return evaluator.of(node.inputs[0])


def _cast(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    numbers = evaluator.of(node.inputs[0])
    if numbers is None:
        return None
    if node.op_type == "Cast":
        dtype = ir.DataType(node.attributes.get_int("to", 0) or 0)
    else:
        dtype = evaluator.dtype(node.inputs[1]) or ir.DataType.UNDEFINED
    if dtype == ir.DataType.BOOL:
        truths = [_truth(n) for n in numbers]
        return None if None in truths else tuple(Linear(int(t or 0)) for t in truths)
    if dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        open_numbers = [n for n in numbers if n.number is None]
        if any(abs(n.constant) >= _EXACT_FLOATS for n in open_numbers):
            return None
        evaluator.through_floats |= dtype == ir.DataType.FLOAT and bool(open_numbers)
        return numbers
    if dtype not in INTEGERS:
        return None
    limits = np.iinfo(dtype.numpy())
    fits = all(limits.min <= n.constant <= limits.max for n in numbers)
    return numbers if fits else None


def _truth(number: Linear) -> bool | None:
    """Whether a number is not 0, if that is certain."""
    if number.number is not None:
        return number.number != 0
    return True if is_nonnegative(number - 1) or is_nonnegative(number * -1 - 1) else None


def _zipped(evaluator: Evaluator, node: ir.Node) -> Sequence[tuple[Linear, ...]] | None:
    """Return the operands of each number of an elementwise result."""
    operands = evaluator.operands(node)
    if not operands:
        return None
    sizes = {len(x) for x in operands} - {1}
    if len(sizes) > 1:
        return None
    size = sizes.pop() if sizes else 1
    return [tuple(x[0 if len(x) == 1 else i] for x in operands) for i in range(size)]


def _add(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    pairs = _zipped(evaluator, node)
    return None if pairs is None else tuple(a + b for a, b in pairs)


def _sub(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    pairs = _zipped(evaluator, node)
    return None if pairs is None else tuple(a - b for a, b in pairs)


def _mul(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    pairs = _zipped(evaluator, node)
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


def _div(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    """Divide integer constants; ONNX truncates, which is the floor of numbers not negative."""
    pairs = _zipped(evaluator, node)
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


def _min(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    groups = _zipped(evaluator, node)
    return None if groups is None else tuple(least(group) for group in groups)


def _max(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    groups = _zipped(evaluator, node)
    return None if groups is None else tuple(greatest(group) for group in groups)


def _reduced(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    """Reduce a vector to its least or greatest number."""
    numbers = evaluator.of(node.inputs[0])
    if node.attributes.get_int("noop_with_empty_axes", 0):
        return None
    if not numbers or evaluator.rank(node.inputs[0]) not in (0, 1):
        return None
    pick = least if node.op_type == "ReduceMin" else greatest
    return (pick(numbers),)


def _concat(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    operands = evaluator.operands(node)
    return None if operands is None else tuple(n for x in operands for n in x)


def _compare(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    pairs = _zipped(evaluator, node)
    if pairs is None:
        return None
    truths = [_compared(node.op_type, a, b) for a, b in pairs]
    return None if None in truths else tuple(Linear(int(t or 0)) for t in truths)


def _compared(op_type: str, a: Linear, b: Linear) -> bool | None:
    match op_type:
        case "Greater":
            return _compared("Less", b, a)
        case "GreaterOrEqual":
            return _compared("LessOrEqual", b, a)
        case "LessOrEqual":
            return _compared("Less", a, b + 1)
        case "Less":
            difference = b - a
            if is_nonnegative(difference - 1):
                return True
            return False if is_nonnegative(difference * -1) else None
    if not (a - b).terms:
        return a == b
    return False if _truth(a - b) else None


def _logic(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    found = [evaluator.number(v) for v in node.inputs]
    truths = [None if n is None else n.number for n in found]
    deciding = 0 if node.op_type == "And" else 1
    if evaluator.dims(node.outputs[0]) not in ((), (1,)):
        return None
    if any(t is not None and bool(t) == bool(deciding) for t in truths):
        return (Linear(deciding),)
    return None if None in truths else (Linear(1 - deciding),)


def _not(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    found = evaluator.of(node.inputs[0])
    if found is None or any(n.number is None for n in found):
        return None
    return tuple(Linear(int(not n.number)) for n in found)


def _where(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    condition = evaluator.number(node.inputs[0])
    branches = [evaluator.of(v) for v in node.inputs[1:]]
    if condition is None or condition.number is None:
        return None
    one, other = branches
    if one is None or other is None or len(one) != len(other):
        return None
    return one if condition.number else other


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Identity", "Unsqueeze", "Squeeze", "Reshape"), _first),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"), _compare),
    **dict.fromkeys(("And", "Or"), _logic),
    **dict.fromkeys(("ReduceMin", "ReduceMax"), _reduced),
    "Add": _add,
    "Concat": _concat,
    "Div": _div,
    "Gather": gather_numbers,
    "Max": _max,
    "Min": _min,
    "Mul": _mul,
    "Not": _not,
    "SequenceLength": length_number,
    "Shape": shape_numbers,
    "Size": size_number,
    "Slice": slice_numbers,
    "Sub": _sub,
    "Where": _where,
}
