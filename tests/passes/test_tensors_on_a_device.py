"""Samples that differ along several axes, on a device: batched where the map has no sequence."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from rewriter import backends

BODY = """
    a = Constant <value_ints = [0]> () b = Constant <value_ints = [2]> ()
    c = Constant <value_ints = [4]> () k = Constant <value_ints = [1, 2]> ()
    p = Slice (box, a, b) q = Slice (box, b, c) part = Slice (image, p, q, k)
    s = Constant <value_ints = [4, 4]> () y = Resize <mode = "linear", axes = [1, 2]> (part,,,s)"""
HEAD = '<ir_version: 9, opset_import: ["" : 18]> g'
TABLE = f"""{HEAD} (float[3,H,W] image, int64[N,4] table) => (float[N,3,4,4] out) {{
  first = Constant <value_ints = [0]> () size = Shape <start = 0, end = 1> (table)
  n = Squeeze (size, first) on = Constant <value = bool {{1}}> ()
  out = Loop (n, on) <body = one (int64 i, bool go) => (bool still, float[3,4,4] y) {{
    still = Identity (go) box = Gather (table, i) {BODY} }}> }}"""
LISTED = f"""{HEAD} (float[3,H,W] image, seq(int64[4]) boxes) => (float[N,3,4,4] out) {{
  parts = SequenceMap (boxes) <body = one (int64[4] box) => (float[3,4,4] y) {{ {BODY} }}>
  out = ConcatFromSequence <axis = 0, new_axis = 1> (parts) }}"""


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        pytest.param(TABLE, "cuda", False, id="rows on a device"),
        pytest.param(TABLE, "onnxruntime", True, id="rows on the host"),
        pytest.param(LISTED, "cuda", True, id="a list on a device"),
    ],
)
def test_whether_a_loop_is_left(text: str, target: str, expected: bool) -> None:
    report = rewriter.explain(onnx.parser.parse_model(text), target=target)  # type: ignore[arg-type]
    assert bool({"Loop", "Scan"} & set(report.after.by_type)) is expected


def test_the_results_are_equal() -> None:
    given = onnx.parser.parse_model(TABLE)
    after = rewriter.optimize(given, target="cuda")
    image = np.random.default_rng(0).random((3, 9, 11), np.float32)
    table = np.array([[0, 0, 9, 11], [2, 1, 5, 4], [8, 10, 9, 11]])
    for boxes in (table, table[:1], table[:0]):
        feeds = {"image": image, "table": boxes}
        wanted, found = (backends.run(one, feeds)["out"] for one in (given, after))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
