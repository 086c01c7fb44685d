"""What is said of a tensor that an iteration reads and writes at places, and that stays a loop."""

from __future__ import annotations

import pytest

from tests.passes.loops import model, read

pytestmark = pytest.mark.quick

TEXT = """g (float[N] x, float[8,8] z, int64[N,2] places) => (float[8,8] y)
  <bool go = {1}, int64 none = {0}, int64 one = {1}, int64 eight = {8}, int64[1] zero1 = {0},
   int64[1] flat = {-1}>
{ shape = Shape <start = 0, end = 1> (x) n = Squeeze (shape, zero1)
  y = Loop (n, go, z) <body = b (int64 i, bool c, float[8,8] s) => (bool d, float[8,8] s2) {
    e = Gather (x, i) place = Gather (places, i)
    row = Gather (place, none) column = Gather (place, one)
    line = Flatten <axis = 2> (s) before = Mul (row, eight) at = Add (column, before)
    vector = Reshape (line, flat) old = Gather (vector, at) new = JOIN
    s2 = ScatterND (s, place, new) d = Identity (c) }> }"""

PLACES = "nothing proves that 's' is read where it is written, each place once"
CASES = {
    "a sum": ("Add (old, e)", PLACES),
    "a difference": ("Sub (old, e)", PLACES),
    "what is negated": ("Neg (old)", "'s' depends on its own past"),
    "a sum with what is weighed": (
        "Add (weighed, e)",
        "'s' depends on its own past",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_reason_names_the_places(name: str) -> None:
    join, detail = CASES[name]
    text = TEXT.replace("JOIN", join).replace("new =", "weighed = Sin (old) new =")
    found = read(model(text, 18))
    assert found.loops == 1
    assert detail in found.details
