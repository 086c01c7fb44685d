"""Reads small integer tensors of a graph as sums of dimensions, lengths and counters."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator
from passes.numbers.entry_reads import FLOATS, is_exact
from passes.numbers.integer_reads import INTEGERS, Numbers, length_of
from passes.numbers.integer_rules import RULES
from passes.numbers.integers import Dim, Length, Linear, Scalar
from passes.numbers.made_sizes import made_along, made_size
from passes.numbers.number_order import is_in_range

if TYPE_CHECKING:
    from passes.typing.value_types import Typing

__all__ = ["FOLLOWS_DOUBTFUL", "Evaluator", "Numbers", "not_followed"]

_LARGEST = 64

_FOLLOWED = frozenset({*RULES, "Split"})

FOLLOWS_DOUBTFUL: contextvars.ContextVar[bool] = contextvars.ContextVar("follows", default=True)
"""Whether numbers of a vector are followed that it may lack: behind its end a Slice is empty.

Most such reads are offsets, which a vector has, and are noted. Where it may lack them, they are
data like any other: labels that are cut out one by one.
"""


@contextlib.contextmanager
def not_followed() -> Iterator[None]:
    """Let evaluators that are made inside follow no numbers that a vector may lack."""
    token = FOLLOWS_DOUBTFUL.set(False)
    try:
        yield
    finally:
        FOLLOWS_DOUBTFUL.reset(token)


class Evaluator:
    """Computes what is known of integers and booleans, on demand.

    Booleans are 0 and 1. Integers that were cast to floats are followed, as TensorFlow's exporter
    compares them so; `through_floats` then says that numbers beyond 2^24 would be rounded.

    Attributes:
        known: What is known beforehand; nothing else is asked of these values.
        through_floats: Whether a number that is no constant was cast to a float.
        is_far: Whether a vector was taken to have no more than 10^9 entries.
        in_range: Positions, and sizes that they must be less than for what was found to hold.
        outer: Values that are the same in all iterations, and what each is outside of them.
        last: The number of the last iteration, if it is known beforehand.
        sized: Values that keep the shape of one outside of the iterations, and which.
        named: For symbols of dimensions a tensor outside of the iterations that has the dimension.
    """

    def __init__(
        self,
        typing: Typing,
        inside: Collection[ir.Value] = (),
        known: Mapping[ir.Value, Numbers | None] | None = None,
    ) -> None:
        """Set up the evaluator.

        Args:
            typing: The proven typing.
            inside: Values that differ from iteration to iteration unless they are computed from
                what does not.
            known: What some values are.
        """
        self._typing = typing
        self._inside = inside
        self._follows = FOLLOWS_DOUBTFUL.get()
        self.known: dict[ir.Value, Numbers | None] = dict(known or {})
        self.through_floats = False
        self.is_far = False
        self.in_range: list[tuple[Linear, Linear]] = []
        self.outer: dict[ir.Value, ir.Value] = {}
        self.last: Linear | None = None
        self.named: Mapping[str, Dim] = {}
        self.sized: dict[ir.Value, ir.Value] = {}

    def number(self, value: ir.Value | None) -> Linear | None:
        """Return the only number of a tensor, or None."""
        numbers = self.of(value)
        return numbers[0] if numbers is not None and len(numbers) == 1 else None

    def integer(self, value: ir.Value | None) -> int | None:
        """Return the only number of a tensor if it is a constant, or None."""
        number = self.number(value)
        return None if number is None else number.number

    def of(self, value: ir.Value | None) -> Numbers | None:
        """Return the numbers of a tensor, or None where they are not known."""
        if value is None:
            return None
        if value not in self.known:
            self._compute_up_to(value)
        return self.known[value]

    def _compute_up_to(self, value: ir.Value) -> None:
        """Compute a value that is not known yet, and those that it is computed of."""
        for node in self._pending(value):
            for output in node.outputs:
                if output not in self.known:
                    self.known[output] = None
            if len(node.outputs) == 1:
                self.known[node.outputs[0]] = self._compute(node)
            elif is_operator(node, "Split"):
                self.known |= self._parts(node)
        if value not in self.known:
            self.known[value] = self._leaf(value)

    def _pending(self, value: ir.Value) -> list[ir.Node]:
        """Return the nodes to compute, in order; long chains must not recurse."""
        order: list[ir.Node] = []
        seen: set[ir.Node] = set()
        stack = [(value, False)]
        while stack:
            item, is_ready = stack.pop()
            node = item.producer()
            if node is None:
                continue
            if is_ready:
                order.append(node)
            elif item not in self.known and node not in seen:
                seen.add(node)
                stack.append((item, True))
                if is_operator(node, _FOLLOWED):
                    stack.extend((v, False) for v in node.inputs if v is not None)
        return order

    def _leaf(self, value: ir.Value) -> Numbers | None:
        """Return a constant, or a number that no node here computes."""
        array = constant_value(value)
        if array is not None:
            is_known = array.ndim < 2 or self._typing.rank(value) == 2
            return _constants(array) if is_known else None
        dtype, dims = self._typing.dtype(value), self._typing.dims(value)
        if value in self._inside or dtype not in INTEGERS or dims not in ((), (1,)):
            return None
        return (Linear.of(Scalar(value)),)

    def _compute(self, node: ir.Node) -> Numbers | None:
        result = None
        if is_operator(node, RULES):
            result = RULES[node.op_type](self, node)
        output = node.outputs[0]
        if result is not None and self._fits(result, output):
            return result
        return self._leaf(output)

    def _parts(self, node: ir.Node) -> dict[ir.Value, Numbers]:
        """Return the numbers of the parts that a vector of known numbers is split into."""
        numbers = self.of(node.inputs[0])
        sizes = [self._typing.dims(part) for part in node.outputs]
        counts = [d[0] for d in sizes if d is not None and len(d) == 1 and isinstance(d[0], int)]
        if numbers is None or len(counts) < len(sizes) or sum(counts) != len(numbers):
            return {}
        ends = itertools.accumulate(counts)
        found = zip(node.outputs, counts, ends, strict=True)
        return {part: numbers[end - count : end] for part, count, end in found}

    def _fits(self, numbers: Numbers, value: ir.Value) -> bool:
        """Whether some numbers are all that a value of rank 0, 1 or 2 holds, and it holds them."""
        dtype = self._typing.dtype(value)
        if dtype in FLOATS and not all(is_exact(n, dtype) for n in numbers):
            return False  # a float may have been rounded
        dims, made = self._typing.dims(value), value.producer()
        if dims is None and is_operator(made, "Shape"):
            dims = (len(numbers),)  # a plan may hold it without a type
        if dims is not None and all(isinstance(d, int) for d in dims):
            size = math.prod(d for d in dims if isinstance(d, int))
            if size != len(numbers):
                return False
        if len(numbers) == 1 or (dims is not None and len(dims) == 1):
            return len(numbers) <= _LARGEST
        return len(numbers) <= _LARGEST and _sides(dims, len(numbers)) is not None

    def table(self, value: ir.Value | None) -> list[Numbers] | None:
        """Return the rows of a matrix, or None where its numbers or its shape are not known."""
        numbers = self.of(value)
        sides = None if numbers is None else _sides(self.dims(value), len(numbers))
        if numbers is None or sides is None:
            return None
        rows, columns = sides
        return [numbers[i * columns : (i + 1) * columns] for i in range(rows)]

    def length(self, sequence: ir.Value | None) -> Linear | None:
        """Return the number of elements of a sequence that is the same in all iterations."""
        return length_of(self, sequence)

    # What the rules below read.

    def rank(self, value: ir.Value | None) -> int | None:
        """Return the rank of a value, if known."""
        return None if value is None else self._typing.rank(self.outside(value))

    def dims(self, value: ir.Value | None) -> tuple[int | str | None, ...] | None:
        """Return the dimensions of a value, if its rank is known."""
        return None if value is None else self._typing.dims(self.outside(value))

    def dtype(self, value: ir.Value | None) -> ir.DataType | None:
        """Return the element type of a value, if known."""
        return None if value is None else self._typing.dtype(self.outside(value))

    def is_within(self, position: Linear, size: Linear) -> bool:
        """Whether a position is less than a size, or noted as what it has to be less than."""
        if not self._follows:
            return is_in_range(position, size, self.last)
        self.in_range.append((position, size))
        return True

    def is_followed_as_float(self, numbers: Numbers) -> bool:
        """Whether numbers that were cast to float32 are still known, or noted as rounded."""
        self.through_floats |= any(n.number is None for n in numbers)
        return True

    def notes_far(self) -> bool:
        """Whether no dimension is taken to be larger than 10^9: it is noted."""
        self.is_far = True
        return True

    def is_inside(self, value: ir.Value) -> bool:
        """Whether a value may differ from iteration to iteration."""
        return self.outside(value) in self._inside

    def outside(self, value: ir.Value) -> ir.Value:
        """Return what a value is outside of the iterations, or the value."""
        return self.outer.get(value, value)

    def dimension(self, tensor: ir.Value, axis: int) -> Linear | None:
        """Return a dimension of a tensor that is the same in all iterations."""
        tensor = self.sized.get(tensor, tensor)
        tensor = self.outside(tensor)
        while not self._is_named(tensor, axis):
            found = made_along(self, tensor, axis)
            if found is None:
                break
            tensor, axis = self.outside(self.sized.get(found[0], found[0])), found[1]
        dims, dim = self._typing.dims(tensor), None
        if dims is not None:
            if not -len(dims) <= axis < len(dims):
                return None
            axis %= len(dims)
            dim = dims[axis]
        if isinstance(dim, int):
            return Linear(dim)
        size = made_size(self, tensor, axis) if axis >= 0 else None
        is_inside = tensor in self._inside
        if size is not None and (not is_inside or _is_fixed(size)):
            return size
        if self._typing.is_same_number(dim) and not is_inside:
            return Linear.of(Dim(dim, tensor, axis))
        if isinstance(dim, str) and dim in self.named:
            return Linear.of(self.named[dim])
        return None if axis < 0 or is_inside else Linear.of(Dim((tensor, axis), tensor, axis))

    def _is_named(self, tensor: ir.Value, axis: int) -> bool:
        """Whether a dimension is a number, or one in the whole model, by its type."""
        dims = self._typing.dims(tensor)
        if dims is None or not -len(dims) <= axis < len(dims):
            return False
        dim = dims[axis]
        is_told = not self._typing.may_follow(dim)
        return isinstance(dim, int) or (tensor not in self._inside and is_told)


def _is_fixed(size: Linear) -> bool:
    """Whether a size is that of tensors and sequences alone, which no iteration changes."""
    return all(isinstance(atom, Dim | Length) for atom, _ in size.terms)


def _constants(array: np.ndarray) -> Numbers | None:
    if array.size > _LARGEST or array.ndim > 2 or array.dtype.kind not in "iubf":
        return None
    numbers = array.ravel().tolist()
    if any(int(n) != n for n in numbers if np.isfinite(n)) or not np.isfinite(numbers).all():
        return None
    return tuple(Linear(int(n)) for n in numbers)


def _sides(dims: tuple[int | str | None, ...] | None, count: int) -> tuple[int, int] | None:
    """Return rows and columns of a matrix of so many numbers, None if they are not known."""
    if dims is None or len(dims) != 2 or not count:
        return None
    rows, columns = dims
    if isinstance(columns, int):
        return None if not columns or count % columns else (count // columns, columns)
    return (rows, count // rows) if isinstance(rows, int) and rows and not count % rows else None
