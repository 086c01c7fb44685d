"""Chunks of one size that a Loop cuts from a signal, with what it keeps of the chunk before."""

from __future__ import annotations

import pytest

from tests.passes.loops import model, read, rows, same

START = """g (float[2,N] x, float[2,2] tail, float[2,4] before) => (OUTPUTS) {
  zero = Constant <value = int64 {0}> () yes = Constant <value = bool {1}> ()
  four = Constant <value = int64 {4}> () one = Constant <value = int64 {1}> ()
  first = Constant <value = int64[1] {0}> () ones = Constant <value = int64[1] {1}> ()
  far = Constant <value = int64[1] {9223372036854775807}> ()
  twos = Constant <value = int64[1] {2}> () back = Constant <value = int64[1] {-2}> ()
  threes = Constant <value = int64[1] {3}> ()
  dims = Shape (x) size = Gather (dims, one) COUNT
"""
COUNTS = {
    "as many as there are": "n = Div (size, four)",
    "as many as there are, in floats": """three = Constant <value = int64 {3}> ()
        fourth = Constant <value = float {4}> () m = Sub (size, three) f = Cast <to = 1> (m)
        q = Div (f, fourth) r = Ceil (q) n = Cast <to = 7> (r)""",
    "one more, which is cut": "m = Div (size, four) n = Add (m, one)",
    "as if chunks were shorter": "m = Sub (four, one) n = Div (size, m)",
}
CUT = """at = Mul (i, four) to = Add (at, four) from_ = Unsqueeze (at, first)
  end = Unsqueeze (to, first) chunk = Slice (x, from_, end, ones)"""
BODIES = {
    "the chunk before": (
        "before",
        "float[2,4]",
        """own = ReduceSum <keepdims = 0> (chunk) past = ReduceMax <keepdims = 0> (s)
           o = Sub (own, past) s2 = Identity (chunk)""",
    ),
    "the last places": (
        "tail",
        "float[2,2]",
        """all = Concat <axis = 1> (s, chunk) o = ReduceMax <keepdims = 0> (all)
           s2 = Slice (all, back, far, ones)""",
    ),
    "the last places, cut axis by axis": (
        "tail",
        "float[2,2]",
        """all = Concat <axis = 1> (s, chunk) o = ReduceMax <keepdims = 0> (all)
           h = Slice (all, first, far, first, ones) s2 = Slice (h, back, far, ones)""",
    ),
    "the last place but one": (
        "tail",
        "float[2,2]",
        """all = Concat <axis = 1> (s, chunk) o = ReduceMax <keepdims = 0> (all)
           h = Slice (all, first, back, first, ones) s2 = Slice (chunk, ones, threes, ones)""",
    ),
    "all but what came last": (
        "tail",
        "float[2,2]",
        """all = Concat <axis = 1> (s, chunk) o = ReduceMax <keepdims = 0> (all)
           s2 = Slice (all, first, twos, ones)""",
    ),
}
ALL_FIT = ["as many as there are", "as many as there are, in floats"]
RECURRENCES = ["all but what came last"]


def text(count: str, body: str) -> str:
    begin, kind, lines = BODIES[body]
    start = START.replace("COUNT", COUNTS[count])
    start = start.replace("OUTPUTS", f"{kind} last, float[?] y")
    return f"""{start}
      last, y = Loop (n, yes, {begin}) <body = step (int64 i, bool c, {kind} s)
        => (bool d, {kind} s2, float o) {{ d = Identity (c) {CUT} {lines} }}> }}"""


@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("count", COUNTS)
def test_chunks(count: str, body: str, auto: bool) -> None:
    before = model(text(count, body), 17)
    after = read(before, auto=auto)
    lengths = (0, 3, 4, 7, 8, 28, 130)
    feeds = [{"x": rows(2, n), "tail": rows(2, 2), "before": rows(2, 4)} for n in lengths]
    found = same(before, after.model, *feeds)
    assert found == len(feeds) if count in ALL_FIT else found
    # Many copies of a large body are more than the Loop as given, for few iterations.
    few = any(one.few and not one.few_copied for one in after.decisions)
    assert after.loops == (count not in ALL_FIT or body in RECURRENCES or few)
