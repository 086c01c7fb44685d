"""A total that two Loops, one in the other, go on with: ``for i: for j: s = s + f(x_i, y_j)``."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, same

TEXT = """g ({dtype}[N] x, {dtype}[M] y, {total}{dims} begin) => ({total}{dims} r) {{
  n0 = Shape (x)  n = Squeeze (n0)
  m0 = Shape (y)  m = Squeeze (m0)
  zero = Constant <value = {dtype} {{0}}> ()
  r = Loop (n, , begin) <body = step (int64 i, bool cond, s) => (go, s2) {{
    e = Gather <axis = 0> (x, i)
    s2 = Loop (m, , s) <body = inner (int64 j, bool on, p) => (on2, p2) {{
      f = Gather <axis = 0> (y, j)
      {body}
      on2 = Identity (on)
    }}>
    go = Identity (cond)
  }}>
}}"""
TOTALS = {
    "sum of integers": ("int64", "int64", "v = Mul (e, f)  p2 = Add (p, v)"),
    "largest integer": ("int64", "int64", "v = Sub (e, f)  p2 = Max (p, v)"),
    "smallest integer": ("int64", "int64", "v = Sub (e, f)  p2 = Min (p, v)"),
    "largest number": ("float", "float", "v = Mul (e, f)  p2 = Max (p, v)"),
    "any": ("float", "bool", "v = Less (e, f)  p2 = Or (p, v)"),
    "count of pairs": (
        "float",
        "int64",
        """near = Less (e, f)
      p2 = If (near) <then_branch = yes () => (more) {
        one = Constant <value = int64 {1}> ()
        cast = CastLike (one, p)
        more = Add (p, cast)
      }, else_branch = no () => (same) { same = Identity (p) }>""",
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("dims", ["", "[1]"], ids=["number", "vector"])
@pytest.mark.parametrize("name", TOTALS)
def test_it_ends_without_a_loop(name: str, dims: str) -> None:
    dtype, total, body = TOTALS[name]
    before = model(TEXT.format(dtype=dtype, total=total, body=body, dims=dims))
    found = rewrite(before, target="portable")
    assert not operators(found.model)["Loop"], found.report.decisions
    rng = np.random.default_rng(0)

    def some(kind: str, *shape: int) -> np.ndarray:
        return np.asarray(rng.integers(-9, 9, shape) * 1.0).astype(
            kind.replace("float", "float32")
        )

    begins = (1,) if dims else ()
    feeds = [
        {"x": some(dtype, n), "y": some(dtype, m), "begin": some(total, *begins)}
        for n in LENGTHS[:4]
        for m in (0, 1, 5)
    ]
    assert same(before, found.model, *feeds) == len(feeds)
