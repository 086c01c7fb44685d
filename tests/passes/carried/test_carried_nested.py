"""A Loop in a Loop that runs as often as a vector says for each iteration."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, same

NESTED = """g (float[N,4] x, int64[N] k) => (float[4] r) {{
  t = Constant <value = bool {{1}}> ()
  nothing = Constant <value = float[4] {{0, 0, 0, 0}}> ()
  two = Constant <value = int64 {{2}}> ()
  zero = Constant <value = int64 {{0}}> ()
  shape = Shape (x)
  n = Gather <axis = 0> (shape, zero)
  r = Loop (n, t, nothing) <body = step (int64 i, bool cond, float[4] s)
      => (bool go, float[4] s2) {{
    size = Gather <axis = 0> (k, i)
    e = Gather <axis = 0> (x, i)
    total = Loop ({trips}, t, nothing) <body = inner (int64 j, bool on, float[4] p)
        => (bool on2, float[4] p2) {{
      {body}
      p2 = Add (p, v)
      on2 = Identity (on)
    }}>
    q = Mul (total, e)
    s2 = Add (s, q)
    go = Identity (cond)
  }}>
}}"""
TRIPS = {"as often": "size", "twice more": "more"}
BODIES = {
    "rows by number": "at = Mod (j, n)  v = Gather <axis = 0> (x, at)",
    "numbers": "c = Cast <to = 1> (j)  v = Mul (e, c)",
    "the same row": "v = Relu (e)",
}


@pytest.mark.parametrize("trips", TRIPS.values(), ids=TRIPS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_it_ends_without_a_loop(body: str, trips: str) -> None:
    text = NESTED.format(body=body, trips=trips)
    if trips == "more":
        text = text.replace("    e = G", "    more = Add (size, two)\n    e = G")
    before = model(text)
    result = rewrite(before)
    rng = np.random.default_rng(1)
    feeds = [
        {"x": rng.standard_normal((n, 4)).astype(np.float32), "k": rng.integers(-1, 5, n)}
        for n in LENGTHS
    ]
    assert same(before, result.model, *feeds) == len(feeds)
    assert not operators(result.model)["Loop"], result.report.decisions
