"""The lengths of packed samples: which rows of a tensor each sample has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import onnx_ir as ir

from passes.batching.rows_by_steps import ADDS, samples_by_marks, samples_by_steps
from passes.graph.builder import Builder
from passes.graph.drafts import Memo, recorded
from passes.numbers.integers import Dim, Linear

__all__ = ["Lengths", "multiplied"]

T = TypeVar("T")


class Lengths:
    """Lengths of samples along their first axis, and what follows from them.

    Values are packed alike if they share one object of this class. What follows is recorded
    when it is first asked for, and once. All of it takes time linear in rows and samples.

    Attributes:
        value: Length of each sample, int64 ``[B]``.
        most: The largest length, if the lengths are constants.
        size: The length of one sample as a sum; lengths of equal sums are equal.
        held_padded: Whether the model holds as many numbers as padding takes anyway, such as the
            flags, of samples of one size, by which each sample's rows were found.
        likely: About how many rows all samples have, as far as sizes tell, int64, a scalar or
            ``[1]``; None where they tell nothing, or all.
        product_of: The numbers and lengths that are multiplied; none if they are no product.
    """

    def __init__(
        self,
        builder: Builder,
        value: ir.Value,
        most: int | None = None,
        samples: ir.Value | None = None,
        size: Linear | None = None,
        held_padded: bool = False,
        product_of: Sequence[int | Lengths] = (),
    ) -> None:
        """Describe the samples of packed values.

        Args:
            builder: Records what follows from the lengths; it comes before all readers.
            value: The lengths.
            most: The largest one, if they are constants.
            samples: The sample that each row belongs to, if that is there already.
            size: See `Lengths`; None if nothing is known of it.
            held_padded: See `Lengths`.
            product_of: See `Lengths`.
        """
        self.value, self.most, self.held_padded = value, most, held_padded
        self.size = Linear.of(Dim(self, value, 0)) if size is None else size
        self.likely: ir.Value | None = None
        self.product_of = tuple(product_of)
        self._builder = builder
        self._multiples: dict[int, Lengths] = Memo()
        self._elsewhere: dict[Builder, Lengths] = Memo()
        self._products: dict[tuple[Builder, Lengths], Lengths] = Memo()
        self._made: dict[Callable[[Builder, Lengths], Any], Any] = Memo()
        if samples is not None:
            vars(self)["samples"] = samples

    def equal(self, other: Lengths | None) -> bool:
        """Whether other lengths are the same for each sample, by proof."""
        return other is not None and (other is self or other.size == self.size)

    @property
    def factors(self) -> Sequence[int | Lengths]:
        """The numbers and lengths whose product these are; themselves where nothing tells more."""
        if self.product_of:
            return self.product_of
        if self.size.constant or len(self.size.terms) != 1:
            return (self,)
        ((atom, count),) = self.size.terms
        whole = atom.key if isinstance(atom, Dim) else None
        if not isinstance(whole, Lengths) or whole is self or count < 1:
            return (self,)
        return (*whole.factors, count)

    def times(self, factor: int) -> Lengths:
        """Return the lengths of samples that have ``factor`` rows for each row of these."""
        if factor == 1:
            return self
        if factor not in self._multiples:
            value = self._builder.op("Mul", [self.value, self._builder.ints(factor)])
            most = None if self.most is None else self.most * factor
            parts = self.product_of and (*self.product_of, factor)
            self._multiples[factor] = Lengths(
                self._builder, value, most, size=self.size * factor, product_of=parts
            )
        return self._multiples[factor]

    def is_recorded_by(self, builder: Builder) -> bool:
        """Whether a builder records what follows from the lengths."""
        return self._builder is builder

    def on(self, builder: Builder) -> Lengths:
        """Return the same lengths; a builder records what follows from them."""
        if self.is_recorded_by(builder):
            return self
        if builder not in self._elsewhere:
            made = self.checked(builder, self.value)
            made.product_of = self.product_of
            self._elsewhere[builder] = made
        return self._elsewhere[builder]

    def by(self, builder: Builder, other: Lengths) -> Lengths:
        """Return the products with other lengths: one object, whichever of the two comes first.

        Args:
            builder: Records them; it comes behind both.
            other: The other lengths.
        """
        if (builder, other) not in self._products:
            value = builder.op("Mul", [self.value, other.value])
            parts = (*(self.product_of or (self,)), *(other.product_of or (other,)))
            made = Lengths(builder, value, product_of=parts)
            self._products[builder, other] = made
            other._products[builder, self] = made
        return self._products[builder, other]

    def once(self, make: Callable[[Builder, Lengths], T]) -> T:
        """Return what is made of the lengths: one object, however often it is asked for."""
        if make not in self._made:
            self._made[make] = make(self._builder, self)
        made: T = self._made[make]
        return made

    def checked(self, builder: Builder, value: ir.Value) -> Lengths:
        """Return the same lengths, read behind a check.

        Args:
            builder: Has recorded the check; these lengths may be known long before it.
            value: The lengths, an error at run time if the check fails.
        """
        return Lengths(builder, value, self.most, size=self.size, held_padded=self.held_padded)

    def kept(self, builder: Builder, flags: ir.Value) -> Lengths:
        """Return the lengths of what is left of the samples.

        Args:
            builder: Records what follows from the flags.
            flags: Which rows are left, ``bool[T]``. They are counted by integers, exactly.
        """
        numbers = builder.op("Cast", [flags], {"to": ir.DataType.INT64})
        sums = builder.op("CumSum", [numbers, builder.scalar(0)])
        before = builder.op("Concat", [builder.ints(0), sums], {"axis": 0})
        last, first = (builder.op("Gather", [before, v]) for v in (self.ends, self.starts))
        value = builder.op("Sub", [last, first])
        return Lengths(builder, value, held_padded=self.held_padded)

    @recorded
    def ends(self) -> ir.Value:
        """Row behind the last one of each sample, int64 ``[B]``."""
        return self._builder.op("CumSum", [self.value, self._builder.scalar(0)])

    @recorded
    def starts(self) -> ir.Value:
        """First row of each sample, int64 ``[B]``."""
        return self._builder.op("Sub", [self.ends, self.value])

    @recorded
    def count(self) -> ir.Value:
        """Number of samples, int64 ``[1]``."""
        return self._builder.op("Shape", [self.value])

    @recorded
    def total(self) -> ir.Value:
        """Number of rows, int64 ``[1]``."""
        return self._builder.op("ReduceSum", [self.value], {"keepdims": 1})

    @recorded
    def longest(self) -> ir.Value:
        """Length of the longest sample, 0 if there is none, int64 ``[1]``."""
        padded = self._builder.op("Concat", [self.value, self._builder.ints(0)], {"axis": 0})
        return self._builder.op("ReduceMax", [padded], {"keepdims": 1})

    @recorded
    def width(self) -> ir.Value:
        """Length of the longest sample, 1 if it has none, int64 ``[1]``."""
        one = self._builder.ints(1)
        if "longest" in vars(self):
            return self._builder.op("Max", [self.longest, one])
        least = self._builder.op("Concat", [self.value, one], {"axis": 0})
        return self._builder.op("ReduceMax", [least], {"keepdims": 1})

    @recorded
    def samples(self) -> ir.Value:
        """The sample that each row belongs to, int64 ``[T]``."""
        builder = self._builder
        if builder.opset is not None and builder.opset < ADDS:
            return samples_by_steps(builder, self.value, self.starts, self.total)
        if self.known_lines:
            rows, lines = self.known_lines
            return builder.op("Gather", [lines.samples, rows.samples], {"axis": 0})
        return samples_by_marks(builder, self.ends, self.total, self.count)

    @recorded
    def lines(self) -> tuple[Lengths, Lengths] | None:
        """The lengths of the lines of all samples, and how many lines each sample has.

        Images ``[2, 3]`` and ``[1, 4]``: lines of ``[3, 3, 4]`` rows, and ``[2, 1]`` lines. None
        where the lengths are no product of several.
        """
        *outer, last = [one for one in (self, *self.product_of) if isinstance(one, Lengths)]
        if len(outer) < 2:
            return None
        number = math.prod(one for one in self.product_of if isinstance(one, int))
        lines = multiplied(self._builder, outer[1:])
        width = last.on(self._builder).times(number).value
        rows = self._builder.op("Gather", [width, lines.samples], {"axis": 0})
        return Lengths(self._builder, rows), lines

    @property
    def known_lines(self) -> tuple[Lengths, Lengths] | None:
        """See `lines`; None too where nothing has asked for them yet."""
        known: tuple[Lengths, Lengths] | None = vars(self).get("lines")
        return known

    @recorded
    def positions(self) -> ir.Value:
        """The place of each row within its sample, int64 ``[T]``."""
        builder = self._builder
        total = builder.op("Squeeze", [self.total, builder.ints(0)])
        rows = builder.arange(total)
        first = builder.op("Gather", [self.starts, self.samples], {"axis": 0})
        return builder.op("Sub", [rows, first])


def multiplied(builder: Builder, several: Sequence[Lengths]) -> Lengths:
    """Return the products of lengths, at least one; a builder records what follows from them."""
    first, *others = several
    whole = first if others else first.on(builder)
    for other in others:
        whole = whole.by(builder, other)
    return whole
