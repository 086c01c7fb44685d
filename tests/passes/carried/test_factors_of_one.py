"""Totals with a factor of 1 around them, as PaddlePaddle writes ``c + 1``."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, same

TEXT = """g (float[N,2] x, {state} begin) => ({result} r) {{
  n0 = Shape <start = 0, end = 1> (x)  n = Squeeze (n0)
  t = Constant <value = bool {{1}}> ()
  zero = Constant <value = float {{0}}> ()
  axis = Constant <value = int64[1] {{0}}> ()
  one = Constant <value = {one}> ()
  step = Constant <value = float {{1}}> ()
  r = Loop (n, t, begin) <body = step (int64 i, bool cond, {state} c) => (bool go, {result} c2) {{
    e = Gather (x, i)
    v = ReduceSum <keepdims = 0> (e, axis)
    flag = Greater (v, zero)
    {body}
    go = Identity (cond)
  }}>
}}"""
ALWAYS = "scaled = Mul (c, one)  c2 = Add (scaled, v)"
SOMETIMES = """c2 = If (flag) <then_branch = yes () => (more) {
      scaled = Mul (one, c)  more = Add (scaled, step)
    }, else_branch = no () => (same) { same = Identity (c) }>"""
BOTH = """c2 = If (flag) <then_branch = yes () => (more) {
      scaled = Mul (c, one)  more = Add (scaled, step)
    }, else_branch = no () => (less) { other = Mul (c, one)  less = Sub (other, v) }>"""
PLAIN = {"state": "float[1]", "result": "float[1]", "one": "float[1] {1}"}
READ = {
    "in every iteration": {"body": ALWAYS},
    "in some": {"body": SOMETIMES},
    "in both branches": {"body": BOTH},
    "a scalar": {"body": ALWAYS, "one": "float {1}", "state": "float", "result": "float"},
}
STAYS = {
    "another factor": {"body": ALWAYS, "one": "float[1] {2}"},
    "several factors": {"body": ALWAYS, "one": "float[2] {1, 2}", "result": "float[K]"},
    "a factor that adds an axis": {
        "body": ALWAYS,
        "one": "float[1,1] {1}",
        "result": "float[K,L]",
    },
}


def _feeds(state: str) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    begin = np.array(2, np.float32) if state == "float" else np.array([2], np.float32)
    rows = [rng.standard_normal((n, 2)).astype(np.float32) for n in LENGTHS]
    return [{"x": x, "begin": begin} for x in rows]


@pytest.mark.quick
@pytest.mark.parametrize("name", READ)
def test_it_ends_without_a_loop(name: str) -> None:
    case = {**PLAIN, **READ[name]}
    before = model(TEXT.format(**case))
    found = rewrite(before, target="portable")
    assert not operators(found.model)["Loop"], found.report.decisions
    assert same(before, found.model, *_feeds(case["state"])) == len(LENGTHS)


@pytest.mark.quick
@pytest.mark.parametrize("name", STAYS)
def test_it_stays_a_loop(name: str) -> None:
    before = model(TEXT.format(**{**PLAIN, **STAYS[name]}).replace("float[1] c)", "c)"))
    found = rewrite(before)
    assert operators(found.model)["Loop"] == 1
    assert "depends on its own past" in str(found.report)
