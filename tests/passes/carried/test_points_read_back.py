"""A place along several axes that is read by GatherND, changed and written back."""

from __future__ import annotations

import pytest

from tests.passes.carried.carried import LENGTHS
from tests.passes.carried.test_writes_in_turn import GRID, ROWS, TEXT, feeds
from tests.passes.loops import model, read, same

POINT = "f0 = Gather <axis = 0> (p, first)  q0 = Unsqueeze (f0, zero1)"
NUMBER = "w = ReduceMax <keepdims = 0> (e)  w0 = Unsqueeze (w, zero1)"
ROW = "f0 = Gather <axis = 0> (p, one1)  q0 = Unsqueeze (f0, zero1)  v = Unsqueeze (e, zero1)"
CONSTANT = """one2 = Constant <value = int64[2] {1, 1}> ()  i1 = Constant <value = int64[2] {-1, 1}> ()
    k0 = Gather <axis = 0> (p, zero)  k1 = Unsqueeze (k0, zero1)  k2 = Reshape (k1, i1)
    two = Constant <value = int64 {2}> ()  back = Constant <value = int64 {-1}> ()
    two2 = Constant <value = int64[1,1] {2}> ()  back1 = Constant <value = int64[1] {-1}> ()"""
PLACED = """grid = Add ({0}, {1})  size = Shape (grid)  g0 = Expand ({0}, size)  g1 = Expand ({1}, size)
    c0 = Unsqueeze (g0, minus)  c1 = Unsqueeze (g1, minus)  q0 = Concat <axis = -1> (c0, c1)
    o1 = Gather <axis = 0> (s, {2})  o = Gather <axis = 0> (o1, {3})  u = {4} (o, w)
    u0 = Reshape (u, one2)  s2 = ScatterND (s, q0, u0)"""


def placed(*names: str) -> str:
    """Return the nodes that join to a place as PyTorch's exporter names it."""
    return f"{NUMBER}  {CONSTANT}  {PLACED.format(*names)}"


BACK = {
    "a_constant_row": (GRID, placed("two2", "k1", "two", "k0", "Max")),
    "a_constant_column": (GRID, placed("k2", "back1", "k0", "back", "Sub")),
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
    "another_constant": (GRID, placed("two2", "k1", "back", "k0", "Max")),
    "the_axes_turned": (GRID, placed("two2", "k1", "k0", "two", "Max")),
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
