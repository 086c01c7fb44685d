"""A place along several axes that is read by GatherND, changed and written back."""

from __future__ import annotations

import pytest

from tests.passes.loops import model, read, same
from tests.passes.raising.carried import LENGTHS
from tests.passes.raising.test_writes_in_turn import GRID, ROWS, TEXT, feeds

POINT = "f0 = Gather <axis = 0> (p, first)  q0 = Unsqueeze (f0, zero1)"
NUMBER = "w = ReduceMax <keepdims = 0> (e)  w0 = Unsqueeze (w, zero1)"
ROW = "f0 = Gather <axis = 0> (p, one1)  q0 = Unsqueeze (f0, zero1)  v = Unsqueeze (e, zero1)"
BACK = {
    "a_number": (
        GRID,
        f"{POINT}  {NUMBER}  o = GatherND (s, q0)  u = Add (o, w0)  s2 = ScatterND (s, q0, u)",
    ),
    "the_greater_one": (
        GRID,
        f"{POINT}  {NUMBER}  o = GatherND (s, q0)  u = Max (o, w0)  s2 = ScatterND (s, q0, u)",
    ),
    "a_row": (ROWS, f"{ROW}  o = GatherND (s, q0)  u = Sub (o, v)  s2 = ScatterND (s, q0, u)"),
    "a_place_that_is_computed_twice": (
        GRID,
        f"{POINT}  {NUMBER}  f1 = Gather <axis = 0> (p, first)  q1 = Unsqueeze (f1, zero1)"
        "  o = GatherND (s, q1)  u = Add (o, w0)  s2 = ScatterND (s, q0, u)",
    ),
    "times_one": (
        GRID,
        f"{POINT}  {NUMBER}  f = Constant <value = float[1] {{1.0}}> ()  o = GatherND (s, q0)"
        "  m = Mul (o, f)  u = Add (m, w0)  s3 = ScatterND (s, q0, u)"
        "  s2 = Transpose <perm = [0, 1]> (s3)",
    ),
}
MISSES = {
    "another_place": (
        GRID,
        f"{POINT}  {NUMBER}  f1 = Gather <axis = 0> (p, turned)  q1 = Unsqueeze (f1, zero1)"
        "  o = GatherND (s, q1)  u = Add (o, w0)  s2 = ScatterND (s, q0, u)",
    ),
    "twice_what_is_there": (
        GRID,
        f"{POINT}  {NUMBER}  o = GatherND (s, q0)  o2 = Mul (o, w0)  u = Add (o2, w0)"
        "  s2 = ScatterND (s, q0, u)",
    ),
    "several_places": (
        ROWS,
        "q0 = Unsqueeze (p, minus)  v0 = Unsqueeze (e, zero1)  o = GatherND (s, q0)"
        "  u = Add (o, v0)  s2 = ScatterND (s, q0, u)",
    ),
    "a_turned_tensor": (
        GRID,
        f"{POINT}  {NUMBER}  s1 = Transpose <perm = [1, 0]> (s)  o = GatherND (s1, q0)"
        "  u = Add (o, w0)  s2 = ScatterND (s, q0, u)",
    ),
}


@pytest.mark.parametrize("name", [*BACK, *MISSES])
def test_a_place_is_read_and_written_back(name: str) -> None:
    kinds, nodes = (BACK | MISSES)[name]
    before = model(TEXT.format(nodes=nodes, **kinds), 18)
    found = read(before)
    assert found.loops == (name in MISSES), [(d.path, d.reasons) for d in found.decisions]
    many = [feeds(n, (6, 6) if kinds is GRID else (6, 4)) for n in LENGTHS]
    assert same(before, found.model, *many) == len(many)
