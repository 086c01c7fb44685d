"""Products and sums of all shifts of a tensor, as TensorFlow's exporter writes ``cumprod``."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter.backends import open_session
from tests.passes.loops import model, read

TEXT = """g (float[N,3] x) => (float[?,?] y) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64[1] {{0}}> ()
    one = Constant <value = int64[1] {{1}}> ()
    two = Constant <value = int64[1] {{2}}> ()
    minus = Constant <value = int64[1] {{-1}}> ()
    three = Constant <value = int64[1] {{3}}> ()
    far = Constant <value = int64[1] {{9223372036854775807}}> ()
    rows = Shape <start = 0, end = 1> (x)
    less = Sub (rows, one)
    {before}
    count = Squeeze ({count})
    y = Loop (count, t, {first}) <body = step (int64 i, bool c, float[?,?] s)
        => (bool d, float[?,?] s2) {{
        fill = Constant <value = float {{{fill}}}> ()
        place = Unsqueeze (i, zero)
        by = Add (place, {start})
        back = Neg (by)
        {nodes}
        s2 = {op} (s, moved)
        d = Identity (c)
    }}>
}}"""
FORWARD = "part = Slice ({0}, zero, back, zero)  pads = Concat <axis = 0> (by, zero, zero, zero)"
BACK = "part = Slice ({0}, by, far, zero)  pads = Concat <axis = 0> (zero, zero, by, zero)"
MOVED = "  moved = Pad (part, pads, fill)"
ALONG = (
    "part = Slice (x, zero, back, one)  pads = Concat <axis = 0> (zero, by, zero, zero)" + MOVED
)
PLAIN = {"before": "", "count": "less", "first": "x", "fill": "1.0", "start": "one", "op": "Mul"}
CASES = {
    "products": {"nodes": FORWARD.format("x") + MOVED},
    "products from the end": {
        "before": "more = Add (rows, one)",
        "nodes": BACK.format("x").replace("far", "more") + MOVED,
    },
    "products of columns": {"count": "two", "nodes": ALONG},
    "sums": {"fill": "0.0", "op": "Add", "nodes": FORWARD.format("x") + MOVED},
    "sums from the end": {
        "before": "more = Add (rows, one)",
        "fill": "0.0",
        "op": "Add",
        "nodes": BACK.format("x").replace("far", "more") + MOVED,
    },
    "products of all but the last": {
        "before": "w = Slice (x, zero, minus, zero)  fewer = Sub (less, one)",
        "count": "fewer",
        "first": "w",
        "nodes": FORWARD.format("w") + MOVED,
    },
    "products of all but the first": {
        "before": "w = Slice (x, one, far, zero)  fewer = Sub (less, one)",
        "count": "fewer",
        "first": "w",
        "nodes": BACK.format("w").replace("far", "rows") + MOVED,
    },
}


def graph(parts: dict[str, str]) -> str:
    return TEXT.format(**{**PLAIN, **parts})


def feed(length: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(length).normal(size=(length, 3)).astype(np.float32)}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_they_are_running_products_and_sums(name: str) -> None:
    before = model(graph(CASES[name]))
    found = read(before)
    assert found.loops == 0
    for length in (0, 1, 2, 7, 70):
        expected, made = (open_session(m).run(feed(length))["y"] for m in (before, found.model))
        np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


NEAR = {
    "another number for what is padded": {"fill": "2.0", "nodes": FORWARD.format("x") + MOVED},
    "shifts that begin with two": {"start": "two", "nodes": FORWARD.format("x") + MOVED},
    "fewer shifts": {
        "before": "fewer = Sub (less, one)",
        "count": "fewer",
        "nodes": FORWARD.format("x") + MOVED,
    },
    "shifts of what it has become": {"nodes": FORWARD.format("s") + MOVED},
    "shifts of another tensor": {
        "before": "w = Relu (x)",
        "nodes": FORWARD.format("w") + MOVED,
    },
    "padded at the other end": {
        "nodes": FORWARD.format("x").replace("by, zero, zero, zero", "zero, zero, by, zero")
        + MOVED
    },
    "along another axis": {"count": "less", "nodes": ALONG},
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", NEAR)
def test_near_misses_compute_what_they_did(name: str) -> None:
    before = model(graph(NEAR[name]))
    found = read(before)
    assert not any("shifts" in note for d in found.decisions for note in d.notes)
    lengths = (1, 2, 3) if name == "along another axis" else (1, 2, 7)
    for length in lengths:
        expected, made = (open_session(m).run(feed(length))["y"] for m in (before, found.model))
        np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)
