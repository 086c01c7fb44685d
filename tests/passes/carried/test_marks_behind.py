"""The first place of a condition, where a number that no iteration has says that there is none.

``k = n; for i in range(n): if c_i and k == n: k = i``.
"""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, same

TEXT = """g (bool[N] p, int64 begin, int64 other) => (int64 r) {{
  n0 = Shape (p)  n = Squeeze (n0)
  t = Constant <value = bool {{1}}> ()
  one = Constant <value = int64 {{1}}> ()
  five = Constant <value = int64 {{5}}> ()
  more = Add (n, one)
  few = Min (n, five)
  r = Loop ({trips}, t, {begin}) <body = step (int64 i, bool cond, int64 k) => (bool go, int64 k2) {{
    c = Gather (p, i)
    next = Add (i, one)
    none = {compare} (k, {mark})
    both = And (c, none)
    k2 = If (both) <then_branch = yes () => (int64 f) {{ f = Identity ({taken}) }},
      else_branch = no () => (int64 s) {{ s = Identity (k) }}>
    go = Identity (cond)
  }}>
}}"""
PLAIN = {"trips": "n", "begin": "n", "compare": "Equal", "mark": "n", "taken": "i"}
READ = {
    "the number of iterations": {},
    "it begins with what the caller gives": {"begin": "begin"},
    "a number behind the iterations": {"mark": "more", "begin": "more"},
    "the place behind": {"mark": "more", "begin": "more", "taken": "next"},
    "a constant": {"trips": "few", "mark": "five", "begin": "five"},
}
STAYS = {
    "the last place is the mark": {"taken": "next"},
    "any number": {"mark": "other"},
    "a constant that an iteration may have": {"mark": "five", "begin": "five"},
    "the last of several": {"compare": "Less", "mark": "more"},
}


def _feeds() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [
        {"p": rng.random(n) < rate, "begin": np.array(begin), "other": np.array(1)}
        for n in LENGTHS[:4]
        for rate in (0.0, 0.3, 1.0)
        for begin in (-1, n)
    ]


@pytest.mark.quick
@pytest.mark.parametrize("name", READ)
def test_it_ends_without_a_loop(name: str) -> None:
    before = model(TEXT.format(**{**PLAIN, **READ[name]}))
    found = rewrite(before, target="portable")
    assert not operators(found.model)["Loop"], found.report.decisions
    assert same(before, found.model, *_feeds()) == len(_feeds())


@pytest.mark.quick
@pytest.mark.parametrize("name", STAYS)
def test_it_stays_a_loop(name: str) -> None:
    before = model(TEXT.format(**{**PLAIN, **STAYS[name]}))
    found = rewrite(before)
    assert operators(found.model)["Loop"] == 1
    assert "depends on its own past" in str(found.report)
    assert same(before, found.model, *_feeds()) == len(_feeds())
