"""Values that a loop keeps within bounds: chains of Max, Min and Clip."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.carried.carried import DIALECTS, LENGTHS, feeds, loop
from tests.passes.loops import model, read, same

PREPARE = """low = Constant <value = float {-0.5}> ()  high = Constant <value = float {0.5}> ()
        three = Constant <value = int64 {3}> ()"""
ROW = "wide = Abs (e)  u = Add (e, wide)"
BOUNDS = {
    "a_maximum_cut": "q = Max (s, e)  s2 = Clip (q, low, high)",
    "cut_from_above": "q = Max (e, s)  s2 = Clip (q, , high)",
    "a_range_of_each": f"{ROW}  q = Max (s, e)  s2 = Min (u, q)",
    "the_greatest_first": f"{ROW}  q = Min (s, u)  s2 = Max (q, e)",
    "a_range_turned": f"{ROW}  q = Max (s, u)  s2 = Min (q, e)",
    "several_at_once": f"{ROW}  q = Max (e, s, low)  m = Min (q, u, high)  s2 = Clip (m, low)",
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", BOUNDS)
def test_it_ends_without_a_loop(name: str, dialect: str) -> None:
    body = f"{BOUNDS[name]}  y = Identity (s2)"
    text = loop(dialect, "float[4]", body, "b", collected="float[4]", prepare=PREPARE)
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    lengths = [n for n in LENGTHS if n or dialect != "scan"]
    assert same(before, found.model, *map(feeds, lengths)) == len(lengths)


def test_integers_within_bounds() -> None:
    text = loop(
        "counted", "int64[4]", "q = Max (s, ke)  s2 = Min (q, three)", "c", prepare=PREPARE
    )
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


@pytest.mark.sampled
@pytest.mark.parametrize("name", BOUNDS)
def test_a_nan_stays_and_an_infinity_is_cut(name: str) -> None:
    body = f"{BOUNDS[name]}  y = Identity (s)"
    text = loop("counted", "float[4]", body, "b", collected="float[4]", prepare=PREPARE)
    before = model(text)
    rows = np.array([[1, np.inf, 0, -1], [-np.inf, 0, np.nan, 2], [3, -1, 5, 0.25]], np.float32)
    first = np.array([0, 0, 0, np.nan], np.float32)
    given = [feeds(3, x=rows), feeds(3, x=rows, b=first)]
    assert same(before, read(before).model, *given) == 2


NEAR = {
    "a_sum_within_bounds": "q = Add (s, e)  s2 = Clip (q, low, high)",
    "no_faster_than": """d = Sub (s, high)  u = Add (s, high)  q = Max (e, d)  s2 = Min (q, u)""",
    "a_share_of_it": "q = Mul (s, high)  m = Max (q, e)  s2 = Clip (m, low, high)",
}


@pytest.mark.parametrize("name", NEAR)
def test_what_reads_the_state_stays_in_a_loop(name: str) -> None:
    before = model(loop("counted", "float[4]", NEAR[name], "b", prepare=PREPARE))
    found = read(before)
    assert found.loops == 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
