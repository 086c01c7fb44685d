"""Numbers that a branch counts to and that the body around it computes: those of its own samples."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.expansion import operators
from tests.passes.loops import model, same

TEXT = """g (int64[N] k) => (float[N] r) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    one = Constant <value = int64 {{1}}> ()
    n1 = Shape (k)
    n = Squeeze (n1)
    r = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float y) {{
        q = Gather <axis = 0> (k, i)
        {number}
        flag = Greater (u, one)
        y = If (flag) <
            then_branch = counts () => (float a) {{
                w = Range (zero, u, one)
                p = Cast <to = 1> (w)
                s = Softmax <axis = 0> (p)
                m = Mul (s, p)
                a = ReduceSum <keepdims = 0> (m) }},
            else_branch = does_not () => (float a2) {{ a2 = Cast <to = 1> (q) }}>
        go = Identity (c)
    }}>
}}"""
CASES = {
    "counted_to_the_larger": "u = Max (q, zero)",
    "counted_to_the_smaller": "b = Add (one, one)  u = Min (q, b)",
    "counted_to_a_sum": "u = Add (q, one)",
    "counted_to_what_is_cast": "d = Cast <to = 6> (q)  u = Cast <to = 7> (d)",
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["onnxruntime", "portable"])
def test_a_branch_counts_for_its_own_samples(name: str, target: str) -> None:
    before = model(TEXT.format(number=CASES[name]), 18)
    made = rewrite(before, strategy="fuse", target=target).model
    assert not operators(made)["Loop"]
    many = ([], [3], [1, 4], [0, 1], [5, 5, 1], [1, 2, 3, 0, 2], [1, 1])
    feeds = [{"k": np.array(k, np.int64)} for k in many]
    assert same(before, made, *feeds) == len(feeds)
