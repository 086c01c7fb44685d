"""Loops as JAX's exporter writes them: places are checked, and every axis is cut.

A place below 0 counts from the end, a Slice names all axes, and what would be written outside of
a tensor is left out.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.passes.loops import model, prove, read, rows, same

HEAD = """g (float[8,3] x, float[5,3] z) => (float[M,N] y)
  <int64 n = {COUNT}, bool go = {1}, int64 none = {0}, int64 eight = {8}, int64 last = {7},
   int64 five = {5}, int64 four = {4}, int64 one = {1}, int64[1] zero1 = {0}, int64[1] one1 = {1},
   int64 two = {2}, int64[1] two1 = {2}, int64[1] five1 = {5},
   int64[2] sizes = {SIZES}, int64[2] both = {0, 1}, int64[2] row_shape = {1, 3},
   int64[8] table = {0, 4, 0, 2, 1, 2, 0, 3}>
{ """
PLACE = """b = Less (AT, none) m = Add (AT, eight) k = Where (b, m, AT) k1 = Unsqueeze (k, zero1)
  from = Concat <axis = 0> (k1, zero1) to = Add (from, sizes) cut = Slice (x, from, to, both) """
ROW = PLACE.replace("AT", "i") + "row = Squeeze (cut, zero1) "
COLLECT = """s = ReduceMax <keepdims = 0> (cut, zero1) d = Identity (c) }> }"""
WRITE = """p = Reshape (WHERE, one1) p1 = Cast <to = 7> (p) t = Unsqueeze (p1, one1)
  column = Gather <axis = 1> (t, zero1) low = GreaterOrEqual (column, none)
  high = LessOrEqual (column, LAST) inside = And (low, high) flat = Squeeze (inside, one1)
  found = NonZero (flat) turned = Transpose <perm = [1, 0]> (found) kept = Squeeze (turned, one1)
  u = Reshape (v, row_shape) t2 = Gather <axis = 0> (t, kept) u2 = Gather <axis = 0> (u, kept)
  s2 = ScatterND REDUCTION (s, t2, u2) d = Identity (c) }> }"""
COLUMN = """b = Less (i, none) m = Add (i, five) k = Where (b, m, i) k1 = Unsqueeze (k, zero1)
  from = Concat <axis = 0> (zero1, k1) to = Add (from, sizes) cut = Slice (READ, from, to, both)
  x1 = Squeeze (cut, one1) v = VALUE p = Expand (i, one1) t = Unsqueeze (p, one1)
  column = Gather <axis = 1> (t, zero1) low = GreaterOrEqual (column, none)
  high = LessOrEqual (column, LAST) inside = And (low, high) flat = Squeeze (inside, one1)
  found = NonZero (flat) turned = Transpose <perm = [1, 0]> (found) kept = Squeeze (turned, one1)
  count = Shape (kept) shape = Concat <axis = 0> (count, five1) u = Reshape (v, shape)
  u2 = Gather <axis = 0> (u, kept) total = Mul (count, five1) u3 = Reshape (u2, total)
  numbers = Range (none, five, one) down = Unsqueeze (numbers, one1) none1 = Sub (down, down)
  offsets = Concat <axis = 1> (down, none1) t2 = Gather <axis = 0> (t, kept)
  place_shape = Concat <axis = 0> (count, one1) zeros = ConstantOfShape (place_shape)
  zeros2 = Cast <to = 7> (zeros) base = Concat <axis = 1> (zeros2, t2)
  base_shape = Concat <axis = 0> (count, one1, two1) base3 = Reshape (base, base_shape)
  grid = Concat <axis = 0> (count, five1, two1) base4 = Expand (base3, grid)
  own = Concat <axis = 0> (one1, five1, two1) offsets3 = Reshape (offsets, own)
  at = Add (base4, offsets3) list = Concat <axis = 0> (total, two1) at2 = Reshape (at, list)
  s2 = ScatterND (s, at2, u3) d = Identity (c) }> }"""
SCAN = "y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[R] s) { "
CARRY = (
    "y = Loop (n, go, z) <body = b (int64 i, bool c, float[5,3] s) => (bool d, float[5,3] s2) { "
)


def _column(value: str, read: str = "x") -> str:
    return CARRY + COLUMN.replace("VALUE", value).replace("READ", read).replace("LAST", "two")


def _text(body: str, count: int = 8, sizes: str = "1, 3") -> str:
    return HEAD.replace("COUNT", str(count)).replace("SIZES", sizes) + body


def _write(where: str, reduction: str = "") -> str:
    text = WRITE.replace("WHERE", where).replace("LAST", "four")
    return CARRY + ROW + "v = Tanh (row) " + text.replace("REDUCTION", reduction)


CASES = {
    "rows": _text(SCAN + PLACE.replace("AT", "i") + COLLECT),
    "windows": _text(SCAN + PLACE.replace("AT", "i") + COLLECT, 6, "3, 3"),
    "windows by a Range": _text(
        "r = Range (none, eight, one) "
        + SCAN
        + "j = Gather (r, i) "
        + PLACE.replace("AT", "j")
        + COLLECT
    ),
    "written in order": _text(_write("i"), 5),
    "written backwards": _text(
        CARRY
        + ROW
        + "v = Tanh (row) w = Sub (four, i) "
        + WRITE.replace("WHERE", "w").replace("LAST", "four").replace("REDUCTION", ""),
        5,
    ),
    "columns": _text(_column("Softmax (x1)"), 3, "5, 1"),
    "columns of what is not written": _text(_column("Neg (x1)", "z"), 2, "5, 1"),
    "added by a table": _text(
        CARRY
        + ROW
        + "v = Tanh (row) w = Gather (table, i) "
        + WRITE.replace("WHERE", "w")
        .replace("LAST", "four")
        .replace("REDUCTION", '<reduction = "add">')
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_they_end_without_a_loop(name: str) -> None:
    prove(CASES[name], {"x": rows(8, 3), "z": rows(5, 3, seed=1)}, opset=18)


NEAR = {
    "what would be written behind the end": _text(_write("i"), 7),
    "a window that the end cuts short": _text(
        CARRY
        + PLACE.replace("AT", "i")
        + "m2 = ReduceMax (cut, zero1) s2 = Mul (s, m2) d = Identity (c) }> }",
        8,
        "3, 3",
    ),
}


@pytest.mark.parametrize("name", NEAR)
def test_they_are_right(name: str) -> None:
    before = model(NEAR[name], 18)
    after = read(before).model
    assert same(before, after, {"x": rows(8, 3), "z": rows(5, 3, seed=1)}) == 1


OWN = """g (float[4] x) => (float[3,4] y) <int64 n = {3}, bool go = {1}> {
  y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[4] r) <float[3] w = {1, 2, 3}> {
    d = Identity (c) q = Gather (w, i) r = Mul (x, q) }> }"""


def test_the_body_reads_its_own_initializer_row_by_row() -> None:
    found = prove(OWN, {"x": np.arange(4, dtype=np.float32)})
    assert found.operators["Mul"] == 1
    assert onnx.parser.parse_model(onnx.printer.to_text(found.model)).graph.node


NESTED = """g (float[6,8,4] x) => (float[6,4] y) <int64 n = {6}, int64 m = {8}, bool go = {1}> {
  y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[4] r) {
    d = Identity (c) e = Gather (x, i) shape = Constant <value = int64[1] {4}> ()
    z = ConstantOfShape (shape)
    r = Loop (m, c, z) <body = b2 (int64 j, bool c2, float[4] s) => (bool d2, float[4] s2) {
      d2 = Identity (c2) e2 = Gather (e, j) q = Mul (e2, e2) t = Add (s, q) s2 = Cast <to = 1> (t)
    }> }> }"""


def test_a_sum_inside_of_a_map_goes_through_a_cast_to_its_own_type() -> None:
    found = prove(NESTED, {"x": rows(6, 8, 4)})
    assert found.operators["ReduceSum"] == 1
