"""Columns of what a loop carries that each iteration changes: ``s[:, i] = f(s[:, i])``."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.passes.carried.carried import LENGTHS, feeds, loop
from tests.passes.loops import model, read, same

pytestmark = pytest.mark.quick

STATE = "float[4,N]"
PREPARE = """minus1 = Constant <value = int64[1] {-1}> ()
        down = Constant <value = int64[2] {-1, 1}> ()
        minus = Constant <value = int64 {-1}> ()
        four1 = Constant <value = int64[1] {4}> ()
        far = Constant <value = int64[1] {9223372036854775807}> ()
        high = Sub (n, one)
        turned = Transpose (w)"""
OLD = "whole = Slice (s, zero1, far, zero1)  old = Gather <axis = 1> (whole, i)"
BACK = "low = Mul (i, minus)  d = Add (high, low)"


GRID = """size_$ = Shape (GIVEN)  d_$ = Gather <axis = 0> (size_$, zero)
            r_$ = Range (zero, d_$, one)  part_$ = Slice (r_$, FROM, far, zero1)
            down_$ = Reshape (part_$, down)  at_$ = Unsqueeze (AT, zero1)
            sum_$ = Add (down_$, at_$)  like_$ = Shape (sum_$)
            e0_$ = Expand (down_$, like_$)  e1_$ = Expand (at_$, like_$)
            c0_$ = Unsqueeze (e0_$, minus1)  c1_$ = Unsqueeze (e1_$, minus1)
            places_$ = Concat <axis = -1> (c0_$, c1_$)  u_$ = Reshape (VALUE, like_$)
            $ = ScatterND (GIVEN, places_$, u_$)"""
"""A column as PyTorch's exporter writes it: to a grid of places."""


def _written(
    value: str, *, at: str = "i", given: str = "s", name: str = "s2", first: str = "zero1"
) -> str:
    """Write to the column of the iteration, from a row on."""
    text = GRID.replace("$", name).replace("GIVEN", given).replace("VALUE", value)
    return text.replace("AT", at).replace("FROM", first)


FLAG = "flag = Gather <axis = 0> (pe, zero)"
ELEMENTS = """at1 = Reshape (i, one1)  flat = Concat <axis = 0> (one1, minus1)
            row = Reshape (at1, flat)  extent = Shape (s)  d0 = Slice (extent, zero1, one1)
            reps = Concat <axis = 0> (d0, one1)  all = Tile (row, reps)
            u = Unsqueeze (q, one1)  s2 = ScatterElements <axis = 1> (s, all, u)"""

UPDATES = {
    "a_column": f"{OLD}  q = Softmax <axis = 0> (old)  {_written('q')}",
    "a_column_and_a_row": f"{OLD}  q = Mul (old, e)  {_written('q')}",
    "a_column_twice": f"""{OLD}  q = Tanh (old)  {_written("q", name="s1")}
            mid = Gather <axis = -1> (s1, i)  most = ReduceMax <keepdims = 0> (mid)
            q2 = Sub (mid, most)  {_written("q2", given="s1")}""",
    "by_a_slice": f"""i1 = Unsqueeze (i, zero1)  j1 = Add (i1, one1)  cut = Slice (s, i1, j1, one1)
            old = Squeeze (cut, one1)  q = Tanh (old)  {_written("q")}""",
    "by_elements": f"{OLD}  q = Tanh (old)  {ELEMENTS}",
    "by_where": f"{OLD}  {FLAG}  q = Exp (old)  {_written('q', name='v')}  s2 = Where (flag, v, s)",
    "backward": f"""{BACK}  old = Gather <axis = 1> (s, d)  q = Tanh (old)
            {_written("q", at="d")}""",
}


def _model(body: str, dialect: str = "counted") -> onnx.ModelProto:
    return model(loop(dialect, STATE, body, "Identity (turned)", prepare=PREPARE))


@pytest.mark.parametrize("dialect", ["counted", "endless", "while"])
@pytest.mark.parametrize("name", UPDATES)
def test_columns_that_change_end_without_a_loop(name: str, dialect: str) -> None:
    before = _model(UPDATES[name], dialect)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_columns_that_no_iteration_reaches_stay() -> None:
    columns = np.array([[np.inf] * 4, [1] * 4, [np.nan] * 4, [2] * 4], np.float32)
    before = _model(UPDATES["a_column_twice"])
    after = read(before).model
    assert same(before, after, feeds(4, w=columns), feeds(2, w=columns)) == 2


NEAR = {
    "the_column_before": f"""p1 = Sub (i, one)  p2 = Max (p1, zero)
            old = Gather <axis = 1> (s, p2)  q = Tanh (old)  {_written("q")}""",
    "the_first_column": f"""old = Gather <axis = 1> (s, zero)  q = Tanh (old)
            {_written("q")}""",
    "all_columns": f"""{OLD}  most = ReduceMax <axes = [1], keepdims = 0> (s)
            q = Sub (old, most)  {_written("q")}""",
    "a_part_of_it": f"""{OLD}  few = Slice (old, one1, far, zero1)  q = Tanh (few)
            {_written("q", first="one1")}""",
    "a_part_of_it_by_elements": f"""{OLD}  few = Slice (old, one1, far, zero1)  q = Tanh (few)
            {ELEMENTS.replace("d0 = Slice (extent, zero1, one1)", "d0 = Sub (four1, one1)")}""",
    "to_the_first_column": f"""{OLD}  q = Tanh (old)  {_written("q", at="zero")}""",
    "upside_down": f"""{OLD}  q = Tanh (old)
            {_written("q").replace("Range (zero, d_s2, one)", "Range (top, minus, minus)").replace("r_s2 =", "top = Sub (d_s2, one)  r_s2 =")}""",
    "a_row_of_another_axis": f"""old = Gather <axis = 0> (s, i)  q = ReduceSum <keepdims = 0> (old)
            q1 = Expand (q, four1)  {_written("q1")}""",
}


@pytest.mark.parametrize("name", NEAR)
def test_columns_that_meet_stay_in_a_loop(name: str) -> None:
    before = _model(NEAR[name])
    found = read(before)
    assert found.loops >= 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    lengths = [n for n in LENGTHS if n <= 4] if "another" in name else LENGTHS
    assert same(before, found.model, *map(feeds, lengths)) == len(lengths)
