"""Loops that select rows by a mask, as detection and point cloud models are exported."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.passes.loops import prove

HEAD = """g (float[N,8] x, float[N,8] w) => ({result} ys) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    zero1 = Constant <value = int64[1] {{0}}> ()
    one1 = Constant <value = int64[1] {{1}}> ()
    three1 = Constant <value = int64[1] {{3}}> ()
    minus1 = Constant <value = int64[1] {{-1}}> ()
    z = Constant <value = float {{0.}}> ()
    three = Constant <value = float[3] {{7., 8., 9.}}> ()
    numbers = Constant <value = int64[3] {{0, 1, 2}}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, {row} y) {{
        go = Identity (c)
        e = Gather <axis = 0> (x, i)
        f = Gather <axis = 0> (w, i)
        m = Greater (e, z)
        {body}
    }}>
}}"""
TWICE = """n1 = NonZero (m)  p1 = Transpose <perm = [1, 0]> (n1)  g1 = GatherND (e, p1)
        n2 = NonZero (m)  p2 = Transpose <perm = [1, 0]> (n2)  g2 = GatherND (f, p2)"""
FLAT = """n1 = NonZero (m)  p1 = Transpose <perm = [1, 0]> (n1)  h = Shape (p1)
        h0 = Slice (h, zero1, zero1, zero1)  h1 = Concat <axis = 0> (h0, minus1)
        q = Reshape (p1, h1)  some = Slice (q, zero1, three1, zero1)
        s = Shape (some)"""
CASES = {
    "two_selections_by_one_mask": (
        f"{TWICE}  a = Mul (g1, g2)  y = ReduceSum <keepdims = 0> (a, zero1)",
        "float",
    ),
    "rows_of_one_mask_side_by_side": (
        f"""{TWICE}  a = Unsqueeze (g1, one1)  b = Unsqueeze (g2, one1)
        d = Concat <axis = 1> (a, b)  y = ReduceSum <keepdims = 0> (d, zero1)""",
        "float[2]",
    ),
    "the_first_three_written_to_a_row": (
        f"""{FLAT}  part = Slice (three, zero1, s, zero1)  like = Shape (part)
        picked = Gather <axis = 0> (f, some)  u = Expand (picked, like)
        where = Slice (numbers, zero1, s, zero1)  places = Unsqueeze (where, minus1)
        y = ScatterND (three, places, u)""",
        "float[3]",
    ),
}


def feeds(length: int) -> Mapping[str, np.ndarray]:
    """Make the inputs for a number of iterations."""
    rng = np.random.default_rng(length)
    x, w = rng.standard_normal((2, length, 8)).astype(np.float32)
    if length > 1:
        x[1] = -1
    return {"x": x, "w": w}


@pytest.mark.parametrize("name", CASES)
def test_what_a_mask_selects_ends_without_a_loop(name: str) -> None:
    body, row = CASES[name]
    dtype, _, dims = row.partition("[")
    text = HEAD.format(body=body, row=row, result=f"{dtype}[T,{dims}" if dims else f"{dtype}[T]")
    prove(text, *map(feeds, (0, 1, 2, 7, 64)))


COLUMNS = """g (float[T,6] x, int64[K] bounds) => (float[N] ys) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    zero1 = Constant <value = int64[1] {0}> ()
    one1 = Constant <value = int64[1] {1}> ()
    two1 = Constant <value = int64[1] {2}> ()
    h = Shape (x)
    width = Gather <axis = 0> (h, one1)
    half = Div (width, two1)
    left = Slice (x, zero1, half, one1)
    right = Slice (x, half, width, one1)
    shape = Shape (bounds)
    all = Gather <axis = 0> (shape, zero)
    n = Sub (all, one)
    ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float y) {
        go = Identity (c)
        j = Add (i, one)
        from = Gather <axis = 0> (bounds, i)
        to = Gather <axis = 0> (bounds, j)
        a = Unsqueeze (from, zero1)
        b = Unsqueeze (to, zero1)
        q = Slice (left, a, b, zero1)
        k = Slice (right, a, b, zero1)
        p = Mul (q, k)
        y = ReduceSum <keepdims = 0> (p)
    }>
}"""


def test_columns_of_one_tensor_are_equally_long() -> None:
    """No If asks whether they are: a Slice of other columns has the same rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 6)).astype(np.float32)
    some = [np.array([0, 2, 2, 9]), np.array([4]), np.array([1, 3, 8, 9, 9])]
    found = prove(COLUMNS, *({"x": x, "bounds": one} for one in some))
    assert all("equally long tensors" not in d.form for d in found.decisions)
