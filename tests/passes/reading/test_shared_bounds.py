"""Slices that share their bounds, whatever integers the bounds are."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, same

TEXT = """g (float[N,3] x) => (float[N,3] ys) {{
  n0 = Shape <start = 0, end = 1> (x)  n = Squeeze (n0)
  one = Constant <value = {dtype} {{1}}> ()
  at0 = Constant <value = int64[1] {{0}}> ()
  first = Constant <value = {dtype}[1] {{0}}> ()
  t = Constant <value = bool {{1}}> ()
  ys = Loop (n, t) <body = step (int64 i, bool cond) => (bool go, float[3] y) {{
    i2 = Cast <to = {to}> (i)
    j = Add (i2, one)
    end = Unsqueeze (j, at0)
    past = Slice (x, first, end)
    a = Softmax <axis = 0> (past)
    again = Slice (x, first, end)
    p = Mul (a, again)
    y = ReduceSum <keepdims = 0> (p, at0)
    go = Identity (cond)
  }}>
}}"""


@pytest.mark.quick
@pytest.mark.parametrize("strategy", ["auto", "fuse"])
@pytest.mark.parametrize(("dtype", "to"), [("int64", 7), ("int32", 6)])
def test_prefixes_end_without_a_loop(dtype: str, to: int, strategy: str) -> None:
    """`auto` keeps the Loop for few samples, and for prefixes that hold much in all."""
    before = model(TEXT.format(dtype=dtype, to=to))
    found = rewrite(before, strategy=strategy)
    assert operators(found.model)["Loop"] == 2 * (strategy == "auto"), found.report.decisions
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((n, 3)).astype(np.float32)} for n in LENGTHS]
    assert same(before, found.model, *feeds) == len(feeds)
