"""What is proven of integers written as sums: which are 0 or more, and which of several is least.

``n + i`` of a dimension and an iteration number is 0 or more, ``n - i`` may not be. The least of
``n`` and ``n + 1`` is ``n``; that of ``n`` and ``m`` stays ``Least({n, m})``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from passes.numbers.integers import (
    ITERATION,
    Atom,
    Dim,
    Greatest,
    IterationNumber,
    Least,
    Length,
    Linear,
    Quotient,
)

__all__ = [
    "greatest",
    "if_positive",
    "is_in_range",
    "is_nonnegative",
    "least",
    "not_more",
    "sole_atom",
]

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
    return isinstance(atom, IterationNumber | Dim | Length)


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


def is_in_range(position: Linear, size: Linear, last: Linear | None) -> bool:
    """Whether a position is surely less than a size, in all iterations up to the last one."""
    farthest = last if position.coefficient(ITERATION) > 0 else Linear()
    if farthest is None:
        return False
    return is_nonnegative(not_more(size - 1 - position.replace({ITERATION: farthest})))


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
