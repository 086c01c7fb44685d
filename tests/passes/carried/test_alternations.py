"""Carried values that every second iteration gives back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.carried.carried import DIALECTS, LENGTHS, feeds, loop, nested, nested_feeds
from tests.passes.loops import model, read, same

ROW, INTS, FLAGS = "float[4]", "int64[4]", "bool[4]"
ONE = "u1 = Constant <value = float {1}> ()"


def collected(dialect: str, state: str, change: str, begin: str, read_as: str) -> str:
    """Return a Loop that changes ``s``, and collects what its rows make of it."""
    row = {ROW: "float[4]", INTS: "int64[4]", FLAGS: "bool[4]", "float": "float[4]"}[state]
    return loop(dialect, state, f"{change}  {read_as}", begin, collected=row)


SCALED, AFTER = "y = Mul (e, s)", "y = Mul (e, s2)"
COUNTED, MASKED = "y = Add (ke, s)", "y = And (pe, s)"
CASES = {
    "another_sign": (ROW, "s2 = Neg (s)", "b", SCALED),
    "the_sign_behind_it": (ROW, "s2 = Neg (s)", "b", AFTER),
    "one_less": (ROW, f"{ONE}  s2 = Sub (u1, s)", "b", SCALED),
    "one_less_of_a_scalar": ("float", f"{ONE}  s2 = Sub (u1, s)", "z", SCALED),
    "as_exporters_write_it": (ROW, f"{ONE}  m = Neg (s)  s2 = Add (m, u1)", "b", AFTER),
    "what_is_left_of_a_row": (ROW, "s2 = Sub (z, s)", "b", SCALED),
    "integers": (INTS, "s2 = Sub (one, s)", "c", COUNTED),
    "integers_and_their_own": (INTS, "s2 = Sub (c, s)", "c", COUNTED),
    "three_turns": (INTS, "m = Neg (s)  l = Add (m, c)  q = Neg (l)  s2 = Neg (q)", "c", COUNTED),
    "not": (FLAGS, "s2 = Not (s)", "f", MASKED),
    "exclusive_or": (FLAGS, "s2 = Xor (s, f)", "f", MASKED),
    "neither": (FLAGS, "m = Xor (f, s)  s2 = Not (m)", "f", MASKED),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", CASES)
def test_two_values_take_turns(name: str, dialect: str) -> None:
    before = model(collected(dialect, *CASES[name]))
    found = read(before)
    assert found.loops == 0, found.details
    given = [feeds(n) for n in LENGTHS if n or dialect != "scan"]
    assert same(before, found.model, *given) == len(given)


@pytest.mark.parametrize("name", ["another_sign", "one_less", "neither"])
def test_the_last_value_alone(name: str) -> None:
    state, change, begin, _ = CASES[name]
    before = model(loop("counted", state, change, begin))
    found = read(before)
    assert found.loops == 0, found.details
    assert same(before, found.model, *(feeds(n) for n in LENGTHS)) == len(LENGTHS)


@pytest.mark.parametrize("name", CASES)
def test_in_a_map(name: str) -> None:
    before = model(nested(loop("counted", *CASES[name][:3])))
    found = read(before)
    given = [nested_feeds(groups, n) for groups in (0, 1, 3) for n in (0, 1, 5)]
    assert same(before, found.model, *given) >= len(given) - 3


@pytest.mark.sampled
@pytest.mark.parametrize("begin", [0.1, 1e-10, 1e20, -3e7, np.inf, np.nan, -0.3])
def test_what_rounds_rounds_as_in_the_loop(begin: float) -> None:
    before = model(collected("counted", ROW, "s2 = Sub (z, s)", "b", SCALED))
    after = read(before).model
    for z in (1, 0.1, 1e8, np.inf):
        feed = feeds(9, b=np.full(4, begin, np.float32), z=np.float32(z))
        assert same(before, after, feed) == 1


def test_exact_keeps_what_may_round() -> None:
    kept = {n: read(model(collected("counted", *CASES[n])), exact=True).loops for n in CASES}
    assert {n for n, loops in kept.items() if loops} == {
        "one_less",
        "one_less_of_a_scalar",
        "as_exporters_write_it",
        "what_is_left_of_a_row",
    }


MISSES = {
    "an_element": (ROW, "s2 = Sub (e, s)", "b", SCALED),
    "itself_twice": (ROW, "m = Mul (s, s)  s2 = Sub (z, m)", "b", SCALED),
    "twice_as_much": (ROW, "m = Add (s, s)  s2 = Neg (m)", "b", SCALED),
    "times_a_number": (ROW, "m = Mul (s, z)  s2 = Neg (m)", "b", SCALED),
    "a_broadcast": ("float[K]", "s2 = Sub (b, s)", "b", SCALED),
}


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_is_right(name: str) -> None:
    state, change, begin, read_as = MISSES[name]
    before = model(loop("counted", state, f"{change}  {read_as}", begin, collected=ROW))
    found = read(before)
    assert found.operators["Mod"] == 0 or name == "a_broadcast"
    assert same(before, found.model, *(feeds(n) for n in LENGTHS)) == len(LENGTHS)


def test_a_turn_and_back_is_no_alternation() -> None:
    """``c - (d - s)`` counts."""
    before = model(collected("counted", INTS, "m = Sub (one, s)  s2 = Sub (c, m)", "c", COUNTED))
    found = read(before)
    assert same(before, found.model, *(feeds(n) for n in LENGTHS)) == len(LENGTHS)
