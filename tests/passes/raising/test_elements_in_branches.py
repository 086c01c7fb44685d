"""Elements of a tensor that was cut into rows, which a branch reads at the iteration's number."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.expansion import operators
from tests.passes.loops import model, rows, same

pytestmark = pytest.mark.quick

TEXT = """g (float[N,4] x) => (float[M,4] y)
  <bool go = {1}, int64 none = {0}, int64 one = {1}, int64 two = {2}>
{ s = SplitToSequence <axis = AXIS, keepdims = 0> (CUT) n = SequenceLength (s)
  y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[4] r) {
    is = Greater (i, none)
    r = If (is) <then_branch = t () => (float[4] a) {
      now = SequenceAt (s, i) j = Sub (i, one) last = SequenceAt (s, j) a = Sub (now, last) },
     else_branch = e () => (float[4] a2) { f = SequenceAt (s, i) a2 = Neg (f) }>
    d = Identity (c) }> }"""
CASES = {
    "rows": TEXT.replace("AXIS", "0").replace("CUT", "x"),
    "columns": TEXT.replace("AXIS", "1")
    .replace("CUT", "turned")
    .replace("{ s =", "{ turned = Transpose (x) s =", 1),
    "one in each iteration, too": TEXT.replace("AXIS", "0")
    .replace("CUT", "x")
    .replace("r = If", "q = SequenceAt (s, i) r0 = If")
    .replace("d = Identity (c)", "r = Add (r0, q) d = Identity (c)"),
}
FEEDS = [{"x": rows(n, 4)} for n in (0, 1, 2, 7)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["onnxruntime", "portable"])
def test_no_loop_is_left(name: str, target: str) -> None:
    before = model(CASES[name])
    found = rewrite(before, target=target).model
    left = operators(found)
    assert not left["Loop"]
    assert not left["SequenceAt"]
    assert same(before, found, *FEEDS) == len(FEEDS)


def test_pieces_of_given_sizes_stay_right() -> None:
    text = CASES["rows"].replace("(x) n", "(x, sizes) n").replace(", keepdims = 0", "")
    text = text.replace("float[N,4] x", "float[N,4] x, int64[K] sizes")
    text = text.replace("float[4] ", "float[P,4] ").replace("float[M,4] y", "float[M,P,4] y")
    before = model(text)
    feeds = [{"x": rows(2 * n, 4), "sizes": np.full(n, 2, np.int64)} for n in (1, 3)]
    assert same(before, rewrite(before).model, *feeds) == len(feeds)
