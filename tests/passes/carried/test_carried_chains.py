"""Carried values that read each other's past: each is computed before the one that reads it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.carried.carried import COUNT, INPUTS, LENGTHS, SCALARS, feeds
from tests.passes.loops import kept, prove


def chain(body: str, starts: str = "b, b", *, count: str = "(n, t, {})") -> str:
    """Return a graph whose Loop carries ``s`` and ``d`` and collects ``y``."""
    head = count.format(starts)
    return f"""g ({INPUTS}) => (float[4] r, float[4] q, float[T,4] ys) {{ {SCALARS} {COUNT}
        r, q, ys = Loop {head} <body = step (int64 i, bool cond, float[4] s, float[4] d)
            => (bool go, float[4] s2, float[4] d2, float[4] y) {{
            e = Gather <axis = 0> (x, i)
            {body}
            go = Identity (cond)
        }}>
    }}"""


CHAINS = {
    "delay_of_a_delay": "s2 = Identity (d)  d2 = Identity (e)  v = Sub (e, s)  y = Add (v, d)",
    "difference_and_its_sum": "u = Sub (e, s)  s2 = Identity (e)  v = Abs (u)  d2 = Add (d, v)  "
    "y = Mul (d2, u)",
    "sum_of_sums": "s2 = Add (s, e)  d2 = Add (d, s)  y = Tanh (d)",
    "sum_of_the_sum_behind": "s2 = Add (s, e)  d2 = Add (d, s2)  y = Tanh (d2)",
    "delay_of_a_sum": "s2 = Add (s, e)  d2 = Identity (s)  y = Sub (s, d)",
    "sum_of_a_delay_that_nothing_reads": "s2 = Identity (e)  d2 = Add (d, s)  y = Identity (e)",
    "extreme_of_differences": "u = Sub (e, s)  s2 = Tanh (e)  d2 = Max (d, u)  y = Identity (u)",
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_ends_without_a_loop(name: str) -> None:
    prove(chain(CHAINS[name]), *map(feeds, LENGTHS))


@pytest.mark.parametrize("name", CHAINS)
def test_a_nan_spoils_what_it_spoils_in_the_loop(name: str) -> None:
    spoilt = dict(feeds(7))
    x = np.array(spoilt["x"])
    x[3] = [np.nan, np.inf, -np.inf, 1]
    prove(chain(CHAINS[name]), spoilt | {"x": x})


THREE = f"""g ({INPUTS}) => (float[T,4] ys) {{ {SCALARS} {COUNT}
    r, q, o, ys = Loop (n, t, b, b, b) <
        body = step (int64 i, bool cond, float[4] s, float[4] d, float[4] h)
        => (bool go, float[4] s2, float[4] d2, float[4] h2, float[4] y) {{
        e = Gather <axis = 0> (x, i)
        s2 = Identity (e)
        u = Sub (e, s)
        d2 = Add (d, u)
        v = Mul (d, u)
        h2 = Add (h, v)
        y = Sub (h2, d)
        go = Identity (cond)
    }}>
}}"""


def test_three_in_a_row() -> None:
    prove(THREE, *map(feeds, LENGTHS))


def test_a_loop_without_a_condition() -> None:
    text = chain(CHAINS["difference_and_its_sum"], count="(n, , {})")
    prove(text, *map(feeds, LENGTHS))


MUTUAL = {
    "each_reads_the_other": "u = Tanh (d)  s2 = Add (s, u)  v = Tanh (s)  d2 = Add (d, v)  "
    "y = Add (s, e)",
    "a_delay_of_what_reads_it": "s2 = Identity (d)  d2 = Mul (e, s)  y = Add (s, e)",
}


@pytest.mark.parametrize("name", MUTUAL)
def test_values_that_depend_on_each_other_stay(name: str) -> None:
    found = kept(chain(MUTUAL[name]))
    assert found.codes == ["recurrence"]
