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


@pytest.mark.sampled
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


BLOCKS = """g (float[5,4,3] x, float[12,3] z) => (float[12,3] y)
  <int64 n = {5}, bool go = {1}, int64 hop = {HOP}, int64 none = {0}, int64 one = {1},
   int64[1] zero1 = {0}, int64[1] one1 = {1}, int64[2] both = {0, 1}, int64[2] sizes = {4, 3},
   int64 two = {2}, int64 eight = {8}>
{ y = Loop (n, go, z) <body = b (int64 i, bool c, float[12,3] s) => (bool d, float[12,3] s2) {
    at = Mul (i, hop) e = Gather (x, i) k1 = Unsqueeze (at, zero1)
    f = Concat <axis = 0> (k1, zero1) t = Add (f, sizes) old = Slice (s, f, t, both) new = JOIN
    own = Shape (new) rows = Gather (own, none) columns = Gather (own, one)
    w0 = Max (START, none) w1 = Min (w0, eight)
    r0 = Range (none, rows, one) r1 = Unsqueeze (r0, one1) r2 = Expand (r1, own)
    a0 = Expand (w1, own) a1 = Add (a0, r2) a2 = Unsqueeze (a1, two)
    c0 = Range (none, columns, one) c1 = Unsqueeze (c0, zero1) c2 = Expand (c1, own)
    b0 = Expand (none, own) b1 = Add (b0, c2) b2 = Unsqueeze (b1, two)
    grid = Concat <axis = 2> (FIRST, SECOND) count = ReduceProd <keepdims = 0> (own)
    count1 = Unsqueeze (count, zero1) rank1 = Unsqueeze (two, zero1)
    shape = Concat <axis = 0> (count1, rank1) list = Reshape (grid, shape)
    u = Reshape (new, count1) s2 = ScatterND (s, list, u) d = Identity (c) }> }"""


def _block(
    join: str = "Add (old, e)", hop: int = 2, start: str = "at", grid: str = "a2, b2"
) -> str:
    text = BLOCKS.replace("JOIN", join).replace("HOP", str(hop)).replace("START", start)
    return text.replace("FIRST, SECOND", grid)


WHOLE = {
    "half of each": _block(),
    "the other way round": _block("Add (e, old)"),
    "most of each": _block(hop=1),
    "a difference": _block("Sub (old, e)"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_no_loop_is_left_of_blocks_of_rows(name: str) -> None:
    prove(WHOLE[name], {"x": rows(5, 4, 3), "z": rows(12, 3, seed=1)}, opset=18)


CLOSE = {
    "a start that is kept within the end": (_block(hop=3), False),
    "it writes beside what it reads": (_block(start="i"), True),
    "it weighs what it reads": (_block("Mul (old, old)"), True),
    "rows and columns change places": (_block(grid="b2, a2"), False),
    "one column again and again": (
        _block().replace("c1 = Unsqueeze (c0, zero1)", "c1 = Unsqueeze (one1, zero1)"),
        True,
    ),
}


@pytest.mark.parametrize("name", CLOSE)
def test_what_is_close_to_blocks_of_rows_stays(name: str) -> None:
    text, runs = CLOSE[name]
    before = model(text, 18)
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, {"x": rows(5, 4, 3), "z": rows(12, 3, seed=1)}) == runs
