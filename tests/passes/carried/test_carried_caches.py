"""Caches that a loop writes to by TensorScatter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.passes.carried.carried import SCALARS
from tests.passes.loops import model, read, same


def loop(indices: str, rows: str = "u = Unsqueeze (e, one1)", mode: str = "") -> str:
    """Return a graph whose Loop writes rows to a cache at some positions."""
    return f"""g (float[N,B,4] x, float[B,L,4] cache, int64[B] past, int64[N] at) => (float[B,L,4] r)
    {{ {SCALARS}
        two = Constant <value = int64 {{2}}> ()
        two1 = Constant <value = int64[1] {{2}}> ()
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        whole = Shape (past)
        r = Loop (n, t, cache) <body = step (int64 i, bool cond, float[B,L,4] s)
            => (bool go, float[B,L,4] s2) {{
            e0 = Gather <axis = 0> (x, i)
            e = Tanh (e0)
            {rows}
            {indices}
            s2 = TensorScatter <axis = 1{mode}> (s, u, w)
            go = Identity (cond)
        }}>
    }}"""


TWICE = "e1 = Unsqueeze (e, one1)  e2 = Neg (e1)  u = Concat <axis = 1> (e1, e2)"
CIRCULAR = ', mode = "circular"'
CACHES = {
    "next_row": loop("i1 = Unsqueeze (i, zero1)  w = Expand (i1, whole)"),
    "from_the_third": loop("k = Add (i, two)  i1 = Unsqueeze (k, zero1)  w = Expand (i1, whole)"),
    "behind_the_past": loop("w = Add (past, i)"),
    "past_in_either_order": loop("i1 = Unsqueeze (i, zero1)  w = Add (i1, past)"),
    "two_rows": loop("k = Mul (i, two)  w = Add (past, k)", TWICE),
    "around_the_end": loop("w = Add (past, i)", mode=CIRCULAR),
    "around_the_end_from_the_first": loop(
        "i1 = Unsqueeze (i, zero1)  w = Expand (i1, whole)", mode=CIRCULAR
    ),
    "two_rows_around_the_end": loop("k = Mul (i, two)  w = Add (past, k)", TWICE, CIRCULAR),
}


def feeds(length: int) -> Mapping[str, np.ndarray]:
    """Make the inputs for a number of iterations."""
    rng = np.random.default_rng(length)
    return {
        "x": rng.standard_normal((length, 3, 4)).astype(np.float32),
        "cache": rng.standard_normal((3, 2 * length + 5, 4)).astype(np.float32),
        "past": rng.integers(0, 5, 3),
        "at": rng.integers(0, 5, length),
    }


FEEDS = [feeds(length) for length in (0, 1, 2, 7, 64)]


@pytest.mark.parametrize("name", CACHES)
def test_a_cache_that_is_filled_ends_without_a_loop(name: str) -> None:
    before = model(CACHES[name], 24)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert found.operators["TensorScatter"] == 1
    assert same(before, found.model, *FEEDS) == len(FEEDS)


MISSES = {
    "rows_that_overlap": loop("w = Add (past, i)", TWICE),
    "rows_that_leave_gaps": loop("k = Mul (i, two)  w = Add (past, k)"),
    "positions_of_the_iteration": loop("a = Gather <axis = 0> (at, i)  w = Add (past, a)"),
    "what_was_written_is_read": loop(
        "w = Add (past, i)",
        "p = Slice (s, zero1, one1, one1)  q = Unsqueeze (e, one1)  u = Add (p, q)",
    ),
    "rows_around_the_end_that_overlap": loop("w = Add (past, i)", TWICE, CIRCULAR),
}


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_stays_a_loop(name: str) -> None:
    before = model(MISSES[name], 24)
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, *FEEDS) == len(FEEDS)


def small(length: int) -> Mapping[str, np.ndarray]:
    """Make the inputs for a cache of three rows, which more iterations write around."""
    given = feeds(length)
    return {**given, "cache": given["cache"][:, :3].copy()}


SMALL = [small(length) for length in (0, 1, 2, 3, 4, 7, 64)]


@pytest.mark.parametrize("name", [name for name in CACHES if "around" in name])
def test_later_rows_replace_earlier_ones(name: str) -> None:
    before = model(CACHES[name], 24)
    assert same(before, read(before).model, *SMALL) == len(SMALL)
