"""Branches that read a row as JAX's exporter writes it: a Slice of every axis, and a Squeeze.

Neither can fail where the place is counted and the tensor has a row for each iteration, whether
an iteration takes the branch or not.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import model, prove, read, rows, same

pytestmark = pytest.mark.quick

HEAD = """g (float[8,3] x, float[8,3] z) => (RESULT)
  <int64 n = {COUNT}, bool go = {1}, int64 none = {0}, int64 eight = {8}, int64 step = {1}, int64 one = {1},
   int64[1] zero1 = {0}, int64[1] one1 = {1}, int64[2] sizes = {1, 3}, int64[2] one_number = {1, 1},
   int64[2] both = {0, 1}, int64[2] row_shape = {1, 3}, float two = {2}, float zero = {0}> { """
FLAG = """b = Less (i, none) m = Add (i, eight) k = Where (b, m, i) k1 = Unsqueeze (k, zero1)
  f = Concat <axis = 0> (k1, zero1) t = Add (f, one_number) p = Slice (x, f, t, both)
  q = Squeeze (p, both) flag = Greater (q, zero) """
ROW = """Xb = Less (i, none) Xm = Add (i, eight) Xk = Where (Xb, Xm, i) Xk1 = Unsqueeze (Xk, zero1)
  Xf = Concat <axis = 0> (Xk1, zero1) Xt = Add (Xf, sizes) Xc = Slice (OF, Xf, Xt, both)
  Xr = Squeeze (Xc, zero1) """
WRITE = """Xp = Reshape (Xk, one1) Xl = Unsqueeze (Xp, one1) Xu = Reshape (Xw, row_shape)
  Xs = ScatterND (s, Xl, Xu) """
CHECKED = """Xp = Reshape (Xk, one1) Xl = Unsqueeze (Xp, one1) Xu = Reshape (Xw, row_shape)
  Xcol = Gather <axis = 1> (Xl, zero1) Xlow = GreaterOrEqual (Xcol, none)
  Xsh = Shape (s) Xd = Gather <axis = 0> (Xsh, zero1) Xd0 = Squeeze (Xd, zero1)
  Xlast = Sub (Xd0, one) Xhigh = LessOrEqual (Xcol, Xlast) Xin = And (Xlow, Xhigh)
  Xflat = Squeeze (Xin, one1) Xnz = NonZero (Xflat) Xtr = Transpose <perm = [1, 0]> (Xnz)
  Xkept = Squeeze (Xtr, one1) Xl2 = Gather <axis = 0> (Xl, Xkept)
  Xu2 = Gather <axis = 0> (Xu, Xkept) Xs = ScatterND (s, Xl2, Xu2) """


def _branch(name: str, rows: str, own: str, *, of: str = "x", write: str = WRITE) -> str:
    text = (ROW + own + write).replace("X", name).replace("OF", of)
    return f"{name} () => ({rows} {name}s) {{ {text} }}"


def _text(then: str, other: str, count: int = 8) -> str:
    return HEAD.replace("COUNT", str(count)).replace("RESULT", "float[8,3] y") + (
        "y = Loop (n, go, z) <body = b (int64 i, bool c, float[8,3] s) => (bool d, float[8,3] s2) {"
        f"{FLAG} s2 = If (flag) <then_branch = {then}, else_branch = {other}> d = Identity (c) }}> }}"
    )


AS_IT_IS = "kept () => (float[8,3] same) { same = Identity (s) }"
DOUBLED = _branch("o", "float[8,3]", "Xw = Mul (Xr, two) ")
NEGATED = _branch("p", "float[8,3]", "Xw = Neg (Xr) ")
CASES = {
    "a row where it holds": _text(DOUBLED, AS_IT_IS),
    "a row where it does not": _text(AS_IT_IS, NEGATED),
    "another row in either branch": _text(DOUBLED, NEGATED),
    "places that are checked": _text(
        _branch("o", "float[8,3]", "Xw = Mul (Xr, two) ", write=CHECKED), AS_IT_IS
    ),
    "fewer iterations than rows": _text(DOUBLED, AS_IT_IS, 5),
}


@pytest.mark.parametrize("name", CASES)
def test_no_if_is_left(name: str) -> None:
    found = prove(CASES[name], {"x": rows(8, 3), "z": rows(8, 3, seed=1)}, opset=18)
    assert not found.operators["If"]


def test_a_place_behind_the_end_is_read_where_the_branch_is_taken_only() -> None:
    text = _text(DOUBLED, AS_IT_IS, 8).replace("Greater (q, zero)", "Less (i, four)")
    text = text.replace("float two", "int64 four = {4}, float two")
    text = text.replace("Xm", "m").replace("om = Add (i, eight) ok = Where (ob, om, i)", "AT")
    text = text.replace("AT", "ok = Mul (i, step)").replace("step = {1}", "step = {2}")
    before = model(text, 18)
    assert same(before, read(before).model, {"x": rows(8, 3), "z": rows(8, 3, seed=1)}) == 1


NUMBERS = """g (float[N,4] z, float[N,4] x, float[4] w, int64[K] sizes, int64 n) => (float[N,4] y)
  <bool go = {{1}}, int64 two = {{2}}, int64[1] zero1 = {{0}}, int64[1] one1 = {{1}}> {{
  y = Loop (n, go, z) <body = b (int64 i, bool c, float[N,4] s) => (bool d, float[N,4] s2) {{
    i1 = Unsqueeze (i, zero1)  j1 = Add (i1, one1)  at = Unsqueeze (i1, zero1)
    flag = Less (i, two)  d = Identity (c)
    s2 = If (flag) <then_branch = some () => (float[N,4] v) {{
        size = Slice (sizes, i1, j1, zero1)  {row}  u = Unsqueeze (r, zero1)  v = ScatterND (s, at, u) }},
      else_branch = kept () => (float[N,4] same) {{ same = Identity (s) }}>
  }}> }}"""
NUMBERED = {
    "a factor": "m = Squeeze (size, zero1)  f = Cast <to = 1> (m)  r = Mul (w, f)",
    "a place": "m = Squeeze (size, zero1)  r = Gather <axis = 0> (x, m)",
}


@pytest.mark.parametrize("name", NUMBERED)
def test_a_number_that_is_missing_where_no_branch_reads_it(name: str) -> None:
    """A vector of two numbers is enough for any number of iterations: two of them read it."""
    before = model(NUMBERS.format(row=NUMBERED[name]), 18)
    found = read(before)
    assert "control-flow" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    given = {"z": rows(6, 4), "x": rows(6, 4, seed=1), "w": rows(4), "sizes": np.array([1, 3])}
    feeds = [{**given, "n": np.array(n)} for n in (0, 1, 2, 5)]
    assert same(before, found.model, *feeds) == len(feeds)


LOOP = """y = Loop (n, go, AT) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] s2) {
  FLAG number = Cast <to = 6> (flag) truth = Cast <to = 9> (number)
  s2 = If (truth) <then_branch = THEN, else_branch = kept () => (float[3] same) {
    same = Identity (s) }> d = Identity (c) }> }"""


def _state(then: str, count: int = 8, flag: str = FLAG) -> str:
    head = HEAD.replace("COUNT", str(count)).replace("RESULT", "float[3] y")
    loop = LOOP.replace("FLAG", flag).replace("THEN", then).replace("AT", "nothing")
    return head + "first = Gather (z, none) nothing = Sub (first, first) " + loop


OWN_ROW = ROW.replace("X", "o").replace("OF", "x")
SUMS = {
    "a sum": f"o () => (float[3] os) {{ {OWN_ROW} os = Add (s, or) }}",
    "the last row": f"o () => (float[3] os) {{ {OWN_ROW} os = Mul (or, two) }}",
    "a sum of products": f"o () => (float[3] os) {{ {OWN_ROW} w = Mul (or, or) os = Add (w, s) }}",
}


@pytest.mark.parametrize("count", [8, 5])
@pytest.mark.parametrize("name", SUMS)
def test_what_is_made_of_rows_of_some_iterations(name: str, count: int) -> None:
    found = prove(_state(SUMS[name], count), {"x": rows(8, 3), "z": rows(8, 3, seed=1)}, opset=18)
    assert not found.operators["If"]


BEST = """g (float[8,3] x, float first) => (float y, float[3] w)
  <int64 n = {8}, bool go = {1}, float two = {2}, int64[1] zero1 = {0}> {
  z = Constant <value = float[3] {0, 0, 0}> ()
  y, w = Loop (n, go, first, z) <body = b (int64 i, bool c, float s, float[3] r)
    => (bool d, float s2, float[3] r2) {
    e = Gather (x, i) t = ReduceSum <keepdims = 0> (e, zero1) flag = Greater (t, s)
    number = Cast <to = 6> (flag) truth = Cast <to = 9> (number)
    s2, r2 = If (truth) <then_branch = o () => (float v, float[3] u) {
        f = Gather (x, i) v = ReduceSum <keepdims = 0> (f, zero1) u = Mul (f, two) },
      else_branch = p () => (float sv, float[3] ru) { sv = Identity (s) ru = Identity (r) }>
    d = Identity (c) }> }"""


def test_the_best_by_a_condition_that_is_cast_to_a_number_and_back() -> None:
    prove(BEST, {"x": rows(8, 3), "first": rows()[()]}, opset=18)
