"""Which bounds of a Slice take all of an axis, asked of lists of any size."""

from __future__ import annotations

import itertools

import pytest

from passes.batching.flat.families import cutting
from passes.batching.flat.families.cutting import takes_all

pytestmark = pytest.mark.quick

FAR, LEAST = 2**31 - 1, -(2**31)
BOUNDS = (*range(-5, 6), FAR - 1, FAR, 2**63 - 1, LEAST + 1, LEAST, 1 - 2**63)
STEPS = (-2, -1, 1, 2)


@pytest.mark.parametrize("step", STEPS)
def test_of_a_known_size(step: int) -> None:
    for size, start, end in itertools.product(range(5), BOUNDS, BOUNDS):
        own = [*range(size)]
        is_plain = step == 1 and start == 0 and end >= size
        assert takes_all([start, end], step, size) == is_plain, (size, start, end)
        assert not is_plain or own[start:end:step] == own


@pytest.mark.parametrize("step", STEPS)
def test_of_any_size(step: int) -> None:
    """Sizes are below 2^31; what is read backwards is all in the other order."""
    for start, end in itertools.product(BOUNDS, BOUNDS):
        is_whole = cutting._is_whole([start, end], step)
        found = [[*range(size)][start:end:step] for size in (0, 1, 2, 3, 9)]
        wanted = [[*range(size)][:: 1 if step > 0 else -1] for size in (0, 1, 2, 3, 9)]
        if is_whole:
            assert found == wanted, (start, end)
        is_far = end >= FAR if step == 1 else end <= LEAST
        is_plain = is_far and (step, start) in ((1, 0), (-1, -1))
        assert is_whole == is_plain, (start, end)
        assert takes_all([start, end], step, "N") == (is_plain and step == 1)


@pytest.mark.parametrize("known", [[None, FAR], [0, None], [None, None]])
def test_bounds_that_nothing_tells(known: list[int | None]) -> None:
    for step in STEPS:
        assert not cutting._is_whole(known, step)
        assert not takes_all(known, step, 3)
