"""Loops that go on by more than one row at a time, as long as there is room."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import model, prove, read, same

LENGTHS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 64)
TEXT = """g (float[N,2] x) => (float[M,2] y) {{
    zero = Constant <value_int = 0> ()  axis = Constant <value_ints = [0]> ()
    width = Constant <value_int = {width}> ()  step = Constant <value_int = {step}> ()
    always = Constant <value = bool {{1}}> ()
    shape = Shape (x)  n = Gather (shape, zero)
    first = {op_type} (width, n)
    last, y = Loop (, {begin}, zero) <body = b (int64 t, bool on, int64 i)
        => (bool go, int64 i2, float[2] r) {{
        end = Add (i, width)
        a = Unsqueeze (i, axis)  o = Unsqueeze (end, axis)
        e = Slice (x, a, o, axis)  u = Tanh (e)
        r = ReduceMax <axes = [0], keepdims = 0> (u)
        i2 = Add (i, step)
        next = Add (i2, width)  go = {op_type} (next, n)
    }}>
}}"""


def feed(length: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(length)
    return {"x": rng.standard_normal((length, 2)).astype(np.float32)}


@pytest.mark.parametrize("op_type", ["LessOrEqual", "Less"])
@pytest.mark.parametrize(("width", "step"), [(4, 3), (2, 2), (1, 5), (4, 1), (3, 4), (5, 2)])
def test_windows_end_without_a_loop(width: int, step: int, op_type: str) -> None:
    text = TEXT.format(width=width, step=step, op_type=op_type, begin="first")
    prove(text, *map(feed, LENGTHS))


@pytest.mark.parametrize("step", [1, 3])
def test_a_first_iteration_that_always_runs_does_so(step: int) -> None:
    text = TEXT.format(width=2, step=step, op_type="LessOrEqual", begin="always")
    before = model(text)
    found = read(before)
    lengths = LENGTHS[1:]
    assert same(before, found.model, *map(feed, lengths)) == len(lengths)


CHUNKS = """g (float[N,2] x) => (float[M,2] y) {{
    zero = Constant <value_int = 0> ()  axis = Constant <value_ints = [0]> ()
    width = Constant <value_int = {width}> ()
    shape = Shape (x)  n = Gather (shape, zero)
    first = Less (zero, n)
    none = SequenceEmpty <dtype = 1> ()
    last, all = Loop (, first, zero, none) <body = b (int64 t, bool on, int64 i, seq(float[R,2]) s)
        => (bool go, int64 end, seq(float[R2,2]) s2) {{
        end = Add (i, width)
        a = Unsqueeze (i, axis)  o = Unsqueeze (end, axis)
        e = Slice (x, a, o, axis)  u = Softmax <axis = 0> (e)
        s2 = SequenceInsert (s, u)
        go = Less (end, n)
    }}>
    y = ConcatFromSequence <axis = 0> (all)
}}"""


@pytest.mark.parametrize("width", [1, 3, 4])
def test_chunks_the_last_of_which_is_shorter_end_without_a_loop(width: int) -> None:
    prove(CHUNKS.format(width=width), *map(feed, LENGTHS[1:]))
