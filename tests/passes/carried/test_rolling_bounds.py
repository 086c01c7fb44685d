"""Which bounds of a Slice keep a rolling buffer as long as it is, asked of lists of any size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from passes.carried.lists import buffers
from passes.numbers.integers import Linear
from passes.numbers.slice_bounds import Bounds
from tests.passes.loops import model, read, rows, same

pytestmark = pytest.mark.quick

FAR = 2**31 - 1
ENDS = (*range(-6, 8), FAR, 2**63 - 1)
FORMS = [(turned, last) for turned in (False, True) for last in (False, True)]
NAMES = [
    "cut, then joined behind",
    "joined behind, then cut",
    "cut, then joined in front",
    "joined in front, then cut",
]


def rolls(begin: int, end: int, size: int, step: int, *, turned: bool, last: bool) -> bool:
    """Whether an iteration leaves the last places of the buffer and of what is appended."""
    own, new = [*range(size)], [*range(-step, 0)]
    if last:
        found = ([*new, *own] if turned else [*own, *new])[begin:end]
    else:
        found = [*new, *own[begin:end]] if turned else [*own[begin:end], *new]
    return found == ([*new, *own][:size] if turned else [*own, *new][step:])


def is_taken(
    begin: int, end: int, size: int | str, step: int, *, turned: bool, last: bool
) -> bool:
    drops = buffers._drops_behind if turned else buffers._drops
    return drops(Bounds(Linear(begin), Linear(end), 0), size, step, is_last=last)


def bounds() -> Iterator[tuple[int, int]]:
    return ((begin, end) for begin in range(-6, 7) for end in ENDS)


@pytest.mark.parametrize(("turned", "last"), FORMS, ids=NAMES)
def test_a_buffer_of_known_size(turned: bool, last: bool) -> None:
    how = {"turned": turned, "last": last}
    for size, step in ((size, step) for size in range(1, 5) for step in range(1, 4)):
        whole = size + step * last
        for begin, end in bounds():
            if turned:
                is_plain = begin == 0 and end in (-step, size if last else size - step)
            else:
                is_plain = end >= whole and begin in (step, step - whole) and begin != 0
            expected = is_plain and rolls(begin, end, size, step, **how)
            assert is_taken(begin, end, size, step, **how) == expected, (size, step, begin, end)


@pytest.mark.parametrize(("turned", "last"), FORMS, ids=NAMES)
def test_a_buffer_of_unknown_size(turned: bool, last: bool) -> None:
    how = {"turned": turned, "last": last}
    for step in range(1, 4):
        for begin, end in bounds():
            found = is_taken(begin, end, "R", step, **how)
            right = all(rolls(begin, end, size, step, **how) for size in (*range(9), 20))
            assert found == right, (step, begin, end)


def test_bounds_that_nothing_tells() -> None:
    given = Linear.of("k")
    for turned in (False, True):
        drops = buffers._drops_behind if turned else buffers._drops
        for begin, end in ((given, Linear(FAR)), (Linear(0 if turned else 1), given)):
            assert not drops(Bounds(begin, end, 0), 3, 1, is_last=True)


CUT_TWICE = """g (float[N,4] x, float[3,4] b) => (float[3,4] y)
  <bool go = {1}, int64 one = {1}, int64[1] zero1 = {0}, int64[1] one1 = {1},
   int64[1] far = {9223372036854775807}, int64[1] many = {1000000000}>
{ shape = Shape <start = 0, end = 1> (x) n = Squeeze (shape, zero1)
  y = Loop (n, go, b) <body = body (int64 i, bool c, float[3,4] s) => (bool d, float[3,4] s2) {
    behind = Add (i, one) i1 = Unsqueeze (i, zero1) behind1 = Unsqueeze (behind, zero1)
    row = Slice (x, i1, behind1, zero1, one1) v = Slice (row, zero1, many, zero1, one1)
    q = Slice (s, one1, far, zero1) s2 = Concat <axis = 0> (q, v) d = Identity (c) }> }"""


def test_a_row_that_is_cut_twice_is_one_row() -> None:
    """TensorFlow's exporter writes ``x[i][None]`` so."""
    before = model(CUT_TWICE, 17)
    found = read(before)
    assert found.loops == 0, found.details
    feeds = [{"x": rows(n, 4), "b": rows(3, 4, seed=1)} for n in (0, 1, 2, 5)]
    assert same(before, found.model, *feeds) == len(feeds)
