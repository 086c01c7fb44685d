"""What each operator makes of integers that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import onnx_ir as ir

from passes.graphs import constant_value, is_default_domain
from passes.integers import Entry, Length, Linear, greatest, is_nonnegative, least

if TYPE_CHECKING:
    from passes.evaluate import Evaluator

__all__ = ["INTEGERS", "RULES", "Numbers", "Rule", "length_of"]

Numbers: TypeAlias = tuple[Linear, ...]
"""The numbers of a tensor of rank 0 or 1, in order."""

INTEGERS = frozenset({ir.DataType.INT32, ir.DataType.INT64})
"""Element types that are followed."""

_EXACT_FLOATS = 1 << 24
_LONGEST = 1 << 24

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


def _shape(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    tensor = node.inputs[0]
    rank = evaluator.rank(tensor)
    if tensor is None or rank is None:
        return None
    axes = range(rank)[node.attributes.get_int("start", 0) : node.attributes.get_int("end", rank)]
    dims = [evaluator.dimension(tensor, axis) for axis in axes]
    known = tuple(d for d in dims if d is not None)
    return known if len(known) == len(dims) else None


def _size(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    tensor = node.inputs[0]
    if tensor is None or evaluator.rank(tensor) != 1:
        return None
    dim = evaluator.dimension(tensor, 0)
    return None if dim is None else (dim,)


def _length(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    length = evaluator.length(node.inputs[0])
    return None if length is None else (length,)


def length_of(evaluator: Evaluator, sequence: ir.Value | None) -> Linear | None:
    while sequence is not None:
        producer = sequence.producer()
        if producer is None or not is_default_domain(producer):
            break
        if producer.op_type == "SequenceConstruct":
            return Linear(len(producer.inputs))
        if producer.op_type == "SplitToSequence":
            return _pieces(evaluator, producer) or Linear.of(Length(sequence))
        if producer.op_type != "Identity":
            break
        sequence = producer.inputs[0]
    if sequence is None or evaluator.is_inside(sequence):
        return None
    return Linear.of(Length(sequence))


def _pieces(evaluator: Evaluator, node: ir.Node) -> Linear | None:
    """Return how many pieces SplitToSequence makes."""
    tensor, axis = node.inputs[0], node.attributes.get_int("axis", 0) or 0
    if tensor is None or evaluator.is_inside(tensor):
        return None
    split = node.inputs[1] if len(node.inputs) > 1 else None
    dim = evaluator.dimension(tensor, axis)
    if split is None:
        return dim
    if evaluator.rank(split) == 1:
        return evaluator.dimension(split, 0)
    size, dim_number = evaluator.number(split), None if dim is None else dim.number
    if evaluator.rank(split) != 0 or size is None or not size.number or dim_number is None:
        return None
    return Linear(-(-dim_number // size.number))


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


def _gather(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    """Pick numbers of a vector at known positions, or its entry at a counted one."""
    vector, axis = node.inputs[0], node.attributes.get_int("axis", 0)
    positions = evaluator.of(node.inputs[1])
    if vector is None or positions is None or axis != 0 or evaluator.rank(vector) != 1:
        return None
    numbers = evaluator.of(vector)
    if numbers is not None and all(p.number is not None for p in positions):
        places = [p.number or 0 for p in positions]
        if all(-len(numbers) <= p < len(numbers) for p in places):
            return tuple(numbers[p] for p in places)
        return None
    if not all(is_nonnegative(p) for p in positions):
        return None
    steps = _even_steps(vector)
    if steps is not None:
        return tuple(p * steps[1] + steps[0] for p in positions)
    if evaluator.is_inside(vector) or evaluator.dtype(vector) not in INTEGERS:
        return None
    return tuple(entry(vector, p) for p in positions)


def _slice(evaluator: Evaluator, node: ir.Node) -> Numbers | None:
    """Cut known numbers; or read one entry of a vector, from ``p`` to ``p + 1``."""
    if len(node.inputs) < 3 or evaluator.rank(node.inputs[0]) != 1:
        return None
    bounds = [evaluator.number(v) if v is not None else None for v in node.inputs[1:]]
    start, end = bounds[:2]
    step = bounds[3] if len(node.inputs) > 4 and node.inputs[4] is not None else Linear(1)
    vector, numbers = node.inputs[0], evaluator.of(node.inputs[0])
    if vector is None or start is None or end is None or step is None:
        return None
    if numbers is not None and None not in (start.number, end.number, step.number):
        return numbers[start.number : end.number : step.number] if step.number else None
    if step.number != 1 or evaluator.is_inside(vector) or (end - start).number != 1:
        return None
    size = evaluator.dimension(vector, 0)
    if size is None or not is_nonnegative(start) or evaluator.dtype(vector) not in INTEGERS:
        return None
    # Behind the last number the Slice would be empty.
    evaluator.in_range.append((start, size))
    steps = _even_steps(vector)
    return (entry(vector, start) if steps is None else start * steps[1] + steps[0],)


def _even_steps(vector: ir.Value) -> tuple[int, int] | None:
    """Return the first number and the step of a constant vector that grows evenly."""
    array = constant_value(vector, largest=_LONGEST)
    if array is None or array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        return None
    steps = np.diff(array.astype(np.int64))
    if steps.size and (steps != steps[0]).any():
        return None
    return int(array[0]), int(steps[0]) if steps.size else 0


def entry(vector: ir.Value, position: Linear) -> Linear:
    """Return an entry of a vector; one of a vector's tail is an entry of the vector."""
    while (node := vector.producer()) is not None and is_default_domain(node):
        source = node.inputs[0] if node.inputs else None
        if source is None:
            break
        if node.op_type == "Slice" and (start := _tail(node)) is not None:
            position += start
        elif node.op_type != "Identity":
            break
        vector = source
    return Linear.of(Entry(vector, position))


def _tail(node: ir.Node) -> int | None:
    """Return where a Slice of a vector starts, if it goes on to the end."""
    start, end = (constant_value(v) for v in node.inputs[1:3])
    step = constant_value(node.inputs[4]) if len(node.inputs) > 4 else np.array([1])
    if start is None or end is None or step is None or start.size != 1 or int(step[0]) != 1:
        return None
    endless = int(end.ravel()[0]) >= np.iinfo(np.int32).max
    first = int(start.ravel()[0])
    return first if endless and first >= 0 else None


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
    "Gather": _gather,
    "Max": _max,
    "Min": _min,
    "Mul": _mul,
    "Not": _not,
    "SequenceLength": _length,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Sub": _sub,
    "Where": _where,
}
