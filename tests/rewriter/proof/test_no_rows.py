"""Loops that never run: what is told of their results, and what is compared."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter import validate

HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'
LOOP = (
    HEADER
    + """
agraph (float[N,M] x) => (float[P,Q] y)
{
  shape = Shape <start = 0, end = 1> (x)
  n = Squeeze (shape)
  go = Constant <value = bool {1}> ()
  y = Loop (n, go) <body = step (int64 i, bool c) => (bool on, float[Q] row)
    { on = Identity (c)  row = Gather <axis = 0> (x, i) }>
}
"""
)
NOTHING = {"x": np.zeros((0, 3), np.float32)}
OTHERS = {
    "the same": ("y = Identity (x)", True),
    "another rank": ("y = Unsqueeze (x, one)", False),
    "a row more": (
        "row = Constant <value = float[1,3] {0, 0, 0}> ()  y = Concat <axis = 0> (row, x)",
        False,
    ),
    "another type": ("z = Cast <to = 11> (x)  y = Identity (z)", False),
}


@pytest.mark.parametrize("name", OTHERS)
def test_more_may_be_known_of_no_rows_and_nothing_else(name: str) -> None:
    line, is_equal = OTHERS[name]
    output = "double[P,Q]" if name == "another type" else "float[P,Q]"
    other = (
        HEADER
        + f"agraph (float[N,M] x) => ({output} y) {{ one = Constant <value_ints = [1]> () {line} }}"
    )
    models = [onnx.parser.parse_model(text) for text in (LOOP, other.replace("P,Q", "P,R"))]
    (case,) = validate(*models, inputs=NOTHING).cases
    assert case.verdict == ("equal" if is_equal else "differs")


def test_without_a_loop_every_dimension_counts() -> None:
    before = (
        HEADER
        + """agraph (float[N,M] x) => (float[P,Q] y) {
      zero = Constant <value_ints = [0]> ()  one = Constant <value_ints = [1]> ()
      y = Slice (x, zero, zero, one) }"""
    )
    after = HEADER + "agraph (float[N,M] x) => (float[P,Q] y) { y = Identity (x) }"
    models = [onnx.parser.parse_model(text) for text in (before, after)]
    assert not validate(*models, inputs=NOTHING).ok
