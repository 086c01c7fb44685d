"""Numbers that an iteration reads of a vector by a Slice, which may be shorter than it is long.

TensorFlow writes ``h[k[i]] += sum(x[i])`` so: without a number there are no places for one row,
and the model fails as it does where a Gather finds none.
"""

from __future__ import annotations

import numpy as np
import pytest

from rewriter.backends import BackendError, open_session
from tests.passes.loops import model, read, rows, same

pytestmark = pytest.mark.quick

TEXT = """g (float[N,4] x, int32[K] k, float[5] h) => (float[5] y)
  <bool go = {1}, int64[1] zero1 = {0}, int64[1] one1 = {1}, int64 one = {1},
   int64[1] many = {1000000000}>
{ shape = Shape <start = 0, end = 1> (x) n = Squeeze (shape, zero1)
  y = Loop (n, go, h) <body = b (int64 i, bool c, float[5] s) => (bool d, float[5] s2) {
    e = Gather (x, i) t = ReduceSum <keepdims = 0> (e) u = Unsqueeze (t, zero1)
    i1 = Unsqueeze (i, zero1) i2 = Add (i1, one1) number = Slice (k, i1, i2, zero1)
    PLACES s2 = ScatterND <reduction = "add"> (s, places, u) d = Identity (c) }> }"""
CASES = {
    "rows of a place": "at = Unsqueeze (number, zero1) places = Cast <to = 7> (at)",
    "places of a row": "at = Cast <to = 7> (number) places = Unsqueeze (at, one1)",
    "places of a row of its own": "row = Slice (x, i1, i2, zero1) at = Cast <to = 7> (number) "
    "places = Unsqueeze (at, one1)",
    "places of all of a row of its own": "one_row = Slice (x, i1, i2, zero1) "
    "row = Slice (one_row, zero1, many, zero1) at = Cast <to = 7> (number) "
    "places = Unsqueeze (at, one1)",
}


def _feed(many: int, numbers: int) -> dict[str, np.ndarray]:
    k = np.random.default_rng(many).integers(0, 5, numbers).astype(np.int32)
    return {"x": rows(many, 4), "k": k, "h": rows(5, seed=1)}


@pytest.mark.parametrize("name", CASES)
def test_it_ends_without_a_loop_and_fails_where_the_loop_did(name: str) -> None:
    text = TEXT.replace("PLACES", CASES[name])
    if "row =" in text:
        text = text.replace("float[5] ", "float[5,4] ").replace("places, u)", "places, row)")
    before = model(text, 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]

    def feed(many: int, numbers: int) -> dict[str, np.ndarray]:
        start = rows(5, 4, seed=1) if "row =" in text else rows(5, seed=1)
        return {**_feed(many, numbers), "h": start}

    pairs = ((0, 0), (1, 1), (7, 7), (3, 5), (0, 2))
    assert same(before, found.model, *(feed(*pair) for pair in pairs)) == len(pairs)
    for one in (before, found.model):
        with pytest.raises(BackendError):
            open_session(one).run(feed(4, 3))


def test_a_list_of_rows_of_any_length_is_not_one_row() -> None:
    text = TEXT.replace("PLACES", CASES["places of a row"]).replace("u = Unsqueeze (t, zero1)", "")
    text = text.replace("number =", "u = Slice (e, zero1, i2, zero1) number =")
    before = model(text, 18)
    assert same(before, read(before).model, _feed(1, 1)) == 1


IN_BRANCH = """g (float[N,4] x, int64[K] k, bool[N] flags) => (float[N,4] y)
  <bool go = {1}, int64[1] zero1 = {0}, int64[1] one1 = {1}>
{ shape = Shape <start = 0, end = 1> (x) n = Squeeze (shape, zero1)
  y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[4] o) {
    e = Gather (x, i) flag = Gather (flags, i) d = Identity (c)
    i1 = Unsqueeze (i, zero1) i2 = Add (i1, one1) number = Slice (k, i1, i2)
    o = If (flag) <
      then_branch = t () => (float[4] p) {
        at = Squeeze (number, zero1) f = Cast <to = 1> (at) p = Add (e, f) },
      else_branch = l () => (float[4] q) { q = Neg (e) }> }> }"""


def test_a_number_that_a_branch_needs_may_be_missing_where_it_is_not_taken() -> None:
    before = model(IN_BRANCH, 18)
    flags = np.array([True, False, True, False, False])
    feed = {"x": rows(5, 4), "k": np.array([4, 1, 3]), "flags": flags}
    assert same(before, read(before).model, feed) == 1


def test_rows_of_another_tensor_may_be_fewer() -> None:
    text = TEXT.replace("PLACES", CASES["places of a row of its own"]).replace(
        "Slice (x,", "Slice (w,"
    )
    text = text.replace("float[5] ", "float[5,4] ").replace("places, u)", "places, row)")
    before = model(text.replace("int32[K] k", "int32[K] k, float[M,4] w"), 18)
    found = read(before)
    assert found.loops == 0

    def feed(numbers: int, rows_: int) -> dict[str, np.ndarray]:
        return {**_feed(3, numbers), "w": rows(rows_, 4), "h": rows(5, 4, seed=1)}

    pairs = ((2, 2), (3, 3), (0, 0), (4, 3))
    assert same(before, found.model, *(feed(*pair) for pair in pairs)) == len(pairs)
    for one in (before, found.model):
        for pair in ((2, 3), (3, 2), (0, 1)):
            with pytest.raises(BackendError):
                open_session(one).run(feed(*pair))


def test_nothing_behind_a_row_is_not_one_row() -> None:
    text = TEXT.replace("PLACES", CASES["places of all of a row of its own"])
    text = text.replace("(one_row, zero1, many", "(one_row, one1, many")
    text = text.replace("float[5] ", "float[5,4] ").replace("places, u)", "places, row)")
    before = model(text, 18)
    found = read(before)
    feeds = [{**_feed(3, n), "h": rows(5, 4, seed=1)} for n in (0, 2, 3)]
    assert same(before, found.model, *feeds) == 1
    for feed in feeds[1:]:
        for one in (before, found.model):
            with pytest.raises(BackendError):
                open_session(one).run(feed)
