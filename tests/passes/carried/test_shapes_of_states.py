"""Loops that read shapes that what they carry decides."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from passes.carried.joined import covers
from passes.typing import type_values
from tests.passes.loops import model, read, same

TEXT = """g (float[9] b, int64[N] k) => (int64[1] r, float[9] w, int64[M,1] ys) {{
    t = Constant <value = bool {{1}}> () zero1 = Constant <value = int64[1] {{0}}> ()
    far = Constant <value = int64[1] {{9223372036854775807}}> ()
    n = Size (k)
    r, w, ys = Loop (n, t, {begin}, b) <body = step (int64 i, bool c, {kind} s, float[9] u)
      => (bool go, {kind} s2, float[9] u2, int64[1] y) {{
        kk = Gather <axis = 0> (k, i) e = Unsqueeze (kk, zero1) {nodes} go = Identity (c) }}> }}"""
CASES = {
    "a slice from where a sum is": (
        "zero1",
        "int64[1]",
        "s2 = Add (s, e) u2 = Add (u, b) part = Slice (b, s, far, zero1) y = Shape (part)",
    ),
    "a slice of one state from where another is": (
        "zero1",
        "int64[1]",
        "s2 = Add (s, e) u2 = Add (u, b) part = Slice (u, s, far, zero1) y = Shape (part)",
    ),
    "a slice to where a sum is": (
        "zero1",
        "int64[1]",
        "s2 = Add (s, e) u2 = Add (u, b) part = Slice (b, zero1, s, zero1) y = Shape (part)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_shape_of_what_is_read(name: str) -> None:
    begin, kind, nodes = CASES[name]
    before = model(TEXT.format(begin=begin, kind=kind, nodes=nodes), opset=18)
    rng = np.random.default_rng(0)
    feeds = [{"b": np.ones(9, np.float32), "k": rng.integers(0, 4, n)} for n in (0, 1, 2, 5)]
    found = read(before)
    assert same(before, found.model, *feeds) == len(feeds)
    assert not found.loops, found.details


READS_BOTH = [
    "k = Cast <to = 1> (c) h = Shape (k) y = Expand (k, h)",
    "k = Cast <to = 1> (c) m = Neg (k) h = Shape (k) y = Expand (m, h)",
    "k = Cast <to = 1> (c) j = Identity (k) h = Shape (j) y = Expand (k, h)",
    "k = Cast <to = 1> (c) h = Shape (k) z = ConstantOfShape (h) y = Add (z, k)",
    "h = Shape (c) k = Cast <to = 1> (c) y = Expand (k, h)",
    "h = Shape (c) z = ConstantOfShape (h) k = Cast <to = 1> (c) y = Add (k, z)",
]


@pytest.mark.parametrize("joins", ["Add", "Max"])
@pytest.mark.parametrize("reads", READS_BOTH)
def test_what_is_read_for_its_shape_and_for_itself(reads: str, joins: str) -> None:
    text = f"""g (int64[N,2] x, int64[2] v) => (int64[2] f, float[N,2] ys) {{
        f, ys = Scan <num_scan_inputs = 1, body = b (int64[2] c, int64[2] e)
            => (int64[2] n, float[2] y) {{ {reads} n = {joins} (c, e) }}> (v, x) }}"""
    before = model(text, opset=18)
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.integers(0, 9, (n, 2)), "v": np.array([3, 4])} for n in (1, 2, 7)]
    found = read(before)
    assert same(before, found.model, *feeds) == len(feeds)
    assert not found.loops, found.details


@pytest.mark.parametrize(
    ("dims", "fits"),
    [
        (("x.0", 3), True),
        ((3,), True),
        ((1, 3), True),
        ((1, 1), True),
        ((), True),
        ((4,), False),
        (("M", 3), False),
        ((2, 4, 3), False),
        ((1, "x.0", 3), False),
        (None, False),
    ],
    ids=str,
)
def test_what_a_tensor_covers(dims: tuple[int | str, ...] | None, fits: bool) -> None:
    graph = ir.from_onnx_text("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[N,3] x, float[] w) => (float[] y) { y = Add (x, w) }""")
    typing = type_values(graph, proven=True)
    x, w = graph.graph.inputs
    assert covers(typing, x, dims) is fits
    assert not covers(typing, w, dims)


