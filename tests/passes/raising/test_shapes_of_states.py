"""Loops that read shapes that what they carry decides."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from passes.carried.pattern import covers
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
