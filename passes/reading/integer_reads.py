"""Integers that a graph reads: dimensions, lengths of sequences, entries of vectors."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_default_domain, is_operator
from passes.graph.made import axes_of, made_by, only_number, operand, operands, optional_operand
from passes.maps.operator import is_map
from passes.reading.integers import Atom, Entry, Length, Linear, Trip, is_nonnegative

__all__ = [
    "INTEGERS",
    "NumberReader",
    "Numbers",
    "gather_numbers",
    "length_number",
    "length_of",
    "lowest",
    "number_at",
    "shape_numbers",
    "size_along",
    "size_number",
    "slice_numbers",
    "uncut_along",
]

Numbers: TypeAlias = tuple[Linear, ...]
"""The numbers of a tensor of rank 0 or 1, in order."""

INTEGERS = frozenset({ir.DataType.INT32, ir.DataType.INT64})
"""Element types that are followed."""

_LONGEST = 1 << 24


class NumberReader(Protocol):
    """The evaluator as its rules see it; see `passes.reading.evaluate`."""

    last: Linear | None

    def number(self, value: ir.Value | None) -> Linear | None:
        """Return the only number of a tensor."""

    def of(self, value: ir.Value | None) -> Numbers | None:
        """Return the numbers of a tensor."""

    def table(self, value: ir.Value | None) -> list[Numbers] | None:
        """Return the rows of a matrix."""

    def length(self, sequence: ir.Value | None) -> Linear | None:
        """Return the number of elements of a sequence."""

    def operands(self, node: ir.Node) -> list[Numbers] | None:
        """Return the numbers of all inputs."""

    def rank(self, value: ir.Value | None) -> int | None:
        """Return the rank of a value."""

    def dims(self, value: ir.Value | None) -> tuple[int | str | None, ...] | None:
        """Return the dimensions of a value."""

    def dtype(self, value: ir.Value | None) -> ir.DataType | None:
        """Return the element type of a value."""

    def dimension(self, tensor: ir.Value, axis: int) -> Linear | None:
        """Return a dimension of a tensor."""

    def is_inside(self, value: ir.Value) -> bool:
        """Whether a value may differ from iteration to iteration."""

    def outside(self, value: ir.Value) -> ir.Value:
        """Return what a value is outside of the iterations."""

    def is_within(self, position: Linear, size: Linear) -> bool:
        """Whether a position is less than a size."""

    def is_followed_as_float(self, numbers: Numbers) -> bool:
        """Whether numbers that were cast to float32 are still known."""


def shape_numbers(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """The dimensions of a tensor."""
    tensor = operand(node, 0)
    rank = evaluator.rank(tensor)
    if rank is None:
        return None
    axes = range(rank)[node.attributes.get_int("start", 0) : node.attributes.get_int("end", rank)]
    dims = [evaluator.dimension(tensor, axis) for axis in axes]
    known = tuple(d for d in dims if d is not None)
    return known if len(known) == len(dims) else None


def size_number(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """The size of a vector."""
    tensor = operand(node, 0)
    if evaluator.rank(tensor) != 1:
        return None
    dim = evaluator.dimension(tensor, 0)
    return None if dim is None else (dim,)


def length_number(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """The length of a sequence."""
    length = evaluator.length(node.inputs[0])
    return None if length is None else (length,)


def length_of(evaluator: NumberReader, sequence: ir.Value | None) -> Linear | None:
    """Return the number of elements of a sequence; see `Evaluator.length`."""
    while sequence is not None:
        producer = sequence.producer()
        if producer is not None and is_map(producer):
            return _samples(evaluator, producer) or _own_length(evaluator, sequence)
        if producer is None or not is_default_domain(producer):
            break
        if producer.op_type == "SequenceConstruct":
            return Linear(len(producer.inputs))
        if producer.op_type == "SplitToSequence":
            return _pieces(evaluator, producer) or Linear.of(Length(sequence))
        if producer.op_type not in ("Identity", "SequenceMap"):
            break
        sequence = producer.inputs[0]
    return None if sequence is None else _own_length(evaluator, sequence)


def _own_length(evaluator: NumberReader, sequence: ir.Value) -> Linear | None:
    return None if evaluator.is_inside(sequence) else Linear.of(Length(sequence))


def _samples(evaluator: NumberReader, node: ir.Node) -> Linear | None:
    """Return the number of samples of a Map, if an input says it: its lists have as many."""
    position = node.attributes.get_int("count", -1)
    return evaluator.number(node.inputs[position]) if position >= 0 else None


def _pieces(evaluator: NumberReader, node: ir.Node) -> Linear | None:
    """Return how many pieces SplitToSequence makes."""
    tensor, axis = operand(node, 0), node.attributes.get_int("axis", 0)
    if evaluator.is_inside(tensor):
        return None
    split = optional_operand(node, 1)
    dim = evaluator.dimension(tensor, axis)
    if split is None:
        return dim
    if evaluator.rank(split) == 1:
        return evaluator.dimension(split, 0)
    size, dim_number = evaluator.number(split), None if dim is None else dim.number
    if evaluator.rank(split) != 0 or size is None or not size.number or dim_number is None:
        return None
    return Linear(-(-dim_number // size.number))


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


def number_at(evaluator: NumberReader, vector: ir.Value, place: int) -> Linear | None:
    """Return the number at a place of a vector, the others of which need not be known.

    Args:
        evaluator: Knows numbers.
        vector: A vector.
        place: The place, from 0.
    """
    numbers = evaluator.of(vector)
    if numbers is not None:
        return numbers[place] if place < len(numbers) else None
    node = made_by(vector, "Add", "Cast", "Concat")
    if node is None or evaluator.dtype(vector) not in INTEGERS:
        return None
    if node.op_type == "Cast":
        return number_at(evaluator, operand(node, 0), place)
    if node.op_type == "Add":
        parts = [number_at(evaluator, v, place) for v in operands(node)]
        dims = {evaluator.dims(v) for v in operands(node)}
        return None if None in parts or len(dims) > 1 else sum((p for p in parts if p), Linear())
    for part in operands(node):
        dims_of_part = evaluator.dims(part)
        size = dims_of_part[0] if dims_of_part and len(dims_of_part) == 1 else None
        if not isinstance(size, int):
            return None
        if place < size:
            return number_at(evaluator, part, place)
        place -= size
    return None


def slice_numbers(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """Cut known numbers; or read one entry of a vector, from ``p`` to ``p + 1``."""
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
    if step.number != 1 or evaluator.is_inside(vector) or (end - start).number != 1:
        return None
    size = size_along(evaluator, vector, 0)
    if size is None or not is_nonnegative(start) or evaluator.dtype(vector) not in INTEGERS:
        return None
    # Behind the last number the Slice would be empty.
    if not _needs_one_number(node.outputs[0]) and not evaluator.is_within(start, size):
        return None
    steps = _even_steps(vector)
    return (entry(vector, start) if steps is None else start * steps[1] + steps[0],)


def _needs_one_number(vector: ir.Value) -> bool:
    """Whether all readers of a vector fail where it is empty, and there are some."""
    readers = [use.node for use in vector.uses()]
    if not readers or vector.is_graph_output():
        return False
    return all(is_operator(node, "Squeeze") and axes_of(node) is not None for node in readers)


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


def uncut_along(tensor: ir.Value, axis: int, rank: int | None) -> ir.Value:
    """Return a tensor of the same size along an axis; its other axes may have been cut."""
    while (node := tensor.producer()) is not None and is_default_domain(node):
        if node.op_type not in ("Slice", "Identity"):
            break
        if node.op_type == "Slice" and not _cuts_others(node, axis, rank):
            break
        tensor = operand(node, 0)
    return tensor


def _cuts_others(node: ir.Node, axis: int, rank: int | None) -> bool:
    """Whether a Slice cuts other axes than one, by constants."""
    axes = constant_value(optional_operand(node, 3))
    if axes is None or rank is None:
        return False
    return axis % rank not in {int(a) % rank for a in axes.reshape(-1)}


def size_along(evaluator: NumberReader, tensor: ir.Value, axis: int) -> Linear | None:
    """Return a dimension; along the axis of a Concat it is the sum of those of all parts."""
    node = tensor.producer()
    if not is_operator(node, "Concat"):
        return evaluator.dimension(tensor, axis)
    if node.attributes.get_int("axis", 0) != axis:
        return evaluator.dimension(tensor, axis)
    sizes = [None if v is None else evaluator.dimension(v, axis) for v in node.inputs]
    known = [size for size in sizes if size is not None]
    return sum(known, Linear()) if len(known) == len(sizes) else None


def _even_steps(vector: ir.Value) -> tuple[int, int] | None:
    """Return the first number and the step of a vector that grows evenly: a constant, a Range."""
    counted = made_by(vector, "Range")
    if counted is not None:
        start, step = only_number(counted.inputs[0]), only_number(counted.inputs[2])
        return (start, step) if isinstance(start, int) and isinstance(step, int) else None
    array = constant_value(vector, largest=_LONGEST)
    if array is None or array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        return None
    steps = np.diff(array.astype(np.int64))
    if steps.size and (steps != steps[0]).any():
        return None
    return int(array[0]), int(steps[0]) if steps.size else 0


def lowest(number: Linear, last: Linear | None) -> Linear:
    """Return a number that is not greater, whatever the iteration, and simpler.

    Args:
        number: The number.
        last: The number of the last iteration; None where that is not known.
    """
    return number.replace({atom: _end(atom, count, last) for atom, count in number.terms})


def _end(atom: Atom, count: int, last: Linear | None) -> Linear:
    """Return the value of an atom that makes a multiple of it least, or the atom."""
    if isinstance(atom, Trip):
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
