"""Places that grow with the number of the iteration, but are not others in each one."""

from __future__ import annotations

import numpy as np
import pytest

from passes.carried.writes.writes import is_distinct
from passes.numbers.integers import ITERATION, Greatest, Least, Linear, Quotient
from tests.passes.carried.carried import feeds, loop
from tests.passes.loops import model, read, same

EACH, NONE = Linear.of(ITERATION), Linear()


def most(*numbers: Linear) -> Linear:
    return Linear.of(Greatest(frozenset(numbers)))


DISTINCT = [
    (EACH, 1, True),
    (EACH * 2 + 1, 2, True),
    (EACH * 2, 3, False),
    (EACH + most(Linear.of("n"), NONE), 1, True),  # type: ignore[arg-type]
    (EACH - 1, 1, False),
    (NONE, 1, False),
    (EACH + most(EACH * -1 + 3, NONE), 1, False),
    (EACH + Linear.of(Quotient(EACH, 2)), 1, False),
    (EACH + most(Linear.of(Least(frozenset([EACH * -1 + 3]))), NONE), 1, False),
    (Linear(4) - EACH, 1, True),
]


@pytest.mark.quick
@pytest.mark.parametrize(("index", "width", "expected"), DISTINCT)
def test_what_is_another_in_each_iteration(index: Linear, width: int, expected: bool) -> None:
    assert is_distinct(index, width, Linear(5)) is expected


AT_FIRST_3 = """three = Constant <value = int64 {3}> ()  d = Sub (three, i)  m = Max (d, zero)
    spot = Add (i, m)  spots = Reshape (spot, one1)  u = Unsqueeze (e, zero1)"""
BODIES = {
    "a row": "two = Unsqueeze (spots, zero1)  s2 = ScatterND (s, two, u)",
    "elements": """like = Shape (u)  down = Unsqueeze (spots, one1)  two = Expand (down, like)
        s2 = ScatterElements <axis = 0> (s, two, u)""",
    "a slice": """least1 = Constant <value_ints = [0]> ()  q1 = Add (spots, one1)
        far1 = Constant <value = int64[1] {9223372036854775807}> ()
        before = Slice (s, least1, spots)  behind = Slice (s, q1, far1)
        s2 = Concat <axis = 0> (before, u, behind)""",
    "a cell": """c1 = Constant <value = int64[1] {2}> ()  cell = Concat <axis = 0> (spots, c1)
        two = Unsqueeze (cell, zero1)  c0 = Gather <axis = 0> (e, zero)
        w0 = Unsqueeze (c0, zero1)  s2 = ScatterND (s, two, w0)""",
}


@pytest.mark.quick
@pytest.mark.parametrize("name", BODIES)
def test_what_is_written_there_last_stays(name: str) -> None:
    """All updates in one scatter would leave any of those for the place."""
    text = loop("counted", "float[9,4]", f"{AT_FIRST_3}  {BODIES[name]}", "start")
    before = model(text.replace("float[R,4] start", "float[9,4] start"))
    found = read(before)
    start = {"start": np.zeros((9, 4), np.float32)}
    given = [{**feeds(n), **start} for n in (0, 1, 3, 4, 9)]
    assert same(before, found.model, *given) == len(given)
    assert found.loops or found.operators["Compress"], found.details
