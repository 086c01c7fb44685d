"""Writes to a carried tensor whose axes lie in another order, and which is put back, or is not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import model, read, same

TEXT = """g (float[N,2] x, float[2,2,2] b) => (float[2,2,2] r) {{
    t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
    two = Constant <value = int64 {{2}}> ()  zero1 = Constant <value = int64[1] {{0}}> ()
    last = Constant <value = int64[1] {{-1}}> ()
    shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
    r = Loop (n, t, b) <body = step (int64 i, bool c, float[2,2,2] s)
        => (bool go, float[2,2,2] s2) {{
        go = Identity (c)  e = Gather <axis = 0> (x, i)
        k = Mod (i, two)  k1 = Unsqueeze (k, zero1)  at = Unsqueeze (k1, last)
        v = Transpose <perm = [1, 2, 0]> (s)
        e1 = Unsqueeze (e, zero1)  e2 = Concat <axis = 0> (e1, e1)  u = Unsqueeze (e2, zero1)
        w = ScatterND (v, at, u)  s2 = Transpose <perm = {back}> (w)
    }}> }}"""


@pytest.mark.parametrize(("back", "loops"), [([2, 0, 1], 0), ([1, 2, 0], 1)])
def test_axes_have_to_come_back(back: list[int], loops: int) -> None:
    before = model(TEXT.format(back=back))
    found = read(before)
    assert found.loops == loops
    rng = np.random.default_rng(0)
    shapes = [{"x": (n, 2), "b": (2, 2, 2)} for n in (0, 1, 2, 5)]
    given = [{k: rng.random(s).astype(np.float32) for k, s in one.items()} for one in shapes]
    assert same(before, found.model, *given) == len(given)
