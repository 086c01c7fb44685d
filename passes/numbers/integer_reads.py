"""Integers that a graph reads: dimensions, and lengths of sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import is_default_domain, is_operator
from passes.graph.made import operand, optional_operand, shaped
from passes.numbers.integers import Length, Linear
from passes.sequence_operators import is_map

__all__ = [
    "FAR",
    "INTEGERS",
    "NumberReader",
    "Numbers",
    "Rule",
    "are_vectors",
    "fits",
    "length_number",
    "length_of",
    "operand_numbers",
    "shape_entries",
    "shape_numbers",
    "size_along",
    "size_number",
    "zipped",
]

Numbers: TypeAlias = tuple[Linear, ...]
"""The numbers of a tensor of rank 0 or 1, in order."""

FAR = 1_000_000_000
"""No dimension is larger, where TensorFlow's exporter says "to the end" so."""

INTEGERS = frozenset({ir.DataType.INT32, ir.DataType.INT64})
"""Element types that are followed."""


def fits(number: Linear, dtype: ir.DataType | None) -> bool:
    """Whether the constant of a number is one of an integer type that is followed."""
    if dtype not in INTEGERS:
        return False
    limits = np.iinfo(dtype.numpy())
    return bool(limits.min <= number.constant <= limits.max)


class NumberReader(Protocol):
    """The evaluator as its rules see it; see `passes.numbers.evaluate`."""

    last: Linear | None
    is_far: bool

    def number(self, value: ir.Value | None) -> Linear | None:
        """Return the only number of a tensor."""

    def of(self, value: ir.Value | None) -> Numbers | None:
        """Return the numbers of a tensor."""

    def table(self, value: ir.Value | None) -> list[Numbers] | None:
        """Return the rows of a matrix."""

    def length(self, sequence: ir.Value | None) -> Linear | None:
        """Return the number of elements of a sequence."""

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

    def notes_far(self) -> bool:
        """Whether no dimension is taken to be larger than 10^9, which is noted."""


Rule: TypeAlias = Callable[[NumberReader, ir.Node], Numbers | None]
"""What an operator makes of numbers; None where that is not known."""


def operand_numbers(evaluator: NumberReader, node: ir.Node) -> list[Numbers] | None:
    """Return the numbers of all inputs, or None where some are not known."""
    found = [evaluator.of(value) for value in node.inputs]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def shape_numbers(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """The dimensions of a tensor."""
    axes = _axes_of_shape(evaluator, node)
    return None if axes is None else shape_entries(evaluator, node, range(len(axes)))


def shape_entries(evaluator: NumberReader, node: ir.Node, places: Sequence[int]) -> Numbers | None:
    """Return what stands at some places of a Shape; the others need not be known."""
    axes = _axes_of_shape(evaluator, node)
    if axes is None or any(not -len(axes) <= place < len(axes) for place in places):
        return None
    dims = [evaluator.dimension(operand(node, 0), axes[place]) for place in places]
    known = tuple(d for d in dims if d is not None)
    return known if len(known) == len(dims) else None


def _axes_of_shape(evaluator: NumberReader, node: ir.Node) -> Sequence[int] | None:
    rank = evaluator.rank(operand(node, 0))
    if rank is None:
        return None
    start, end = (node.attributes.get_int(n, d) for n, d in (("start", 0), ("end", rank)))
    return range(rank)[start:end]


def size_number(evaluator: NumberReader, node: ir.Node) -> Numbers | None:
    """The size of a vector, or of a tensor of known dimensions."""
    tensor = operand(node, 0)
    whole = shaped(tensor)
    rank = None if whole is None else evaluator.rank(whole)
    if rank is not None:
        return (Linear(rank),)
    dims = evaluator.dims(tensor)
    known = [d for d in dims or () if isinstance(d, int)]
    if dims is not None and len(known) == len(dims):
        return (Linear(math.prod(known)),)
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
        return size_along(evaluator, split, 0)
    size, dim_number = evaluator.number(split), None if dim is None else dim.number
    if evaluator.rank(split) != 0 or size is None or not size.number or dim_number is None:
        return None
    return Linear(-(-dim_number // size.number))


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


def zipped(evaluator: NumberReader, node: ir.Node) -> Sequence[tuple[Linear, ...]] | None:
    """Return the operands of each number of an elementwise result."""
    operands = operand_numbers(evaluator, node)
    if not operands or not are_vectors(evaluator, node):
        return None
    sizes = {len(x) for x in operands} - {1}
    if len(sizes) > 1:
        return None
    size = sizes.pop() if sizes else 1
    return [tuple(x[0 if len(x) == 1 else i] for x in operands) for i in range(size)]


def are_vectors(evaluator: NumberReader, node: ir.Node) -> bool:
    """Whether no operand is a matrix of several numbers: two of one size may differ in shape."""
    ranks = [evaluator.rank(v) for v in node.inputs]
    if all(rank is None or rank < 2 for rank in ranks):
        return True
    return all(evaluator.number(v) is not None for v in node.inputs)
