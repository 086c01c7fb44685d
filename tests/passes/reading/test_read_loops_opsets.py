"""Loops of opsets before 14, where a 0 in the target of Reshape is a copy; and before 16.

There ScatterElements does not add, by which rows of each sample are counted.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import kept, prove, rows

CONVOLVED = """g (float[B,4,2,3] w, float[1,2,5] x) => (float[M,1,4,3] ys) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    shape = Shape (w)
    n = Gather <axis = 0> (shape, zero)
    ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[1,4,3] y) {
        e = Gather <axis = 0> (w, i)
        y = Conv (x, e)
        go = Identity (t)
    }>
}"""


@pytest.mark.parametrize("opset", [11, 12, 13, 14])
def test_filters_of_no_samples(opset: int) -> None:
    feeds = [{"w": rows(n, 4, 2, 3), "x": rows(1, 2, 5)} for n in (0, 1, 3)]
    prove(CONVOLVED, *feeds, opset=opset)


@pytest.mark.parametrize("opset", [11, 13])
def test_filters_of_an_element_type_that_onnxruntime_does_not_pad(opset: int) -> None:
    feeds = [
        {"w": rows(n, 4, 2, 3).astype(np.float16), "x": rows(1, 2, 5).astype(np.float16)}
        for n in (0, 1, 3)
    ]
    prove(CONVOLVED.replace("float[", "float16["), *feeds, opset=opset)


CUT = """g (float[B,C] x) => (float[M,3] ys) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[3] y) {
        e = Gather <axis = 0> (x, i)
        first, rest = Split <axis = 0, split = [1, 3]> (e)
        y = Mul (first, rest)
        go = Identity (t)
    }>
}"""


@pytest.mark.parametrize("opset", [11, 12])
def test_parts_of_no_samples_of_no_size(opset: int) -> None:
    """What is cut has no places to cut, which the Loop as given does not notice."""
    prove(CUT, *({"x": rows(*size)} for size in ((0, 0), (0, 4), (1, 4), (3, 4))), opset=opset)


PICKED = """g (float[B,6,4] x, float[B,6] s, int64[B] k, bool[B,6] f) => (float[M] ys) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    shape = Shape (k)
    n = Gather <axis = 0> (shape, zero)
    ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float y) {{
        e = Gather <axis = 0> (x, i)
        v = Gather <axis = 0> (s, i)
        m = Gather <axis = 0> (k, i)
        b = Gather <axis = 0> (f, i)
        {nodes}
        half = Constant <value = float {{0.5}}> ()
        all = ReduceSum <keepdims = 0> (rows)
        y = Mul (all, half)
        go = Identity (t)
    }}>
}}"""
PICKS = {
    "Compress": "rows = Compress <axis = 0> (e, b)",
    "NonZero": """one = Constant <value = int64[1] {1}> ()  size = Constant <value = int64[1] {-1}> ()
        found = NonZero (b)  at = Reshape (found, size)  rows = Gather <axis = 0> (e, at)""",
    "NonMaxSuppression": """front = Constant <value = int64[3] {1, 6, 4}> ()
        plane = Constant <value = int64[3] {1, 1, 6}> ()
        boxes = Reshape (e, front)  scores = Reshape (v, plane)
        most = Constant <value = int64 {3}> ()  over = Constant <value = float {0.4}> ()
        found = NonMaxSuppression (boxes, scores, most, over)
        last = Constant <value = int64 {2}> ()
        at = Gather <axis = 1> (found, last)  rows = Gather <axis = 0> (v, at)""",
    "Range": """zero2 = Constant <value = int64 {0}> ()  two = Constant <value = int64 {2}> ()
        found = Range (zero2, m, two)  rows = Gather <axis = 0> (e, found)""",
    "Range of floats": """zero2 = Constant <value = float {0}> ()
        two = Constant <value = float {1.5}> ()
        end = Cast <to = 1> (m)  rows = Range (zero2, end, two)""",
}


@pytest.mark.sampled
@pytest.mark.parametrize("opset", [11, 12, 15])
@pytest.mark.parametrize("name", PICKS)
def test_rows_are_counted_where_nothing_adds(name: str, opset: int) -> None:
    text = PICKED.format(nodes=PICKS[name])
    rng = np.random.default_rng(1)
    feeds = []
    for n in (0, 1, 3, 7):
        corners = np.sort(rng.random((n, 6, 2, 2), np.float32), axis=2).reshape(n, 6, 4)
        flags = rng.random((n, 6)) < 0.4
        flags[::2] = False
        sizes = rng.integers(0, 6, n)
        feeds.append({"x": corners, "s": rng.random((n, 6), np.float32), "k": sizes, "f": flags})
    prove(text, *feeds, opset=opset)


RESIZED = """g (float[B,3,4,5] x) => (float[M,3,?,?] ys) <float[0] nothing = {{}}> {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    ys = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[3,?,?] y) {{
        e = Gather <axis = 0> (x, i)
        none = Identity (nothing)
        {nodes}
        go = Identity (t)
    }}>
}}"""
RESIZES = {
    "to sizes": """sizes = Constant <value = int64[3] {3, 6, 7}> ()
        y = Resize <mode = "linear"> (e, none, none, sizes)""",
    "by scales": """scales = Constant <value = float[3] {1.0, 2.0, 0.5}> ()
        y = Resize <mode = "nearest"> (e, none, scales)""",
    "of four axes": """front = Constant <value = int64[4] {1, 3, 4, 5}> ()
        w = Reshape (e, front)  sizes = Constant <value = int64[4] {1, 3, 8, 3}> ()
        big = Resize <mode = "linear"> (w, none, none, sizes)
        back = Constant <value = int64[3] {3, 8, 3}> ()  y = Reshape (big, back)""",
}


@pytest.mark.parametrize("opset", [11, 12])
@pytest.mark.parametrize("name", RESIZES)
def test_resize_has_all_inputs_that_its_opset_asks_for(name: str, opset: int) -> None:
    text = RESIZED.format(nodes=RESIZES[name])
    prove(text, *({"x": rows(n, 3, 4, 5)} for n in (1, 3)), opset=opset)


CACHED = """g (float[N,2,4] x, float[N,2,4] q) => (float[M,2,1,4] ys) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    none = Constant <value = int64[3] {2, 0, 4}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    begin = ConstantOfShape (none)
    last, ys = Loop (n, t, begin) <body = step (int64 i, bool c, float[2,K,4] s)
        => (bool go, float[2,K2,4] s2, float[2,1,4] y) {
        to = Constant <value = int64[3] {2, 1, 4}> ()
        e = Gather <axis = 0> (x, i)
        row = Reshape (e, to)
        s2 = Concat <axis = 1> (s, row)
        f = Gather <axis = 0> (q, i)
        a = Reshape (f, to)
        turned = Transpose <perm = [0, 2, 1]> (s2)
        b = MatMul (a, turned)
        w = Softmax <axis = 2> (b)
        y = MatMul (w, s2)
        go = Identity (t)
    }>
}"""


@pytest.mark.quick
@pytest.mark.parametrize("opset", [13, 14])
def test_a_cache_of_keys_needs_no_newer_opset(opset: int) -> None:
    feeds = [{"x": rows(n, 2, 4), "q": rows(n, 2, 4, seed=1)} for n in (1, 2, 7)]
    prove(CACHED, *feeds, opset=opset)


JOINED = """g (float[N,3] x, int64[N] k, float[5,3] b) => (float[5,3] r) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    one = Constant <value = int64[1] {{1}}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    r = Loop (n, t, b) <body = step (int64 i, bool c, float[5,3] s)
        => (bool go, float[5,3] s2) {{
        e = Gather <axis = 0> (x, i)
        j = Gather <axis = 0> (k, i)
        stood = Gather <axis = 0> (s, j)
        new = {join} (stood, e)
        to = Constant <value = int64[2] {{1, 1}}> ()
        at = Reshape (j, to)
        across = Constant <value = int64[2] {{1, 3}}> ()
        row = Reshape (new, across)
        s2 = ScatterND (s, at, row)
        go = Identity (t)
    }}>
}}"""


@pytest.mark.quick
@pytest.mark.parametrize("join", ["Add", "Max"])
def test_the_operator_that_an_old_opset_lacks_is_named(join: str) -> None:
    (decision,) = kept(JOINED.format(join=join), opset=14).decisions
    (reason,) = decision.reasons
    assert reason.detail == "ScatterElements has no attribute 'reduction' at opset 14"
