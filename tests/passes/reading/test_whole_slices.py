"""Slices that cut nothing off, as exporters write ``x[:]`` and ``x[:, None]``."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import model, read, same

ENDS = {"as_tensorflow_says_it": 10**9, "as_pytorch_says_it": 2**63 - 1, "as_int32": 2**31 - 1}


def loop(end: int, first: int = 0, step: int = 1) -> str:
    """Return a graph whose iterations weigh prefixes that a Slice of all axes leaves as they are."""
    return f"""g (float[N,4] x, int64[N] k) => (float[M,4] r) {{
        t = Constant <value = bool {{1}}> ()
        zero = Constant <value = int64 {{0}}> ()
        one = Constant <value = int64 {{1}}> ()
        zero1 = Constant <value = int64[1] {{0}}> ()
        one1 = Constant <value = int64[1] {{1}}> ()
        begins = Constant <value = int64[2] {{{first}, 0}}> ()
        ends = Constant <value = int64[2] {{{end}, {end}}}> ()
        axes = Constant <value = int64[2] {{0, 1}}> ()
        steps = Constant <value = int64[2] {{{step}, 1}}> ()
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        r = Loop (n, t) <body = step (int64 i, bool cond) => (bool go, float[4] y) {{
            next = Add (i, one)
            end = Unsqueeze (next, zero1)
            c = Slice (x, zero1, end, zero1, one1)
            m = ReduceSum <keepdims = 0> (c, one1)
            w = Softmax <axis = 0> (m)
            v = Unsqueeze (w, one1)
            u = Slice (v, begins, ends, axes, steps)
            p = Mul (u, c)
            y = ReduceSum <keepdims = 0> (p, zero1)
            go = Identity (cond)
        }}>
    }}"""


def feeds(length: int) -> dict[str, np.ndarray]:
    """Make rows for a number of iterations."""
    rng = np.random.default_rng(length)
    return {
        "x": rng.standard_normal((length, 4)).astype(np.float32),
        "k": rng.integers(0, 9, length),
    }


@pytest.mark.parametrize("name", ENDS)
def test_what_is_cut_is_as_long_as_it_was(name: str) -> None:
    before = model(loop(ENDS[name]), 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, (0, 1, 2, 7, 64))) == 5
    said = [line for decision in found.decisions for line in decision.assumptions]
    assert any("10^9" in line for line in said) == (ENDS[name] == 10**9)


@pytest.mark.parametrize(("end", "first", "step"), [(10**9 - 1, 0, 1), (2, 0, 1), (-1, 0, 1)])
def test_what_may_cut_something_off(end: int, first: int, step: int) -> None:
    before = model(loop(end, first, step), 18)
    found = read(before)
    same(before, found.model, *map(feeds, (0, 1, 2, 7)))
    assert not any("10^9" in line for d in found.decisions for line in d.assumptions)


def column_loop(end: int, begin: str = "zero1", width: str = "one") -> str:
    """Return a graph whose iterations read ``x[:, i:i + width]`` by one Slice of two axes."""
    return f"""g (float[B,N,4] x) => (float[M,B,K,4] r) {{
        t = Constant <value = bool {{1}}> ()
        one = Constant <value = int64 {{1}}> ()
        two = Constant <value = int64 {{2}}> ()
        zero1 = Constant <value = int64[1] {{0}}> ()
        one1 = Constant <value = int64[1] {{1}}> ()
        far = Constant <value = int64[1] {{{end}}}> ()
        axes = Constant <value = int64[2] {{0, 1}}> ()
        steps = Constant <value = int64[2] {{1, 1}}> ()
        shape = Shape (x)
        all = Gather <axis = 0> (shape, one)
        less = Sub ({width}, one)
        n = Sub (all, less)
        r = Loop (n, t) <body = step (int64 i, bool cond) => (bool go, float[B,K,4] y) {{
            next = Add (i, {width})
            first = Unsqueeze (i, zero1)
            last = Unsqueeze (next, zero1)
            begins = Concat <axis = 0> ({begin}, first)
            ends = Concat <axis = 0> (far, last)
            c = Slice (x, begins, ends, axes, steps)
            y = Tanh (c)
            go = Identity (cond)
        }}>
    }}"""


@pytest.mark.parametrize("width", ["one", "two"])
@pytest.mark.parametrize("name", ENDS)
def test_an_axis_that_is_named_beside_and_taken_whole(name: str, width: str) -> None:
    before = model(column_loop(ENDS[name], width=width), 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    rng = np.random.default_rng(0)
    sizes = ((2, 2), (3, 7), (1, 5), (0, 3))
    given = [{"x": rng.standard_normal((b, n, 4)).astype(np.float32)} for b, n in sizes]
    assert same(before, found.model, *given) == len(given)
    said = [line for decision in found.decisions for line in decision.assumptions]
    assert any("10^9" in line for line in said) == (ENDS[name] == 10**9)


@pytest.mark.parametrize(("end", "begin"), [(10**9 - 1, "zero1"), (-1, "zero1"), (10**9, "one1")])
def test_an_axis_beside_that_is_cut_too(end: int, begin: str) -> None:
    before = model(column_loop(end, begin), 18)
    found = read(before)
    rng = np.random.default_rng(0)
    given = [{"x": rng.standard_normal((b, n, 4)).astype(np.float32)} for b, n in ((2, 2), (3, 7))]
    assert same(before, found.model, *given) == len(given)