COUNTED = """g (float[N,4] x) => (float[N,4] r) {{
    zero = Constant <value = int64 {{0}}> () one = Constant <value = int64 {{1}}> ()
    flat = Constant <value = int64[1] {{-1}}> () fill = Constant <value = float {{0}}> ()
    one1 = Constant <value = int64[1] {{1}}> () far = Constant <value = int64[1] {{9999}}> ()
    zero1 = Constant <value = int64[1] {{0}}> ()
    shape = Shape (x) begin = Expand (fill, shape)
    size = Shape <start = 0, end = 1> (begin) n = Squeeze (size) more = Less (zero, n)
    last, r = Loop (, more, zero, begin) <body = step (int64 trip, bool c, int64 i, float[N,4] s)
      => (bool go, int64 i2, float[N,4] s2) {{
        at = Reshape (i, flat) place = Unsqueeze (at, flat) row = Gather <axis = 0> (x, at)
        {nodes}
        i2 = Add (i, one) size2 = Shape <start = 0, end = 1> ({asked}) n2 = Squeeze (size2)
        go = Less (i2, n2) }}> }}"""
BY_ITS_SHAPE = {
    "rows that are written, asked behind": ("y = Tanh (row) s2 = ScatterND (s, place, y)", "s2"),
    "rows that are written, asked in front": ("y = Tanh (row) s2 = ScatterND (s, place, y)", "s"),
    "sums": ("s2 = Add (s, row)", "s2"),
}


@pytest.mark.parametrize("name", BY_ITS_SHAPE)
def test_as_many_iterations_as_a_carried_tensor_has_rows(name: str) -> None:
    nodes, asked = BY_ITS_SHAPE[name]
    before = model(COUNTED.format(nodes=nodes, asked=asked), opset=18)
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((n, 4)).astype(np.float32)} for n in (0, 1, 2, 7)]
    found = read(before)
    assert same(before, found.model, *feeds) == len(feeds)
    assert not found.loops, found.details


def test_a_carried_tensor_that_loses_rows_decides_how_often_it_runs() -> None:
    nodes = "t = Slice (s, one1, far, zero1) s2 = Add (t, row)"
    text = COUNTED.format(nodes=nodes, asked="s2").replace("float[N,4] s", "float[M,4] s")
    before = model(text.replace("float[N,4] r", "float[K,4] r"), opset=18)
    feeds = [{"x": np.ones((n, 4), np.float32)} for n in (0, 1, 2, 7)]
    found = read(before)
    assert same(before, found.model, *feeds) == len(feeds)
    assert found.codes == ["early-exit"]


CHOSEN = """g (float[N,R] x) => (float[R] most, int64[M] who, int64[T,1] ys) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    one1 = Constant <value = int64[1] {{1}}> ()
    axes = Constant <value = int64[1] {{0}}> ()
    shape = Shape <start = 0, end = 1> (x)
    n = Squeeze (shape)
    b = ReduceSum <keepdims = 0> (x, axes)
    wide = Shape (b)
    none = ConstantOfShape <value = int64[1] {{-1}}> ({begin})
    most, who, ys = Loop (n, t, b, none) <body = step (int64 i, bool c, float[R] s, int64[K] u)
      => (bool go, float[R] s2, int64[K] u2, int64[1] y) {{
        go = Identity (c)
        e = Gather <axis = 0> (x, i)
        l = Greater (e, s)
        s2 = Where (l, e, s)
        y = Shape (u)
        k = Expand (i, y)
        u2 = Where (l, k, u) }}> }}"""


@pytest.mark.parametrize(("begin", "loops"), [("wide", 0), ("one1", 1)])
def test_the_shape_of_what_is_chosen(begin: str, loops: int) -> None:
    """Numbers of the best so far; what begins with one place grows in the first iteration."""
    before = model(CHOSEN.format(begin=begin), opset=18)
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((n, 5)).astype(np.float32)} for n in (0, 1, 2, 7)]
    found = read(before)
    assert same(before, found.model, *feeds) == len(feeds)
    assert found.loops == loops, found.details
