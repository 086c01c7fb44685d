"""Damaged files: a documented status, one line, no traceback, no file left, bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.judge import Judge
from tests.fuzz.mutations import damaged


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge()
    yield judge
    judge.close()


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file(judge: Judge, seed: int) -> None:
    assert judge.fault(seed) == ""


@pytest.mark.full
@pytest.mark.parametrize("first", range(60, 2000, 97))
def test_many_damaged_files(judge: Judge, first: int) -> None:
    faults = {seed: judge.fault(seed) for seed in range(first, min(first + 97, 2000))}
    assert {seed: fault for seed, fault in faults.items() if fault} == {}


def test_one_seed_is_one_file() -> None:
    assert [damaged(seed) for seed in range(20)] == [damaged(seed) for seed in range(20)]
    assert len({damaged(seed)[1] for seed in range(20)}) > 15
