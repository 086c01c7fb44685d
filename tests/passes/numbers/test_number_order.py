"""What is proven of random sums holds for numbers in the place of all that is not known."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from passes.numbers.integers import (
    ITERATION,
    Atom,
    Dim,
    Greatest,
    IterationNumber,
    Least,
    Linear,
    Quotient,
    Scalar,
)
from passes.numbers.number_order import greatest, if_positive, is_nonnegative, least, not_more

pytestmark = pytest.mark.quick

NOTHING: Any = None
ATOMS: list[Atom] = [ITERATION, Dim("n", NOTHING, 0), Dim("m", NOTHING, 0), Scalar(NOTHING)]
SEEDS = range(8)


def drawn(rng: random.Random, depth: int) -> Linear:
    """Return a sum of a few atoms; some hold others."""
    number = Linear(rng.randint(-2, 3))
    for _ in range(rng.randint(0, 2)):
        number += Linear.of(_atom(rng, depth)) * rng.choice([-2, -1, 1, 1, 2])
    return number


def _atom(rng: random.Random, depth: int) -> Atom:
    kind = rng.randint(0, 5) if depth else 0
    if kind == 3:
        return Quotient(drawn(rng, depth - 1), rng.randint(2, 4))
    if kind > 3:
        members = frozenset(drawn(rng, depth - 1) for _ in range(2))
        return Least(members) if kind == 4 else Greatest(members)
    return rng.choice(ATOMS)


def value(number: Linear, known: Mapping[object, int]) -> int:
    """Return what a sum is for some numbers."""
    return number.constant + sum(count * _value(atom, known) for atom, count in number.terms)


def _value(atom: Atom, known: Mapping[object, int]) -> int:
    match atom:
        case Least(members):
            return min(value(member, known) for member in members)
        case Greatest(members):
            return max(value(member, known) for member in members)
        case Quotient(number, step):
            return -(-value(number, known) // step)
        case IterationNumber() | Dim() | Scalar():
            return known[atom]
    raise AssertionError(atom)


def cases(seed: int) -> list[dict[object, int]]:
    rng = random.Random(seed)
    return [
        {atom: rng.randint(-4 if isinstance(atom, Scalar) else 0, 5) for atom in ATOMS}
        for _ in range(24)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_no_less_than_0(seed: int) -> None:
    rng, proven = random.Random(seed), 0
    for _ in range(400):
        number = drawn(rng, 2)
        if is_nonnegative(number):
            proven += 1
            assert all(value(number, known) >= 0 for known in cases(seed)), number
    assert proven > 40


@pytest.mark.parametrize("seed", SEEDS)
def test_the_least_and_the_greatest(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        numbers = [drawn(rng, 1) for _ in range(rng.randint(1, 4))]
        low, high = least(numbers), greatest(numbers)
        for known in cases(seed):
            values = [value(number, known) for number in numbers]
            assert value(low, known) == min(values), numbers
            assert value(high, known) == max(values), numbers


@pytest.mark.parametrize("seed", SEEDS)
def test_simpler_numbers(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(300):
        number = drawn(rng, 2)
        simpler, bound = if_positive(number), not_more(number)
        for known in cases(seed):
            given = value(number, known)
            assert given <= 0 or value(simpler, known) == given, number
            assert value(bound, known) <= given, number
