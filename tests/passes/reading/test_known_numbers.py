"""Integers of an iteration that are known although floats compute them, or no type tells them."""

from __future__ import annotations

import pytest

from tests.passes.loops import model, prove, read, rows, same

HEAD = """g (float[N,M] x, int64[M] n) => (float[N,M] y)
  <bool go = {1}, int64 zero = {0}, int64 axis = {1}, int64[1] one1 = {1}, int64[1] two1 = {2},
   int64[1] zero1 = {0}, FLOAT[1] unit = {1.0}, int64[2] down = {1, -1}> {
  size = Shape (x) m = Gather (size, axis)
  blank = ConstantOfShape (size)
  y = Loop (m, go, blank) <body = b (int64 i, bool c, float[N,M] s) => (bool d, float[N,M] s2) {
    d = Identity (c) """

WRITE = """
    i1 = Reshape (AT, one1) f = Cast <to = KIND> (i1) g = Mul (f, unit) h = Add (g, unit)
    e = Cast <to = 7> (h)
    col = Slice (x, i1, e, one1) v = Squeeze (col, one1) w = Mul (v, v)
    place = Slice (s, i1, e, one1) like = Shape (place)
    w1 = Unsqueeze (w, one1) w2 = Expand (w1, like)
    q = Reshape (i1, down) r0 = Gather (like, zero1) reps = Concat <axis = 0> (r0, one1)
    t = Tile (q, reps)
    s2 = ScatterElements <axis = 1> (s, t, w2) }> }"""


def _text(at: str, dtype: str = "float", before: str = "") -> str:
    kind = {"float": "1", "double": "11"}[dtype]
    body = before + WRITE.replace("AT", at).replace("KIND", kind)
    return HEAD.replace("FLOAT", dtype) + body


def _feed(columns: int) -> dict:
    own = rows(3, columns)
    return {"x": own, "n": rows(columns).argsort()}


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("columns", [0, 1, 2, 7])
def test_columns_whose_ends_floats_count(dtype: str, columns: int) -> None:
    found = prove(_text("i", dtype), _feed(columns))
    told = [text for d in found.decisions for text in d.assumptions]
    assert any("2^24" in text for text in told) == (dtype == "float")


def test_a_place_of_data_may_be_beyond_what_a_float_holds() -> None:
    before = model(_text("k", before="k = Gather (n, i)"))
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, _feed(7)) == 1
