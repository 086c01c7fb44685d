"""Rows of what a loop carries that each iteration computes from that row: ``s[i] = f(s[i])``."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS, feeds, loop
from tests.passes.loops import model, read, same

STATE = "float[N,4]"
PREPARE = """minus1 = Constant <value = int64[1] {-1}> ()
        three1 = Constant <value = int64[1] {3}> ()
        two = Constant <value = int64 {2}> ()
        minus = Constant <value = int64 {-1}> ()
        far = Constant <value = int64[1] {9223372036854775807}> ()
        high = Sub (n, one)
        half = Constant <value = float {0.5}> ()"""
OLD = "old = Gather <axis = 0> (s, i)"
SLICED = """i1 = Unsqueeze (i, zero1)  j1 = Add (i1, one1)  two1 = Concat <axis = 0> (zero1, one1)
            four1 = Add (three1, one1)  from = Concat <axis = 0> (i1, zero1)
            to = Concat <axis = 0> (j1, four1)  cut = Slice (s, from, to, two1)
            places = Unsqueeze (i1, minus1)"""
PLACE = "i1 = Unsqueeze (i, zero1)  places = Unsqueeze (i1, minus1)"


def written(value: str, name: str = "s2", given: str = "s") -> str:
    """Write a row to the place of the iteration."""
    return f"u_{name} = Unsqueeze ({value}, zero1)  {name} = ScatterND ({given}, places, u_{name})"


CELL = """row2 = Unsqueeze (i1, zero1)  column2 = Unsqueeze (three1, zero1)
            cell = Concat <axis = 1> (row2, column2)"""
DOWN = "d1 = Mul (i, minus)  d = Add (high, d1)"


def some(then: str, flag: str = "flag = Gather <axis = 0> (pe, zero)", given: str = "s") -> str:
    """Compute ``s2``: ``v`` where a flag holds."""
    return f"""{flag}
            s2 = If (flag) <
                then_branch = one () => ({STATE} v) {{ {then} }},
                else_branch = other () => ({STATE} lo) {{ lo = Identity ({given}) }}>"""


UPDATES = {
    "a_row": f"{OLD}  {PLACE}  q = Tanh (old)  {written('q')}",
    "a_row_and_another": f"{OLD}  {PLACE}  q = Mul (old, e)  {written('q')}",
    "a_row_twice": f"""{OLD}  {PLACE}  q = Tanh (old)  {written("q", "s1")}
            mid = Gather <axis = 0> (s1, i)  m0 = ReduceMax <keepdims = 1> (mid)
            q2 = Div (mid, m0)  {written("q2", "s2", "s1")}""",
    "a_row_and_a_cell": f"""{OLD}  {PLACE}  q = Tanh (old)  {written("q", "s1")}  {CELL}
            mid = Gather <axis = 0> (s1, i)  m0 = ReduceSum <keepdims = 1> (mid)
            s2 = ScatterND (s1, cell, m0)""",
    "of_some_iterations": some(f"{OLD}  {PLACE}  q = Exp (old)  {written('q', 'v')}"),
    "where_the_row_says_so": f"""{OLD}  first = Gather <axis = 0> (old, zero)
            {some(f"{PLACE}  q = Exp (old)  {written('q', 'v')}", "flag = Less (first, half)")}""",
    "by_where": f"""{OLD}  {PLACE}  q = Exp (old)  {written("q", "v")}
            flag = Gather <axis = 0> (pe, zero)  s2 = Where (flag, v, s)""",
    "by_slices": f"""{SLICED}  old = Squeeze (cut, zero1)  q = Tanh (old)  {written("q")}""",
    "by_slices_where_a_flag_holds": f"""{SLICED}  old = Squeeze (cut, zero1)
            flag = Gather <axis = 0> (pe, zero)  q = Where (flag, e, old)  {written("q")}""",
    "backward": f"""{DOWN}  old = Gather <axis = 0> (s, d)  i1 = Unsqueeze (d, zero1)
            places = Unsqueeze (i1, minus1)  q = Tanh (old)  {written("q")}""",
}


@pytest.mark.parametrize("dialect", ["counted", "endless", "while"])
@pytest.mark.parametrize("name", UPDATES)
def test_rows_that_change_end_without_a_loop(name: str, dialect: str) -> None:
    before = model(loop(dialect, STATE, UPDATES[name], "Identity (w)", prepare=PREPARE))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


@pytest.mark.parametrize("name", ["a_row_twice", "of_some_iterations"])
def test_a_target_without_control_flow_takes_them(name: str) -> None:
    before = model(loop("counted", STATE, UPDATES[name], "Identity (w)", prepare=PREPARE))
    made = rewrite(before, target="portable").model
    assert same(before, made, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_rows_that_no_iteration_reaches_stay() -> None:
    """The tensor has more rows than there are iterations; an infinity stays in its row."""
    rows = np.array([[np.inf] * 4, [1] * 4, [np.nan] * 4, [2] * 4], np.float32)
    for name in ("a_row_twice", "of_some_iterations"):
        before = model(loop("counted", STATE, UPDATES[name], "Identity (w)", prepare=PREPARE))
        after = read(before).model
        assert same(before, after, feeds(4, w=rows), feeds(2, w=rows)) == 2


NEAR = {
    "a_slice_of_two_rows": f"""{SLICED.replace("j1 = Add (i1, one1)", "j0 = Add (i1, one1)  j1 = Add (j0, one1)")}
            old = ReduceMax <axes = [0], keepdims = 0> (cut)  q = Tanh (old)  {written("q")}""",
    "a_slice_that_may_hold_no_row": f"""{SLICED}
            old = ReduceMax <axes = [0], keepdims = 0> (cut)  q = Tanh (old)  {written("q")}""",
    "the_row_before": f"""b1 = Sub (i, one)  b2 = Max (b1, zero)
            old = Gather <axis = 0> (s, b2)  {PLACE}  q = Tanh (old)  {written("q")}""",
    "the_first_row": f"""old = Gather <axis = 0> (s, zero)  {PLACE}  q = Tanh (old)
            {written("q")}""",
    "all_rows": f"""{OLD}  {PLACE}  most = ReduceMax <axes = [0], keepdims = 0> (s)
            q = Sub (old, most)  {written("q")}""",
    "another_row_too": f"""{OLD}  {PLACE}  q = Tanh (old)  {written("q", "s1")}
            first = Unsqueeze (zero1, zero1)  u2 = Unsqueeze (q, zero1)
            s2 = ScatterND (s1, first, u2)""",
    "a_row_that_stands_twice": f"""halved = Div (i, two)  old = Gather <axis = 0> (s, halved)
            i1 = Unsqueeze (halved, zero1)  places = Unsqueeze (i1, minus1)
            q = Tanh (old)  {written("q")}""",
}


@pytest.mark.parametrize("name", NEAR)
def test_rows_that_meet_stay_in_a_loop(name: str) -> None:
    before = model(loop("counted", STATE, NEAR[name], "Identity (w)", prepare=PREPARE))
    found = read(before)
    assert found.loops >= 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_a_row_whose_shape_is_known_asks_for_none() -> None:
    """Of a tensor ``[N, 4]`` each row is ``[4]``, which nothing has to compute."""
    update = f"{OLD}  {PLACE}  q = Tanh (old)  {written('q')}"
    found = read(model(loop("counted", STATE, update, "Identity (w)", prepare=PREPARE)))
    assert found.loops == 0
    assert found.operators["CumSum"] == 0  # what a shape that is only computed is written with
