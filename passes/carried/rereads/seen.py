"""What an iteration sees of a tensor that iterations write to, where no write depends on it.

``s[i] = f(x[i])`` and ``s = Concat(s, f(x[i]))`` are known as a whole in front of the iterations
that read ``s``. Of a write at ``i`` iteration 2 finds the rows 0 and 1 as they are in the whole,
and the others as they were at first; behind its own write it finds the rows 0 to 2. Of an append
it finds the rows that were there at first and two more.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable

import onnx_ir as ir

from passes.carried.lists.appends import ConcatAppend
from passes.carried.lists.joined_elements import JoinedElements
from passes.carried.pattern import Pattern
from passes.carried.writes.writes import Write
from passes.decisions import Code
from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import skip_identities
from passes.graph.picking import can_pick, pick
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.known_numbers import is_around
from passes.reading.not_a_map import NotAMapError
from passes.reading.why_written import name_of_carried
from passes.typing.value_types import Typing, ValueType

__all__ = ["Seen", "find_seen"]

_Numbers = Callable[[Linear], ir.Value]
"""Records a number of an iteration as a vector ``[1]``."""


@dataclasses.dataclass(frozen=True)
class Seen(abc.ABC):
    """What an iteration sees of a carried tensor.

    Attributes:
        pattern: How the tensor is computed; it has one term that is written.
        axis: The axis along which iterations have places of their own.
    """

    pattern: Pattern
    axis: int

    @property
    def grows(self) -> bool:
        """Whether iterations see as many rows as there are so far, each another number."""
        return self.pattern.grows

    @property
    def is_copied(self) -> bool:
        """Whether each iteration holds a copy of the rows that it sees.

        A product whose right side they are takes all rows at once.
        """
        carried, after = self.pattern.carried, skip_identities(self.pattern.carried.next)
        values = (carried.inner, after)
        return not (self.grows and all(_is_multiplied(value, after) for value in values))

    @property
    def initial(self) -> ir.Value:
        """What the tensor begins with."""
        return self.pattern.carried.initial

    def typed(self, term: ValueType) -> Seen:
        """Return the same where the type of what an iteration writes is known.

        Raises:
            NotAMapError: What an iteration sees depends on more than that.
        """
        return self

    @abc.abstractmethod
    def write(
        self, builder: Builder, whole: ir.Value, number: _Numbers, *, is_after: bool
    ) -> ir.Value:
        """Record what an iteration sees.

        Args:
            builder: Writes its body.
            whole: The tensor behind the last iteration.
            number: Records a number of the iteration.
            is_after: What it sees behind its own write.
        """

    @abc.abstractmethod
    def type_of(self, known: ValueType, count: int | str | None) -> ValueType:
        """Return the type of the whole.

        Args:
            known: The type of what the tensor begins with.
            count: The number of iterations as a dimension.
        """


@dataclasses.dataclass(frozen=True)
class _Written(Seen):
    """A tensor that each iteration writes to at places of its own.

    Attributes:
        first: The first of these places.
        rank: How many axes the tensor has.
        dtype: Its element type.
    """

    first: Linear
    rank: int
    dtype: ir.DataType | None

    def write(
        self, builder: Builder, whole: ir.Value, number: _Numbers, *, is_after: bool
    ) -> ir.Value:
        """Record the whole where an iteration so far has written, the initial value elsewhere.

        Places that no iteration writes to are alike in both.
        """
        size = builder.shape(whole, self.axis, self.axis + 1)
        places = builder.arange(builder.op("Squeeze", [size, builder.ints(0)]))
        step = self.first.coefficient(ITERATION)
        bound = self.first + step * (is_after - (step < 0))
        is_written = builder.op("Less", [places, number(bound)])
        if step < 0:
            is_written = builder.op("Not", [is_written])
        behind = range(1, self.rank - self.axis)
        if behind:
            is_written = builder.op("Unsqueeze", [is_written, builder.ints(*behind)])
        return pick(builder, is_written, whole, self.initial, self.dtype)

    def type_of(self, known: ValueType, count: int | str | None) -> ValueType:
        """Return the type of what the tensor begins with."""
        return known


@dataclasses.dataclass(frozen=True)
class _Appended(Seen):
    """A tensor to which each iteration joins as many rows behind those that are there.

    Attributes:
        begin: How many rows there are at first.
        width: How many each iteration appends; None where that is not known yet.
    """

    begin: Linear
    width: int | None = None

    def typed(self, term: ValueType) -> Seen:
        """Return the same with the number of rows that an iteration appends.

        Raises:
            NotAMapError: It may differ from iteration to iteration.
        """
        if self.pattern.terms[0].kind == "stacked":
            return dataclasses.replace(self, width=1)
        width = None if term.dims is None else term.dims[self.axis]
        if not isinstance(width, int):
            carried = self.pattern.carried
            name = name_of_carried(carried)
            detail = f"it reads '{name}', which may gain another number of rows in each iteration"
            raise NotAMapError(Code.READS_EARLIER, detail, carried.next.producer())
        return dataclasses.replace(self, width=width)

    def write(
        self, builder: Builder, whole: ir.Value, number: _Numbers, *, is_after: bool
    ) -> ir.Value:
        """Record the rows that are there so far."""
        assert self.width is not None
        end = self.begin + Linear.of(ITERATION) * self.width + self.width * is_after
        bounds = builder.ints(0), number(end), builder.ints(self.axis)
        return builder.op("Slice", [whole, *bounds])

    def type_of(self, known: ValueType, count: int | str | None) -> ValueType:
        """Return the type of what the tensor begins with, and what is known of its length."""
        assert self.width is not None
        dims, begin = list(known.dims or ()), self.begin.number
        length: int | str | None = None
        if begin is not None and isinstance(count, int):
            length = begin + self.width * count
        elif begin == 0 and self.width == 1:
            length = count
        dims[self.axis] = length
        return ValueType(known.type, tuple(dims))


@dataclasses.dataclass(frozen=True)
class _Listed(_Appended):
    """The elements that a list holds so far, joined.

    Attributes:
        element: The type of one of them; None where it is not known yet.
    """

    element: ValueType | None = None

    def typed(self, term: ValueType) -> Seen:
        """Return the same with the type of an element, too."""
        made = super().typed(term)
        assert isinstance(made, _Listed)
        return dataclasses.replace(made, element=term)

    def type_of(self, known: ValueType, count: int | str | None) -> ValueType:
        """Return the type of all elements joined, and what is known of its length."""
        assert self.element is not None
        dims = list(self.element.dims or ())
        if self.pattern.terms[0].kind == "stacked":
            dims.insert(self.axis, None)
        return super().type_of(ValueType(self.element.type, tuple(dims)), count)


def _is_multiplied(value: ir.Value, after: ir.Value) -> bool:
    """Whether nothing reads a value but what makes another of it, and right sides of products."""
    for node, at in value.uses():
        made = node.outputs[0]
        if made is after or (is_operator(node, "MatMul") and at == 1):
            continue
        if not is_operator(node, ("Identity", "Transpose")) or not _is_multiplied(made, after):
            return False
    return True


def find_seen(pattern: Pattern, evaluator: Evaluator, typing: Typing) -> Seen | None:
    """Return what iterations see of a carried tensor; None where that is not known.

    Args:
        pattern: What the tensor is; no write depends on it.
        evaluator: Knows the numbers of the body.
        typing: The proven typing.
    """
    initial = pattern.carried.initial
    if isinstance(pattern, JoinedElements):
        sizes = [
            Linear(1) if pattern.is_new_axis else evaluator.dimension(value, pattern.axis)
            for value in pattern.first
        ]
        rows = [size for size in sizes if size is not None and is_around((size,), evaluator)]
        return _Listed(pattern, pattern.axis, sum(rows, Linear(0))) if rows == sizes else None
    rank, dtype = typing.rank(initial), typing.dtype(initial)
    if not rank:
        return None
    if isinstance(pattern, Write):
        first, axis = pattern.index, pattern.along
        if first is None or axis is None or not first.coefficient(ITERATION):
            return None
        if pattern.reduction != "none" or not can_pick(dtype):
            return None
        is_known = is_around((first,), evaluator)
        return _Written(pattern, axis % rank, first, rank, dtype) if is_known else None
    if isinstance(pattern, ConcatAppend):
        axis = pattern.axis % rank
        begin = evaluator.dimension(initial, axis)
        is_known = begin is not None and is_around((begin,), evaluator)
        return _Appended(pattern, axis, begin) if begin is not None and is_known else None
    return None
