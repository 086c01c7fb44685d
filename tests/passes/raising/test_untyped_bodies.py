"""Bodies as onnxscript writes them: no value has a type, and CastLike types each number."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, same

HEAD = """g (float[N,4] x) => ({outputs}) {{
  n0 = Shape <start = 0, end = 1> (x)  n = Squeeze (n0)
  zeros = Constant <value = float[4] {{0, 0, 0, 0}}> ()
  none = Constant <value = int64 {{-1}}> ()
  nothing = Constant <value = int64 {{0}}> ()
  {loop}
}}"""

BODY = """(int64 i, bool cond, {states}) => (go, {results}) {{
    e = Gather (x, i)
    t = ReduceSum <keepdims = 0> (e)
    f0 = Constant <value = float {{0}}> ()
    flag = Greater (t, f0)
    {body}
    go = Identity (cond)
  }}"""


def _text(outputs: str, loop: str, states: str, results: str, body: str) -> str:
    inner = BODY.format(states=states, results=results, body=body)
    return HEAD.format(outputs=outputs, loop=f"{loop} <body = step {inner}>")


PATTERNS = {
    "totals and a count under one condition": _text(
        "float[4] r, int64 k",
        "r, k = Loop (n, , zeros, nothing)",
        "s, c",
        "s2, c2",
        """s2, c2 = If (flag) <then_branch = yes () => (more, next) {
      more = Add (s, e)
      one = Constant <value = int64 {1}> ()
      like = CastLike (one, c)
      next = Add (c, like)
    }, else_branch = no () => (s3, c3) { s3 = Identity (s)  c3 = Identity (c) }>""",
    ),
    "the first place of a condition": _text(
        "int64 r",
        "r = Loop (n, , none)",
        "s",
        "s2",
        """z = Constant <value = int64 {0}> ()
    like = CastLike (z, s)
    open = Less (s, like)
    both = And (flag, open)
    s2 = If (both) <then_branch = yes () => (found) { found = Identity (i) },
      else_branch = no () => (same) { same = Identity (s) }>""",
    ),
    "a sign that turns": _text(
        "float[4] r, float k",
        "plus = Constant <value = float {1}> ()  r, k = Loop (n, , zeros, plus)",
        "s, c",
        "s2, c2",
        """w = Mul (e, c)  s2 = Add (s, w)
    z = Constant <value = float {0}> ()  like = CastLike (z, c)  c2 = Sub (like, c)""",
    ),
}
"""Each with a CastLike that takes nothing but the type of what the Loop carries."""


def _feeds() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((n, 4)).astype(np.float32)} for n in LENGTHS]


@pytest.mark.quick
@pytest.mark.parametrize("name", PATTERNS)
def test_it_ends_without_a_loop(name: str) -> None:
    before = model(PATTERNS[name])
    found = rewrite(before, target="portable")
    assert not operators(found.model)["Loop"], found.report.decisions
    assert same(before, found.model, *_feeds()) == len(LENGTHS)


@pytest.mark.quick
def test_rows_of_a_state_without_a_type_have_one_in_the_loop_that_is_left() -> None:
    """What reads such rows behind a Loop of no iterations reads ``[0, 4]``, and not ``[0]``."""
    list_ = """r, ys = Loop (n, , zeros, none_yet) <body = step (int64 i, bool cond, s, l)
      => (go, s2, l2) {
    k = Constant <value = float {0.5}> ()
    e = Gather (x, i)
    u = Mul (k, e)
    q = Exp (u)
    half = Mul (k, s)
    sum = Add (half, q)
    s2 = Softsign (sum)
    at0 = Constant <value = int64[1] {0}> ()
    row = Unsqueeze (s2, at0)
    l2 = SequenceInsert (l, row)
    go = Identity (cond)
  }>
  at = Constant <value = int64[1] {0}> ()
  first = Unsqueeze (zeros, at)
  all = SequenceInsert (ys, first)
  y = ConcatFromSequence <axis = 0> (all)"""
    loop = f"none_yet = SequenceEmpty ()  {list_}"
    text = HEAD.format(outputs="float[4] r, float[M,4] y", loop=loop)
    before = model(text)
    found = rewrite(before)
    assert operators(found.model)["Loop"] == 1
    assert not operators(found.model)["SequenceInsert"]
    assert same(before, found.model, *_feeds()) == len(LENGTHS)
