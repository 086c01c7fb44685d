"""What samples share and could fail without samples: targets without If do it all the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter.backends import run
from rewriter.pipeline import rewrite
from tests.passes.loops import rows

# Each pair of rows, as spox writes it: numbers of iterations are vectors of one number.
PAIRS = """<ir_version: 10, opset_import: ["" : 16]>
g (float[N,3] x, float[M,3] y) => (float s) {
    [zero] zero = Constant <value_int = 0> ()
    [low] low = Constant <value = float {-1000}> ()
    [sx] sx = Shape (x)
    [n] n = Gather (sx, zero)
    [outer] s = Loop (n, "", low) <body = b (int64[1] i, bool[1] c, float t) => (bool[1] d, float u) {
        [sy] sy = Shape (y)
        [m] m = Gather (sy, zero)
        [inner] u = Loop (m, "", t) <body = b2 (int64[1] j, bool[1] c2, float v) => (bool[1] d2, float w) {
            [p] p = Gather (x, i)
            [q] q = Gather (y, j)
            [r] r = Mul (p, q)
            [a] a = ReduceSum <keepdims = 0> (r)
            [w] w = Max (v, a)
            [d2] d2 = Identity (c2) }>
        [d] d = Identity (c) }> }"""

# Slices of lengths that iterations count: what is packed is computed of constants alone.
LAGS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,8] x, float[M,3] y) => (float[P,Q] s) {
    [zero] zero = Constant <value_ints = [0]> ()
    [first] first = Constant <value_int = 0> ()
    [one] one = Constant <value_ints = [1]> ()
    [end] end = Constant <value_ints = [99]> ()
    [eight] eight = Constant <value_int = 8> ()
    [four] four = Constant <value_int = 4> ()
    [t] t = Constant <value = bool {1}> ()
    [sx] sx = Shape (x)
    [n] n = Gather (sx, first)
    [outer] s = Loop (n, t) <body = b (int64 i, bool c) => (bool d, float[4] row) {
        [r] r = Gather (x, i)
        [inner] row = Loop (four, t) <body = b2 (int64 k, bool c2) => (bool d2, float a) {
            [k1] k1 = Unsqueeze (k, zero)
            [p] p = Slice (r, k1, end, zero, one)
            [m] m = Sub (eight, k)
            [m1] m1 = Unsqueeze (m, zero)
            [q] q = Slice (r, zero, m1, zero, one)
            [o] o = Mul (p, q)
            [a] a = ReduceSum <keepdims = 0> (o)
            [d2] d2 = Identity (c2) }>
        [d] d = Identity (c) }> }"""


@pytest.mark.parametrize(("text", "columns"), [(PAIRS, 3), (LAGS, 8)], ids=["pairs", "lags"])
def test_a_target_without_if_is_reached(text: str, columns: int) -> None:
    before = onnx.parser.parse_model(text)
    after = rewrite(before, target="portable").model
    for count, others in ((1, 1), (3, 2), (2, 0), (0, 2), (0, 0)):
        given = {"x": rows(count, columns), "y": rows(others, 3, seed=1)}
        expected = run(before, given)["s"]
        np.testing.assert_allclose(run(after, given)["s"], expected, rtol=1e-5)
