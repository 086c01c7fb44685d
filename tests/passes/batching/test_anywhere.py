"""Which nodes may run although the model would not run them."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.batching import rules
from passes.batching.anywhere import runs_anywhere
from passes.typing import type_values

pytestmark = pytest.mark.quick

assert rules

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[N,4] x, float[L,5] w, float[4,5] c, float[M,4] z, float[?] v, float[?,4] q, float[?,4] k,
   float[?,?,4] p, float[1,4] e, float[L,4,5] h, float[N,5,4] j, float[N,P,9] both, int64[1] m,
   float[1] a, float n, float[] any, float[N,0] none) => (int64[l] y)
<int64[1] all = {-1}, int64[3] row = {1,-1,1}, int64[2] four = {-1,4}, int64[2] other = {-1,2}, int64[2] same = {0,-1},
 int64[2] places = {-4,3}, int64[1] behind = {4}, int64[1] one = {1}, int64[1] first = {0},
 int64[1] third = {2}, int64[1] nine = {9}, int64[1] four1 = {4}, float[1] half = {0.5},
 float[1] large = {1.5}, float[1] less = {-0.5}, float[2] halves = {0.5,0.5},
 int64[2] nines = {-1,9}, int64[2] none2 = {-1,0}, int64[2] fours = {4,4}, int64[1] before = {-5}, int64[2] kept = {0,1}>
{ %s y = Shape (r) }"""
CASES = {
    "r = Reshape (x, all)": True,
    "r = Reshape (x, row)": True,
    "r = Reshape (x, four)": True,
    "r = Reshape (x, other)": False,
    "r = Reshape (x, same)": False,
    "u = Neg (x) r = Concat <axis = 1> (x, u)": True,
    "u = Neg (x) r = Concat <axis = -1> (x, u)": True,
    "r = Concat <axis = 0> (x, z)": True,
    "r = Concat <axis = 0> (x, w)": False,
    "r = Concat <axis = 1> (x, z)": False,
    "r = Concat <axis = 1> (x, w)": False,
    "r = Concat <axis = 0> (v, v)": True,
    "r = MatMul (x, c)": True,
    "r = MatMul (w, c)": False,
    "r = MatMul (x, v)": False,
    "r = Gather <axis = 1> (x, places)": True,
    "r = Gather <axis = 1> (x, behind)": False,
    "r = Gather <axis = 0> (x, first)": False,
    "u = Unsqueeze (x, one) r = Squeeze (u, one)": True,
    "r = Squeeze (x, first)": False,
    "r = Reshape (x, m)": False,
    "r = Reshape (both, nines)": True,
    "r = Reshape (any, all)": True,
    "r = Reshape (any, four)": False,
    "r = Reshape (x, fours)": False,
    "r = Reshape (none, none2)": False,
    "r = Concat <axis = 0> (q, k)": True,
    "r = Concat <axis = 0> (p, p)": True,
    "r = Concat <axis = 0> (any, x)": False,
    "t = Transpose (x) r = MatMul (t, x)": True,
    "r = MatMul (q, c)": True,
    "r = MatMul (x, x)": False,
    "r = MatMul (n, c)": False,
    "r = MatMul (x, n)": False,
    "r = MatMul (any, c)": False,
    "r = MatMul (x, any)": False,
    "t = Transpose (q) r = MatMul (t, k)": False,
    "r = Gather <axis = 1> (x, m)": False,
    "r = Gather <axis = 1> (x, before)": False,
    "r = Gather <axis = -1> (x, places)": True,
    "r = Gather <axis = 1> (any, places)": False,
    "u = Unsqueeze (x, one) r = Squeeze (u, m)": False,
    "u = Unsqueeze (x, one) r = Squeeze (u)": False,
    "r = Squeeze (any, one)": False,
    "r = Squeeze (both, third)": False,
    "r = Add (x, any)": False,
    "r = Add (x, x)": True,
    "r = Add (x, z)": False,
    "r = Neg (v)": True,
    "r = Reshape (v, kept)": True,
    "r = Reshape (x, kept)": False,
    "r = Reshape (any, kept)": False,
    "r = Reshape <allowzero = 1> (v, kept)": False,
    "s = Shape (x) r = Expand (e, s)": False,
    "s = Shape (w) r = Expand (e, s)": False,
    "d = Shape <end = 1> (w) s = Concat <axis = 0> (d, four1) r = Expand (e, s)": True,
    "d = Shape <end = 1> (w) s = Concat <axis = 0> (four1, d) r = Expand (e, s)": False,
    "d = Shape <end = 1> (w) s = Concat <axis = 0> (d, one) r = Expand (e, s)": True,
    "d = Shape <end = 1> (w) s = Concat <axis = 0> (d, four1) r = Expand (x, s)": False,
    "s = Concat <axis = 0> (m, four1) r = Expand (e, s)": False,
    "s = Concat <axis = 0> (all, four1) r = Expand (e, s)": False,
    "r = Expand (e, four1)": True,
    "r = Expand (e, nine)": False,
    "r = Expand (none, first)": False,
    "r = Expand (any, four1)": False,
}
BOXES = """b = Slice (both, first, four1, third) f = Slice (both, four1, nine, third)
  s = Transpose <perm = [0, 2, 1]> (f) r = NonMaxSuppression ({})"""
FOUR = "= Slice ({}, first, four1, {})"
CHECKED = {
    BOXES.format("b, s, nine, half"): True,
    BOXES.format("d, s, nine, half").replace("r =", f"d {FOUR.format('b', 'first')} r ="): False,
    BOXES.format("b, d, nine, half").replace("r =", f"d {FOUR.format('s', 'third')} r ="): False,
    BOXES.format("f, s, nine, half"): False,
    BOXES.format("b, s, nine"): False,
    BOXES.format("x, s, nine, half"): False,
    BOXES.format("b, x, nine, half"): False,
    BOXES.format("any, s, nine, half"): False,
    BOXES.format("b, any, nine, half"): False,
    BOXES.format("b, s, m, half"): False,
    BOXES.format("b, s, places, half"): False,
    BOXES.format("b, s, nine, a"): False,
    BOXES.format("b, s, nine, large"): False,
    BOXES.format("b, s, nine, less"): False,
    BOXES.format("b, s, nine, halves"): False,
    "r = NonZero (x)": True,
    "r = NonZero (n)": False,
    "r = Add (x, e)": True,
    "r = Add (q, e)": True,
    "r = Add (q, k)": False,
    "r = Concat <axis = 1> (q, k)": False,
    "r = MatMul (h, j)": False,
    "r = MatMul (p, c)": True,
}
"""What inference has not checked."""


@pytest.mark.parametrize(("text", "safe"), [*CHECKED.items()], ids=CHECKED)
def test_constants_and_dimensions_are_checked(text: str, safe: bool) -> None:
    test_a_node_runs_whatever_the_dimensions_are(text, safe)


@pytest.mark.parametrize(("text", "safe"), CASES.items(), ids=CASES)
def test_a_node_runs_whatever_the_dimensions_are(text: str, safe: bool) -> None:
    model = ir.from_onnx_text(TEXT % text)
    *_, node, _ = model.graph
    assert runs_anywhere(node, type_values(model, proven=True), 18) is safe
