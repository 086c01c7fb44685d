"""Two Loops in each other that run as one: windows of two axes, cut one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.raising import GiveBackPass, RaiseLoopsPass
from rewriter import rewrite
from tests.passes.expansion import operators
from tests.passes.loops import model, read, same

TEXT = """g (float[C,H,W] x, int64 rows, int64 columns, float[C] z, int64[K] k) => ({result}) {{
    t = Constant <value = bool {{1}}> ()  f = Constant <value = bool {{0}}> ()
    one = Constant <value = int64 {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
    two = Constant <value = int64 {{2}}> ()  zero1 = Constant <value = int64[1] {{0}}> ()
    one1 = Constant <value = int64[1] {{1}}> ()  two1 = Constant <value = int64[1] {{2}}> ()
    begin = {begin}
    more = Identity (t)
    {name} = Loop (rows, {condition}, begin) <body = outer (int64 i, bool on, {state} s)
        => (bool go, {state} s2) {{
        y = Mul (i, two)
        {rest}
        s2 = Loop ({trips}, {inner_condition}, {first}) <body = inner (int64 j, bool on2, {state} q)
            => (bool go2, {state} q2) {{
            u = Mul (j, two)  y1 = Unsqueeze (y, zero1)  u1 = Unsqueeze (u, zero1)
            y2 = Add (y1, two1)  u2 = Add (u1, two1)
            lines = Slice (x, y1, y2, one1)
            e = Slice (lines, u1, u2, two1)
            {more}
            q2 = {append}
            go2 = {goes_on}
        }}>
        go = Identity (on)
    }}>
    {join}
}}"""
LIST = {
    "begin": "SequenceEmpty ()",
    "state": "seq(float[C,P,Q])",
    "append": "SequenceInsert (q, e)",
    "name": "l",
    "result": "seq(float[C,P,Q]) l",
    "join": "",
    "condition": "t",
    "inner_condition": "t",
    "trips": "columns",
    "rest": "",
    "first": "s",
    "more": "",
    "goes_on": "Identity (on2)",
}
CASES = {
    "windows": {},
    "of_the_size": {
        "trips": "mine",
        "rest": """h = Shape (x)  w0 = Gather <axis = 0> (h, two)  mine = Div (w0, two)""",
    },
    "always_going_on": {"goes_on": "Identity (t)", "inner_condition": ""},
    "a_number_of_the_outer_loop": {
        "rest": "ahead = Add (i, one)  af = Cast <to = 1> (ahead)",
        "more": "er = Mul (e, af)",
        "append": "SequenceInsert (q, er)",
    },
    "a_row_of_the_outer_loop": {
        "rest": "at = Mod (i, two)  line = Gather <axis = 1> (x, at)",
        "more": "part = ReduceMean <axes = [0, 1], keepdims = 0> (line)  er = Add (e, part)",
        "append": "SequenceInsert (q, er)",
    },
}
SIZES = ((0, 3), (3, 0), (1, 1), (2, 3), (3, 2), (-1, 2), (2, -2), (-2, -3))


def graph(**given: str) -> str:
    """Return a graph whose inner Loop appends windows to the list of the outer one."""
    return TEXT.format(**{**LIST, **given})


def feeds(rows: int, columns: int, high: int = 7, wide: int = 5) -> Mapping[str, np.ndarray]:
    """Make the inputs; windows behind the edge are smaller, or of no size."""
    rng = np.random.default_rng((abs(rows), abs(columns)))
    return {
        "x": rng.standard_normal((2, high, wide)).astype(np.float32),
        "rows": np.array(rows),
        "columns": np.array(columns),
        "z": rng.standard_normal(2).astype(np.float32),
        "k": rng.integers(0, 4, 3),
    }


@pytest.mark.parametrize("name", CASES)
def test_windows_of_two_loops_become_samples(name: str) -> None:
    before = model(graph(**CASES[name]))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    given = [feeds(*size) for size in SIZES] + [feeds(2, 2, 4, 4), feeds(3, 2, 2, 1)]
    assert same(before, found.model, *given) == len(given)


@pytest.mark.parametrize("options", [{}, {"target": "portable"}, {"exact": True}])
def test_stacked_windows_in_other_modes(options: Mapping[str, Any]) -> None:
    before = model(
        graph(
            join="r = ConcatFromSequence <axis = 0, new_axis = 1> (l)", result="float[R,C,P,Q] r"
        )
    )
    after = rewrite(before, **options).model
    assert "target" not in options or not operators(after).keys() & {"Loop", "If", "Scan"}
    given = [feeds(1, 1), feeds(2, 2, 4, 4), feeds(3, 2, 6, 5), feeds(1, 4, 3, 8)]
    assert same(before, after, *given) == len(given)


def test_two_lists_and_a_value_that_stays() -> None:
    """Windows, and where each was cut."""
    window, place = "seq(float[C,P,Q])", "seq(float[2])"
    text = graph(result=f"{window} l, {place} l2, float[C] last")
    for old, new in (
        ("begin = SequenceEmpty ()", "begin = SequenceEmpty ()  begin2 = SequenceEmpty ()"),
        ("t, begin)", "t, begin, begin2, z)"),
        ("l = Loop", "l, l2, last = Loop"),
        (f"{window} s)", f"{window} s, {place} v, float[C] kept)"),
        (f"{window} s2)", f"{window} s2, {place} v2, float[C] kept2)"),
        ("s2 = Loop (columns, t, s)", "s2, v2 = Loop (columns, t, s, v)"),
        (f"{window} q)", f"{window} q, {place} w)"),
        (f"{window} q2)", f"{window} q2, {place} w2)"),
        (
            "q2 = SequenceInsert (q, e)",
            """zc = Unsqueeze (kept, far)  ez = Add (e, zc)
            q2 = SequenceInsert (q, ez)  at = Concat <axis = 0> (y1, u1)
            atf = Cast <to = 1> (at)  w2 = SequenceInsert (w, atf)""",
        ),
        ("go = Identity (on)", "go = Identity (on)  kept2 = Identity (kept)"),
        ("more = Identity (t)", "far = Constant <value = int64[2] {1, 2}> ()"),
    ):
        assert old in text
        text = text.replace(old, new)
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    given = [feeds(*size) for size in SIZES]
    assert same(before, found.model, *given) == len(given)


MISSES = {
    "as_many_as_a_vector_says": {
        "trips": "mine",
        "rest": "mine = Gather <axis = 0> (k, i)",
    },
    "as_many_as_a_part_is_wide": {
        "trips": "mine",
        "rest": """i1 = Unsqueeze (i, zero1)  part = Slice (x, zero1, i1, one1)
            ps = Shape (part)  mine = Gather <axis = 0> (ps, one)""",
    },
    "as_many_as_a_branch_says": {
        "trips": "mine",
        "rest": """few = Less (rows, two)
            mine = If (few) <then_branch = yes () => (int64 m) { m = Identity (columns) },
                else_branch = no () => (int64 m2) { m2 = Min (columns, two) }>""",
    },
    "another_list_each_time": {"first": "other", "rest": "other = SequenceConstruct (x)"},
    "ends_early": {"more": "d = Less (j, one)", "goes_on": "And (on2, d)"},
    "may_not_begin": {"inner_condition": "d", "rest": "d = Less (i, one)"},
    "appends_beside": {
        "first": "s1",
        "rest": "s1 = SequenceInsert (s, x)",
    },
    "much_work_in_between": {
        "rest": "big = Softmax (x)  part = ReduceMean <axes = [1, 2], keepdims = 1> (big)",
        "more": "er = Mul (e, part)",
        "append": "SequenceInsert (q, er)",
    },
}


@pytest.mark.parametrize("name", MISSES)
def test_what_is_not_one_loop_stays_right(name: str) -> None:
    before = model(graph(**MISSES[name]))
    found = read(before)
    assert found.loops, found.operators
    given = [feeds(*size) for size in SIZES if min(size) >= 0 and size[0] < 4]
    assert same(before, found.model, *given) == len(given)


@pytest.mark.parametrize("name", [*CASES, *MISSES])
def test_two_loops_come_back_to_the_byte(name: str) -> None:
    given = model(graph(**(CASES | MISSES)[name]))
    raised = ir.from_proto(given)
    before = ir.to_proto(raised)
    RaiseLoopsPass()(raised)
    GiveBackPass()(raised)
    assert ir.to_proto(raised) == before
    onnx.checker.check_model(before)
