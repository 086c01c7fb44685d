"""Rows that are repeated as often as a number says, as PyTorch's exporter writes ``expand``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.loops import model, read, same

TEXT = """g (float[N,4] x, int64[N] d) => (float[M,4] r) {
        t = Constant <value = bool {1}> ()
        zero = Constant <value = int64 {0}> ()
        zero1 = Constant <value = int64[1] {0}> ()
        far = Constant <value = int64[1] {-1}> ()
        minus = Constant <value = int64 {-1}> ()
        ones2 = Constant <value = int64[2] {1, 1}> ()
        begin = Slice (x, zero1, zero1)
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        r = Loop (n, t, begin) <body = step (int64 i, bool cond, float[R,4] s)
            => (bool go, float[Q,4] s2) {
            e = Gather <axis = 0> (x, i)
            row = Unsqueeze (e, zero1)
            di = Gather <axis = 0> (d, i)
            d1 = Unsqueeze (di, zero1)
            sizes = Concat <axis = 0> (SIZES)
            all = Mul (ones2, minus)
            is_kept = Equal (sizes, all)
            target = Where (is_kept, ones2, sizes)
            rows = Expand (row, target)
            s2 = Concat <axis = 0> (s, rows)
            go = Identity (cond)
        }>
    }"""


def feeds(*numbers: int) -> Mapping[str, np.ndarray]:
    """Make rows, and how often each is repeated."""
    rows = np.random.default_rng(len(numbers)).standard_normal((len(numbers), 4))
    return {"x": rows.astype(np.float32), "d": np.array(numbers, np.int64)}


FEEDS = [feeds(), feeds(3), feeds(0, 2), feeds(1, 0, 0, 4, 2, 1, 3), feeds(*[2, 0, 1, 3] * 16)]


@pytest.mark.parametrize("target", ["onnxruntime", "portable"])
def test_rows_that_are_expanded_end_without_a_loop(target: str) -> None:
    before = model(TEXT.replace("SIZES", "d1, far"))
    found = rewrite(before, target=target)
    assert not {"Loop", "Scan"} & {node.op_type for node in found.model.graph.node}
    assert same(before, found.model, *FEEDS) == len(FEEDS)


def test_a_number_of_minus_one_keeps_the_size() -> None:
    before = model(TEXT.replace("SIZES", "d1, far"))
    found = read(before)
    assert found.loops == 0
    assert same(before, found.model, feeds(-1, 2, -1)) == 1


def test_two_sizes_that_differ_keep_the_loop() -> None:
    before = model(TEXT.replace("SIZES", "d1, d1"))
    found = read(before)
    assert found.loops >= 1
    assert same(before, found.model, feeds(4, 4)) == 1
