"""Elements of a carried vector that are read, joined to and written back by ScatterElements."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter.backends import open_session
from rewriter.proof.compare import compare
from tests.passes.loops import kept, model, prove, read, rows

pytestmark = pytest.mark.quick
TEXT = """g (float[N] x, float[3] z) => (float[3] y)
  <bool go = {1}, int64[1] zero = {0}, int64[1] one = {1}, int64 three = {3}, int64 at = {0}> {
  shape = Shape (x)  n = Gather (shape, at)
  y = Loop (n, go, z) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] s2) {
    d = Identity (c)  q = Gather (x, i)  k = Mod (i, three)  p = Unsqueeze (k, zero)
    NODES
    s2 = ScatterElements <axis = 0> (s, p, u) }> }"""
READS = {
    "an element": "o = Gather (s, k)  r = JOIN (o, q)  u = Unsqueeze (r, zero)",
    "an element of a vector": (
        "o1 = Gather (s, p)  o = Squeeze (o1, zero)  r = JOIN (o, q)  u = Unsqueeze (r, zero)"
    ),
    "a vector": "o = Gather (s, p)  u = JOIN (o, q)",
    "by GatherElements": (
        "o1 = GatherElements (s, p)  o = Squeeze (o1, zero)  r = JOIN (o, q)  u = Reshape (r, one)"
    ),
    "a number of two axes": (
        "q1 = Unsqueeze (q, zero)  q2 = Unsqueeze (q1, zero)  o = Gather (s, p)"
        "  r = JOIN (o, q2)  u = Reshape (r, one)"
    ),
    "by GatherElements as a vector": "o = GatherElements (s, p)  u = JOIN (q, o)",
}
JOINS = ("Add", "Mul", "Max", "Min")


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("read", READS)
def test_they_end_without_a_loop(read: str, join: str) -> None:
    given = [rows(count) for count in (0, 1, 2, 7)]
    given[3][4] = np.nan
    feeds = [{"x": x, "z": rows(3, seed=1)} for x in given]
    found = prove(TEXT.replace("NODES", READS[read].replace("JOIN", join)), *feeds, opset=18)
    by_onnx = open_session(found.model, "reference").run(feeds[2])
    assert compare(open_session(found.model).run(feeds[2]), by_onnx).equal


MISSES = {
    "another element": "o = Gather (s, i)  r = Add (o, q)  u = Unsqueeze (r, zero)",
    "the next element": ("m = Add (p, one)  o = GatherElements (s, m)  u = Add (o, q)"),
    "all elements": "o = ReduceSum (s, zero)  u = Add (o, q)",
    "an element twice": ("o = Gather (s, p)  r = Add (o, q)  u = Add (r, o)"),
}


@pytest.mark.parametrize("name", MISSES)
def test_near_misses_stay(name: str) -> None:
    found = kept(TEXT.replace("NODES", MISSES[name]), 18)
    assert found.codes == ["recurrence"]


PLACED = TEXT.replace(
    "s2 = ScatterElements <axis = 0> (s, p, u)",
    "p2 = Unsqueeze (p, one)  s2 = ScatterND (s, p2, u)",
)


@pytest.mark.parametrize(("dtype", "loops"), [("int64", 0), ("uint32", 1)])
def test_a_difference_needs_a_sign(dtype: str, loops: int) -> None:
    nodes = READS["a vector"].replace("JOIN", "Sub")
    before = model(PLACED.replace("float[", f"{dtype}[").replace("NODES", nodes), 18)
    numbers = np.array([1, 2, 3, 4], dtype)
    feeds = {"x": numbers, "z": numbers[:3]}
    found = read(before)
    assert found.loops == loops
    wanted = open_session(before, "reference").run(feeds)
    assert compare(open_session(found.model).run(feeds), wanted).equal
