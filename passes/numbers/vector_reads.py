"""Numbers that a graph picks from vectors: by Gather and Slice, at known and at counted places."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_default_domain, is_operator
from passes.graph.made import made_by, only_number, operand, optional_operand
from passes.numbers.integer_reads import INTEGERS, NumberReader, Numbers, shape_entries, size_along
from passes.numbers.integers import Atom, Entry, IterationNumber, Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.one_place import needs_one_number, takes_one

__all__ = ["gather_numbers", "lowest", "slice_numbers"]

_LONGEST = 1 << 24


def _is_vector(evaluator: NumberReader, value: ir.Value) -> bool:
    """Whether a value has rank 1; a Shape has, which a plan may hold without a type."""
    node = value.producer()
    is_shape = is_operator(node, "Shape")
    return is_shape or evaluator.rank(value) == 1


def gather_numbers(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Pick numbers of a vector at known positions, or its entry at a counted one."""
    vector, axis = operand(node, 0), node.attributes.get_int("axis", 0)
    positions = evaluator.of(node.inputs[1])
    if positions is None:
        return None
    if evaluator.rank(vector) == 2:
        return _gather_lines(evaluator, vector, axis, positions)
    if axis != 0 or not _is_vector(evaluator, vector):
        return None
    numbers, vector = evaluator.of(vector), evaluator.outside(vector)
    places = [p.number for p in positions if p.number is not None]
    is_constant, shape = len(places) == len(positions), made_by(vector, "Shape")
    if numbers is None and is_constant and shape is not None:
        known = shape_entries(evaluator, shape, places)
        if known is not None:
            return known
    if numbers is not None and is_constant:
        if all(-len(numbers) <= p < len(numbers) for p in places):
            return tuple(numbers[p] for p in places)
        return None
    if not all(is_nonnegative(p) for p in positions):
        return None
    steps = _even_steps(evaluator, vector)
    if steps is not None:
        return tuple(p * steps[1] + steps[0] for p in positions)
    if evaluator.is_inside(vector) or evaluator.dtype(vector) not in INTEGERS:
        return None
    return tuple(entry(vector, p) for p in positions)


def _gather_lines(
    evaluator: NumberReader, matrix: ir.Value, axis: int, positions: Numbers
) -> Numbers | None:
    """Pick rows or columns of a matrix of known numbers at known positions."""
    rows = evaluator.table(matrix)
    if rows is None:
        return None
    lines = rows if axis % 2 == 0 else list(zip(*rows, strict=True))
    places = [p.number for p in positions if p.number is not None]
    if len(places) < len(positions) or any(not -len(lines) <= p < len(lines) for p in places):
        return None
    picked = [lines[p] for p in places]
    return tuple(
        n for line in (picked if axis % 2 == 0 else zip(*picked, strict=True)) for n in line
    )


def slice_numbers(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Cut known numbers; or read one entry of a vector: ``p`` to ``p + 1``, or in far steps."""
    if len(node.inputs) < 3:
        return None  # an older Slice has its bounds as attributes
    vector = operand(node, 0)
    if evaluator.rank(vector) == 2:
        return _slice_rows(evaluator, node)
    if evaluator.rank(vector) != 1:
        return None
    bounds = [evaluator.number(v) for v in node.inputs[1:]]
    start, end = bounds[:2]
    step = bounds[3] if optional_operand(node, 4) is not None else Linear(1)
    numbers = evaluator.of(vector)
    if start is None or end is None or step is None:
        return None
    vector = evaluator.outside(vector)
    if start.number is not None and start == end:
        return ()
    if numbers is not None and None not in (start.number, end.number, step.number):
        return numbers[start.number : end.number : step.number] if step.number else None
    if evaluator.is_inside(vector) or not takes_one(start, end, step):
        return None
    size = size_along(evaluator, vector, 0)
    if size is None or not is_nonnegative(start) or evaluator.dtype(vector) not in INTEGERS:
        return None
    # Behind the last number the Slice would be empty.
    if not needs_one_number(evaluator, node.outputs[0]) and not evaluator.is_within(start, size):
        return None
    evaluator.is_far |= step.number != 1
    steps = _even_steps(evaluator, vector)
    return (entry(vector, start) if steps is None else start * steps[1] + steps[0],)


def _slice_rows(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Cut whole rows of a matrix of known numbers."""
    table = evaluator.table(node.inputs[0])
    given: list[ir.Value | None] = [*node.inputs[1:], None, None][:4]
    defaults = (None, None, Linear(0), Linear(1))
    found = [d if v is None else evaluator.number(v) for v, d in zip(given, defaults, strict=True)]
    start, end, axis, step = (None if n is None else n.number for n in found)
    if table is None or start is None or end is None or axis not in (0, -2) or not step:
        return None
    return tuple(n for row in table[start:end:step] for n in row)


def _even_steps(evaluator: NumberReader, vector: ir.Value) -> tuple[Linear, int] | None:
    """Return the first number and the step of a vector that grows evenly: a constant, a Range."""
    counted = made_by(vector, "Range")
    if counted is not None:
        start, step = (evaluator.number(counted.inputs[at]) for at in (0, 2))
        by = None if step is None else step.number
        return None if start is None or by is None else (start, by)
    array = constant_value(vector, largest=_LONGEST)
    if array is None or array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        return None
    steps = np.diff(array.astype(np.int64))
    if steps.size and (steps != steps[0]).any():
        return None
    return Linear(int(array[0])), int(steps[0]) if steps.size else 0


def lowest(number: Linear, last: Linear | None) -> Linear:
    """Return a number that is not greater, whatever the iteration, and simpler.

    Args:
        number: The number.
        last: The number of the last iteration; None where that is not known.
    """
    return number.replace({atom: _end(atom, count, last) for atom, count in number.terms})


def _end(atom: Atom, count: int, last: Linear | None) -> Linear:
    """Return the value of an atom that makes a multiple of it least, or the atom."""
    if isinstance(atom, IterationNumber):
        end = Linear(0) if count > 0 else last
        return Linear.of(atom) if end is None else end
    array = constant_value(atom.vector, largest=_LONGEST) if isinstance(atom, Entry) else None
    if array is None or array.dtype.kind not in "iu" or not array.size:
        return Linear.of(atom)
    return Linear(int(array.min() if count > 0 else array.max()))


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
    by = optional_operand(node, 4)
    start, end = (only_number(optional_operand(node, at)) for at in (1, 2))
    if start is None or end is None or end < np.iinfo(np.int32).max:
        return None
    goes_on = by is None or only_number(by) == 1
    return int(start) if goes_on and start >= 0 else None
