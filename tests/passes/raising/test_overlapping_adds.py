"""Ranges that overlap, read and added to: overlap-add, as JAX's exporter writes it.

What is read is cut by a counted start; what is written goes to a list of places, which begin at
the start, kept within the tensor.
"""

from __future__ import annotations

import pytest

from tests.passes.loops import model, prove, read, rows, same

pytestmark = pytest.mark.quick

TEXT = """g (float[9,WIDE] x, float[LONG] z) => (float[LONG] y)
  <int64 n = {9}, bool go = {1}, int64 hop = {HOP}, int64 none = {0}, int64 one = {1},
   int64 forty = {LONG}, int64[1] zero1 = {0}, int64[1] wide = {WIDE}>
{ y = Loop (n, go, z) <body = b (int64 i, bool c, float[LONG] s) => (bool d, float[LONG] s2) {
    at = Mul (i, hop) e = Gather (x, i) b = Less (at, none) m = Add (at, forty)
    k = Where (b, m, at) k1 = Unsqueeze (k, zero1) f = Concat <axis = 0> (k1) t = Add (f, wide)
    old = Slice (s, f, t, zero1) new = JOIN
    whole = Shape (s) own = Shape (new) size = Gather (own, none) all = Gather (whole, none)
    START g = Less (p, none) q = Add (p, all) w = Where (g, q, p) most = Sub (all, size)
    w0 = Max (w, none) w1 = Min (w0, most) count = ReduceProd <keepdims = 0> (own)
    numbers = Range (none, size, one) numbers2 = Expand (numbers, own) start = Expand (w1, own)
    places = Add (start, numbers2) line = Unsqueeze (places, one) list = Concat <axis = 1> (line)
    count1 = Unsqueeze (count, zero1) one_axis = Unsqueeze (one, zero1)
    shape = Concat <axis = 0> (count1, one_axis) list2 = Reshape (list, shape)
    u = Reshape (new, count1) s2 = ScatterND (s, list2, u) d = Identity (c) }> }"""


def _text(join: str = "Add (old, e)", wide: int = 8, hop: int = 4, start: str = "at") -> str:
    text = TEXT.replace("JOIN", join).replace("WIDE", str(wide)).replace("HOP", str(hop))
    text = text.replace("LONG", str(5 * wide if wide > 4 else 40))
    return text.replace("START", f"p = Identity ({start})")


CASES = {
    "half of each": _text(),
    "the other way round": _text("Add (e, old)"),
    "most of each": _text(hop=3),
    "side by side": _text(wide=4),
    "a difference": _text("Sub (old, e)"),
    "from the last to the first": _text()
    .replace("at =", "j = Sub (eight, i) at =", 1)
    .replace("Mul (i, hop)", "Mul (j, hop)")
    .replace("int64 one =", "int64 eight = {8}, int64 one ="),
    "more places than are followed one by one": _text(wide=128, hop=64),
    "what is computed of a row": _text("Add (old, v)").replace("new =", "v = Tanh (e) new ="),
}


@pytest.mark.parametrize("name", CASES)
def test_no_loop_is_left(name: str) -> None:
    wide = {"side by side": 4, "more places than are followed one by one": 128}.get(name, 8)
    prove(CASES[name], {"x": rows(9, wide), "z": rows(max(40, 5 * wide), seed=1)}, opset=18)


NEAR = {
    "a start that is kept within the end": _text(hop=5),
    "it writes beside what it reads": _text(start="i"),
    "it weighs what it reads": _text("Mul (old, old)"),
}


@pytest.mark.parametrize("name", NEAR)
def test_what_is_close_to_it_computes_what_it_did(name: str) -> None:
    before = model(NEAR[name], 18)
    x = rows(9, 8)
    ran = same(before, read(before).model, {"x": x, "z": rows(40, seed=1)})
    assert ran == (0 if name.startswith("a start") else 1)
