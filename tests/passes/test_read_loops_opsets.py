"""Loops of opsets before 14, where a 0 in the target of Reshape is a copy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import prove, rows

CONVOLVED = """g (float[B,4,2,3] w, float[1,2,5] x) => (float[M,1,4,3] ys) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    shape = Shape (w)
    n = Gather <axis = 0> (shape, zero)
    ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[1,4,3] y) {
        e = Gather <axis = 0> (w, i)
        y = Conv (x, e)
        go = Identity (t)
    }>
}"""


@pytest.mark.parametrize("opset", [11, 12, 13, 14])
def test_filters_of_no_samples(opset: int) -> None:
    feeds = [{"w": rows(n, 4, 2, 3), "x": rows(1, 2, 5)} for n in (0, 1, 3)]
    prove(CONVOLVED, *feeds, opset=opset)


@pytest.mark.parametrize("opset", [11, 13])
def test_filters_of_an_element_type_that_onnxruntime_does_not_pad(opset: int) -> None:
    feeds = [
        {"w": rows(n, 4, 2, 3).astype(np.float16), "x": rows(1, 2, 5).astype(np.float16)}
        for n in (0, 1, 3)
    ]
    prove(CONVOLVED.replace("float[", "float16["), *feeds, opset=opset)
