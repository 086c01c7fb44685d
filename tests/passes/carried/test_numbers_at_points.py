"""Numbers that are set at points, as TorchScript's exporter writes them: also portable for none.

It compares the shape of a place with -1 and expands to what is chosen, though that is a number.
"""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.expansion import operators
from tests.passes.loops import model, rows, same

pytestmark = pytest.mark.quick

TEXT = """g (int64[N,2] points, float[N] x, float[5,5] z) => (float[5,5] y)
  <bool go = {1}, int64 none = {0}, int64 one = {1}, int64 minus = {-1}, int64[1] last = {-1},
   int64[1] zero1 = {0}, int64[1] two1 = {2}, int64[1] end = {9223372036854775807}>
{ shape = Shape <start = 0, end = 1> (x) n = Squeeze (shape, zero1)
  y = Loop (n, go, z) <body = b (int64 i, bool c, float[5,5] s) => (bool d, float[5,5] s2) {
    e = Gather (x, i) point = Gather (points, i)
    row = Gather (point, none) column = Gather (point, one)
    sum = Add (row, column) own = Shape (sum) rank = Shape (own)
    ones = ConstantOfShape <value = int64[1] {1}> (rank) open = Mul (ones, minus)
    is = Equal (own, open) to = Where (is, ones, own)
    r0 = Expand (row, to) r1 = Unsqueeze (r0, last) c0 = Expand (column, to)
    c1 = Unsqueeze (c0, last) at = Concat <axis = -1> (r1, c1)
    whole = Shape (s) rest = Slice (whole, two1, end, zero1)
    size = Concat <axis = 0> (own, rest) rank2 = Shape (size)
    ones2 = ConstantOfShape <value = int64[1] {1}> (rank2) open2 = Mul (ones2, minus)
    is2 = Equal (size, open2) to2 = Where (is2, ones2, size)
    u0 = Expand (e, to2) u = Reshape (u0, size) s2 = ScatterND (s, at, u)
    d = Identity (c) }> }"""


def test_no_branch_is_left_for_no_points() -> None:
    before = model(TEXT, 18)
    found = rewrite(before, target="portable").model
    left = operators(found)
    assert not left["Loop"]
    assert not left["If"]
    points = np.random.default_rng(0).integers(-5, 5, (9, 2))
    feeds = [{"points": points[:n], "x": rows(n), "z": rows(5, 5, seed=1)} for n in (0, 1, 2, 9)]
    assert same(before, found, *feeds) == len(feeds)
