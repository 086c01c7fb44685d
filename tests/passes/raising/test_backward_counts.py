"""Loops that count down, whose number PyTorch's exporter computes in floats."""

from __future__ import annotations

import pytest

from tests.passes.carried.carried import INPUTS, LENGTHS, feeds
from tests.passes.loops import model, read, same


def backward(last: str = "one") -> str:
    """Return a graph whose Loop writes running sums from row ``n - last`` down to row 0."""
    return f"""g ({INPUTS}) => (float[4] total, float[N,4] r) {{
        t = Constant <value = bool {{1}}> ()
        zero = Constant <value = int64 {{0}}> ()
        one = Constant <value = int64 {{1}}> ()
        two = Constant <value = int64 {{2}}> ()
        minus = Constant <value = int64 {{-1}}> ()
        step = Constant <value = float {{-1}}> ()
        zero1 = Constant <value = int64[1] {{0}}> ()
        behind = Constant <value = int64[1] {{-1}}> ()
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        high = Sub (n, {last})
        span = Sub (minus, high)
        floats = Cast <to = 1> (span)
        steps = Div (floats, step)
        whole = Ceil (steps)
        count = Cast <to = 7> (whole)
        total, r = Loop (count, t, b, w) <body = step (int64 i, bool cond, float[4] g, float[N,4] s)
            => (bool go, float[4] g2, float[N,4] s2) {{
            down = Mul (i, minus)
            at2 = Add (high, down)
            e = Gather <axis = 0> (x, at2)
            g2 = Add (g, e)
            a1 = Unsqueeze (at2, zero1)
            places = Unsqueeze (a1, behind)
            u = Unsqueeze (g2, zero1)
            s2 = ScatterND (s, places, u)
            go = Identity (cond)
        }}>
    }}"""


@pytest.mark.parametrize("last", ["one", "two"])
def test_rows_that_are_written_backward_end_without_a_loop(last: str) -> None:
    before = model(backward(last))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert any("2^24" in line for d in found.decisions for line in d.assumptions)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_a_step_of_a_half_is_no_whole_number() -> None:
    before = model(backward().replace("float {-1}", "float {-2}"))
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
