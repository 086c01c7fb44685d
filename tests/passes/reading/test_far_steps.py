"""Numbers that a Slice in steps of 10^9 reads, as TensorFlow's exporter writes ``x[i]``."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import kept, prove, rows

TEXT = """g (float[N] x, int32[K] offsets) => (float[M] y) {{
    axis = Constant <value = int64[1] {{0}}> ()  yes = Constant <value = bool {{1}}> ()
    axis32 = Constant <value = int32[1] {{0}}> ()  least = Constant <value = float[1] {{1e9}}> ()
    far = Constant <value = int32[1] {{{step}}}> ()  one = Constant <value = int32 {{1}}> ()
    zero = Constant <value = int32 {{0}}> ()  bottom = Constant <value = int32 {{-1000000000}}> ()
    shape = Shape (offsets)  length64 = Squeeze (shape, axis)  length = Cast <to = 6> (length64)
    end = Sub (length, {less})  numbers = Range ({first}, end, one)
    steps = Shape (numbers)  count = Squeeze (steps, axis)
    y = Loop (count, yes) <body = b (int64 t, bool on) => (bool on2, float r) {{
        i = Gather (numbers, t)  j = Add (i, one)
        {reads}
        c = Slice (x, p, q, axis32)  r = ReduceSum <keepdims = 0> (c)
        on2 = Identity (on)
    }}>
}}"""
READ = """{to}v = Unsqueeze ({at}, axis)  {to}e = Add ({at}, one)  {to}w = Unsqueeze ({to}e, axis)
        {to}f = Cast <to = 1> ({to}w)  {to}m = Max ({to}f, least)  {to}n = Cast <to = 6> ({to}m)
        {to} = Slice (offsets, {to}v, {to}n, axis32, far)"""
BOTH = READ.format(to="p", at="i") + READ.format(to="q", at="j")
ENDS = ([0], [0, 3], [0, 2, 2, 7], [0, 3, 5, 6, 9, 9])


def feed(offsets: list[int]) -> dict[str, np.ndarray]:
    return {"x": rows(max(offsets)), "offsets": np.array(offsets, np.int32)}


def test_bounds_are_read_in_far_steps() -> None:
    text = TEXT.format(step=1000000000, less="one", first="zero", reads=BOTH)
    found = prove(text, *map(feed, ENDS))
    said = [said for d in found.decisions for said in d.assumptions]
    assert any("no dimension is larger than 10^9" in one for one in said)


@pytest.mark.parametrize(
    ("step", "less", "first"),
    [
        (1000000000, "zero", "zero"),  # the last iteration reads behind the end
        (1000000000, "one", "bottom"),  # the first ones read from the end
        (2, "one", "zero"),  # more than one number is read
    ],
)
def test_what_may_read_another_number_stays(step: int, less: str, first: str) -> None:
    kept(TEXT.format(step=step, less=less, first=first, reads=BOTH))
