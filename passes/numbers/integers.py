"""Integers that a graph computes, written as sums: dimensions, lengths, counters, positions.

``2 * length(xs) + i - 1`` is a `Linear`: the constant -1, and the atoms ``Length(xs)`` and
`IterationNumber` with how often each counts, 2 and 1. What is proven of sums is in
`passes.numbers.number_order`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import onnx_ir as ir

__all__ = [
    "ITERATION",
    "Atom",
    "Dim",
    "Entry",
    "Greatest",
    "IterationNumber",
    "Least",
    "Length",
    "Linear",
    "Quotient",
    "Scalar",
    "StateSymbol",
]


@dataclasses.dataclass(frozen=True)
class IterationNumber:
    """The number of the iteration, from 0."""


@dataclasses.dataclass(frozen=True)
class Dim:
    """A dimension of a tensor.

    Attributes:
        key: Equal for dimensions that are one number.
        tensor: A tensor that has it.
        axis: Where.
    """

    key: object
    tensor: ir.Value = dataclasses.field(compare=False)
    axis: int = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Length:
    """The number of elements of a sequence."""

    sequence: ir.Value


@dataclasses.dataclass(frozen=True)
class Scalar:
    """A tensor of one unknown integer."""

    value: ir.Value


@dataclasses.dataclass(frozen=True)
class StateSymbol:
    """A carried value at the start of an iteration."""

    value: ir.Value


@dataclasses.dataclass(frozen=True)
class Entry:
    """The number at a position of a vector."""

    vector: ir.Value
    position: Linear


@dataclasses.dataclass(frozen=True)
class Least:
    """The least of some numbers."""

    members: frozenset[Linear]


@dataclasses.dataclass(frozen=True)
class Greatest:
    """The greatest of some numbers."""

    members: frozenset[Linear]


@dataclasses.dataclass(frozen=True)
class Quotient:
    """The number of parts of a number; the last part may be shorter; 0 or less if the number is.

    Attributes:
        number: The number.
        step: The size of a part, 2 or more.
    """

    number: Linear
    step: int


Atom: TypeAlias = (
    IterationNumber | Dim | Length | Scalar | StateSymbol | Entry | Least | Greatest | Quotient
)
ITERATION = IterationNumber()


@dataclasses.dataclass(frozen=True)
class Linear:
    """A constant and a sum of multiples of atoms.

    Attributes:
        constant: The constant.
        terms: Each atom and how often it counts, never 0.
    """

    constant: int = 0
    terms: frozenset[tuple[Atom, int]] = frozenset()

    @classmethod
    def of(cls, atom: Atom) -> Linear:
        """Return an atom as a sum."""
        return cls(0, frozenset({(atom, 1)}))

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.constant + other, self.terms)
        counts = dict(self.terms)
        for atom, count in other.terms:
            counts[atom] = counts.get(atom, 0) + count
        terms = frozenset((a, c) for a, c in counts.items() if c)
        return Linear(self.constant + other.constant, terms)

    def __mul__(self, factor: int) -> Linear:
        if not factor:
            return Linear()
        return Linear(self.constant * factor, frozenset((a, c * factor) for a, c in self.terms))

    def __sub__(self, other: Linear | int) -> Linear:
        return self + (other * -1)

    @property
    def number(self) -> int | None:
        """The number that it is, if it is constant."""
        return None if self.terms else self.constant

    def coefficient(self, atom: Atom) -> int:
        """Return how often an atom counts."""
        return dict(self.terms).get(atom, 0)

    @property
    def step(self) -> int:
        """How much more it is in each iteration; 0 where that is not the same in all of them.

        ``i + max(3 - i, 0)`` is 3 four times.
        """
        return 0 if ITERATION in self.without(ITERATION).atoms() else self.coefficient(ITERATION)

    def without(self, atom: Atom) -> Linear:
        """Return the sum of all other terms."""
        return Linear(self.constant, frozenset((a, c) for a, c in self.terms if a != atom))

    def replace(self, values: Mapping[Atom, Linear]) -> Linear:
        """Return the sum with other sums in the place of some atoms."""
        total = Linear(self.constant)
        for atom, count in self.terms:
            total += values.get(atom, Linear.of(atom)) * count
        return total

    def atoms(self) -> Iterable[Atom]:
        """Yield every atom, those inside of others too."""
        for atom, _ in self.terms:
            yield atom
            if isinstance(atom, Least | Greatest):
                for member in atom.members:
                    yield from member.atoms()
            elif isinstance(atom, Entry):
                yield from atom.position.atoms()
            elif isinstance(atom, Quotient):
                yield from atom.number.atoms()
