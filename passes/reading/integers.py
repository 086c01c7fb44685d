"""Integers that a graph computes, written as sums: dimensions, lengths, counters, positions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import onnx_ir as ir

__all__ = [
    "TRIP",
    "Atom",
    "Dim",
    "Entry",
    "Greatest",
    "Least",
    "Length",
    "Linear",
    "Quotient",
    "Scalar",
    "StateSymbol",
    "Trip",
    "greatest",
    "if_positive",
    "is_nonnegative",
    "least",
    "not_more",
    "sole_atom",
]


@dataclasses.dataclass(frozen=True)
class Trip:
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


Atom: TypeAlias = Trip | Dim | Length | Scalar | StateSymbol | Entry | Least | Greatest | Quotient
TRIP = Trip()


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


_DEEPEST = 3


def is_nonnegative(number: Linear) -> bool:
    """Whether a number is proven to be 0 or more.

    Dimensions, lengths and the number of the iteration are. A least one is not greater than any
    of its members, a greatest one not less.
    """
    return _is_nonnegative(number, 0, {})


_Known: TypeAlias = dict[tuple[Linear, int], bool]
"""Bounds of sums that a search has found, by its depth: extremes of extremes share members."""


def _is_nonnegative(number: Linear, depth: int, known: _Known) -> bool:
    key = (number, depth)
    if key not in known:
        known[key] = _search(number, depth, known)
    return known[key]


def _search(number: Linear, depth: int, known: _Known) -> bool:
    if number.constant >= 0 and all(
        count > 0 and _atom_is_nonnegative(atom, known) for atom, count in number.terms
    ):
        return True
    if depth == _DEEPEST:
        return False
    for atom, count in number.terms:
        if not isinstance(atom, Least | Greatest):
            continue
        rest = number.without(atom)
        by_member = (_is_nonnegative(rest + m * count, depth + 1, known) for m in atom.members)
        one_suffices = isinstance(atom, Least) == (count < 0)
        if any(by_member) if one_suffices else all(by_member):
            return True
    return False


def _atom_is_nonnegative(atom: Atom, known: _Known) -> bool:
    if isinstance(atom, Least):
        return all(_is_nonnegative(m, 0, known) for m in atom.members)
    if isinstance(atom, Greatest):
        return any(_is_nonnegative(m, 0, known) for m in atom.members)
    if isinstance(atom, Quotient):
        return _is_nonnegative(atom.number, 0, known)
    return isinstance(atom, Trip | Dim | Length)


def not_more(number: Linear) -> Linear:
    """Return a number that is not greater, if there are parts wherever parts are counted.

    The parts of a number, 3 each, are together at most 2 longer than it.
    """
    total = Linear(number.constant)
    for atom, count in number.terms:
        if isinstance(atom, Quotient) and count < 0 and count % atom.step == 0:
            total += (atom.number + (atom.step - 1)) * (count // atom.step)
        else:
            total += Linear.of(atom) * count
    return total


def if_positive(number: Linear) -> Linear:
    """Return what a number is if it is positive: simpler where it is no less than 0 by a rule."""
    atom = sole_atom(number)
    members = [m for m in atom.members if m != Linear(0)] if isinstance(atom, Greatest) else []
    return greatest(members) if members else number


def least(numbers: Iterable[Linear], lowest: _Lowest | None = None) -> Linear:
    """Return the least of some numbers; what is proven not to be less than another is left out.

    Args:
        numbers: The numbers.
        lowest: Gives a number that is not greater, for the proof; the number itself by default.
    """
    return _extreme(numbers, Least, 1, lowest)


def greatest(numbers: Iterable[Linear], lowest: _Lowest | None = None) -> Linear:
    """Return the greatest of some numbers; see `least`."""
    return _extreme(numbers, Greatest, -1, lowest)


_Lowest: TypeAlias = Callable[[Linear], Linear]


def _extreme(
    numbers: Iterable[Linear],
    kind: type[Least] | type[Greatest],
    sign: int,
    lowest: _Lowest | None,
) -> Linear:
    def goes(number: Linear, other: Linear) -> bool:
        distance = (number - other) * sign
        return is_nonnegative(distance if lowest is None else lowest(distance))

    members: list[Linear] = []
    for number in numbers:
        inner = sole_atom(number)
        members.extend(inner.members if isinstance(inner, kind) else [number])
    kept: list[Linear] = []
    for number in dict.fromkeys(members):
        if any(goes(number, other) for other in kept):
            continue
        kept = [other for other in kept if not goes(other, number)]
        kept.append(number)
    if len(kept) == 1:
        return kept[0]
    return Linear.of(kind(frozenset(kept)))


def sole_atom(number: Linear) -> Atom | None:
    """Return the atom that a number is, None if it is anything else."""
    if number.constant or len(number.terms) != 1:
        return None
    ((atom, count),) = number.terms
    return atom if count == 1 else None
