"""Rows that a branch reads by a counted number: known to be there in every iteration, or not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from passes.decisions import Verdict
from tests.passes.loops import model, read, same

TEXT = """g (float[N,4] x, bool[M] p, float[4] begin) => (float[4] r) {{
    t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
    one = Constant <value = int64 {{1}}> ()  two = Constant <value = int64 {{2}}> ()
    shape = Shape (x)  n = Gather <axis = 0> (shape, zero)  less = Sub (n, one)
    ps = Shape (p)  m = Gather <axis = 0> (ps, zero)
    r = Loop ({trips}, t, begin) <body = step (int64 i, bool on, float[4] s)
        => (bool go, float[4] s2) {{
        pe = Gather <axis = 0> (p, i)
        s2 = If (pe) <then_branch = yes () => (float[4] a) {{
            at = {at}
            row = Gather <axis = 0> (x, at)  low = Tanh (row)  a = {grown}
        }}, else_branch = no () => (float[4] b) {{ b = Identity (s) }}>
        go = Identity (on)
    }}>
}}"""
INSIDE = {
    "the_next_one": ("less", "Add (i, one)"),
    "its_own": ("n", "Identity (i)"),
    "from_the_end": ("n", "Sub (less, i)"),
}
OUTSIDE = {
    "one_too_far": ("n", "Add (i, one)"),
    "the_one_before": ("n", "Sub (i, one)"),
    "of_another_count": ("m", "Add (i, one)"),
    "twice_as_far": ("n", "Mul (i, two)"),
}


def feeds(length: int, rows: int = 0) -> Mapping[str, np.ndarray]:
    """Make the inputs; a branch is taken where its row is there in each of the loops."""
    rng = np.random.default_rng(length)
    p = rng.random(length) > 0.5
    p[:1] = False
    p[(length + 1) // 2 - 1 :] &= False
    return {
        "x": rng.standard_normal((length + rows, 4)).astype(np.float32),
        "p": p,
        "begin": rng.standard_normal(4).astype(np.float32),
    }


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("grown", ["Add (s, low)", "Max (s, low)", "Identity (low)"])
def test_a_row_that_is_there_in_every_iteration(name: str, grown: str) -> None:
    trips, at = INSIDE[name]
    before = model(TEXT.format(trips=trips, at=at, grown=grown))
    found = read(before)
    if name != "from_the_end":
        assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    given = [feeds(length) for length in (0, 1, 2, 7, 33)]
    assert same(before, found.model, *given) == len(given)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_row_that_may_lack(name: str) -> None:
    """Not read, where the branch is not taken: the result is that of the loop."""
    trips, at = OUTSIDE[name]
    before = model(TEXT.format(trips=trips, at=at, grown="Add (s, low)"))
    found = read(before)
    given = [feeds(length) for length in (0, 1, 2, 7, 33)]
    assert same(before, found.model, *given) == len(given)


WRITTEN = """g (int64[N] ids, bool[M] p, float[6] begin) => (float[6] r) {{
    t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
    one = Constant <value = int64 {{1}}> ()  two = Constant <value = int64 {{2}}> ()
    axes = Constant <value = int64[2] {{0, 1}}> ()  low = Constant <value = float[1] {{-9.0}}> ()
    shape = Shape (ids)  n = Gather <axis = 0> (shape, zero)  less = Sub (n, one)
    ps = Shape (p)  m = Gather <axis = 0> (ps, zero)
    r = Loop ({trips}, t, begin) <body = step (int64 i, bool on, float[6] s)
        => (bool go, float[6] s2) {{
        pe = Gather <axis = 0> (p, i)
        s2 = If (pe) <then_branch = yes () => (float[6] a) {{
            at = {at}
            k = Gather <axis = 0> (ids, at)  place = Unsqueeze (k, axes)
            a = ScatterND (s, place, low)
        }}, else_branch = no () => (float[6] b) {{ b = Identity (s) }}>
        go = Identity (on)
    }}>
}}"""


@pytest.mark.parametrize(("cases", "loops"), [(INSIDE, 0), (OUTSIDE, 1)])
def test_a_place_that_a_branch_reads(cases: Mapping[str, tuple[str, str]], loops: int) -> None:
    for name, (trips, at) in cases.items():
        before = model(WRITTEN.format(trips=trips, at=at))
        found = read(before)
        if name != "from_the_end":
            assert found.loops == loops, (name, [(d.path, d.reasons) for d in found.decisions])
        given = []
        for length in (0, 1, 2, 7, 33):
            feed = feeds(length)
            ids = np.random.default_rng(length).integers(0, 6, length)
            begin = np.arange(6, dtype=np.float32)
            given.append({"p": feed["p"], "ids": ids, "begin": begin})
        assert same(before, found.model, *given) == len(given)


SLICED = """g (float[N,4] x) => (float[N,4] y) {{
    t = Constant <value = bool {{1}}> ()  first = Constant <value = int64[1] {{0}}> ()
    n = Shape <start = 0, end = 1> (x)  count = Squeeze (n)  begin = Neg (x)
    y = Loop (count, t, begin) <body = step (int64 i, bool on, float[N,4] s) => (bool go, float[N,4] s2) {{
        axis = Constant <value = int64[1] {{0}}> ()  one = Constant <value = float {{1}}> ()
        one1 = Constant <value = int64[1] {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
        size = Shape <start = 0, end = 1> (x)  less1 = Sub (size, one1)  less = Squeeze (less1)
        own = Unsqueeze (i, axis)  real = Cast <to = 1> (i)
        c = {condition}
        s2 = If (c) <then_branch = yes () => (float[N,4] a) {{
            moved = {moved} (real, one)  at1 = Cast <to = 7> (moved)  at = Unsqueeze (at1, axis)
            grown = Add (moved, one)  end1 = Cast <to = 7> (grown)  end = Unsqueeze (end1, axis)
            part = Slice (x, at, end, axis)  row = Squeeze (part, axis)  low = Tanh (row)
            a = ScatterND (s, own, low)
        }}, else_branch = no () => (float[N,4] b) {{ b = Identity (s) }}>
        go = Identity (on)
    }}>
}}"""


@pytest.mark.parametrize(
    ("condition", "moved"), [("Greater (i, zero)", "Sub"), ("Less (i, less)", "Add")]
)
def test_a_row_that_is_sliced_and_may_lack(condition: str, moved: str) -> None:
    """As PaddlePaddle's exporter writes ``if i > 0: y[i] = x[i - 1]``, with numbers as floats."""
    before = model(SLICED.format(condition=condition, moved=moved))
    found = read(before)
    assert [d.verdict for d in found.decisions] == [Verdict.FUSED]
    given = [{"x": feeds(length)["x"]} for length in (0, 1, 2, 7, 33)]
    assert same(before, found.model, *given) == len(given)


def test_rows_that_may_be_none_are_no_single_row() -> None:
    """Their sum is 0 in the first iteration, which takes the branch."""
    text = SLICED.format(condition="LessOrEqual (zero, i)", moved="Sub")
    text = text.replace(
        "row = Squeeze (part, axis)", "row = ReduceSum <keepdims = 0> (part, axis)"
    )
    before = model(text)
    found = read(before)
    given = [{"x": feeds(length)["x"]} for length in (0, 1, 2, 7, 33)]
    assert same(before, found.model, *given) == len(given)
