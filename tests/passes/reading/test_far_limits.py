"""A limit that a condition asks for may be the largest int64, which stands for none."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import prove, rows

LOOP = """g (float[N,3] x, int64 limit) => (float[?,3] y) {{
  zero = Constant <value = int64 {{0}}> () h = Shape (x) n = Gather (h, zero) {first}
  y = Loop (n, {go}) <body = body (int64 i, bool c) => (bool d, float[3] o) {{
    e = Gather (x, i) o = Neg (e) {last} }}>
}}"""
YES = "go = Constant <value = bool {1}> ()"
CONDITIONS = {
    "of this iteration": (YES, "go", "d = Less (i, limit)"),
    "of this iteration, or equal": (YES, "go", "d = LessOrEqual (i, limit)"),
    "asked before the first": (
        "go = LessOrEqual (zero, limit)",
        "go",
        "one = Constant <value = int64 {1}> () k = Add (i, one) d = LessOrEqual (k, limit)",
    ),
}
FARTHEST = np.iinfo(np.int64).max


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_limit_may_be_the_largest_number(name: str) -> None:
    first, go, last = CONDITIONS[name]
    limits = (0, 1, 3, 100, FARTHEST - 1, FARTHEST)
    feeds = [{"x": rows(n, 3), "limit": np.int64(limit)} for n in (1, 4) for limit in limits]
    prove(LOOP.format(first=first, go=go, last=last), *feeds)
