"""What a Loop of no trips yields has 0 rows, and 0 for each dimension that no type tells.

A sample whose Loop makes no trips then breaks the dimension that its declared type tells of the
others: what collects the samples takes them as they are.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter.backends import open_session
from rewriter.pipeline import rewrite

pytestmark = pytest.mark.quick

GRAPH = """<ir_version: 8, opset_import: ["" : 18]>
g (seq(float[?,2]) xs, float[2] b) => ({outputs}) {{
  {results} = SequenceMap (xs) <body = m (float[?,?] x) => (float[] {inner}) {{
    shape = Shape (x) zero = Constant <value = int64 {{0}}> ()
    n = Gather (shape, zero) go = Constant <value = bool {{1}}> ()
    last, rows = Loop (n, go, b) <body = step (int64 i, bool c, float[?] s)
      => (bool d, float[] t, float[] row) {{
      d = Identity (c) e = Gather (x, i) u = Add (s, e) t = Tanh (u) {row} }}>
    {more}
  }}>
  {behind}
}}"""
CASES = {
    "as they are": ("seq(float[]) y", "y", "rows", "", ""),
    "and what is computed of them": (
        "seq(float[]) y",
        "y",
        "z",
        "axis = Constant <value_ints = [0]> () most = ReduceSum (rows, axis) z = Neg (most)",
        "",
    ),
    "joined": (
        "float[M,K] y",
        "ys",
        "rows",
        "",
        "y = ConcatFromSequence <axis = 0> (ys)",
    ),
}


ROWS = {"proven": "row = Neg (t)", "declared": "row = Mul (e, e)"}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("strategy", ["fuse", "expand"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.long
def test_samples_of_no_trips(name: str, strategy: str, row: str) -> None:
    outputs, results, inner, more, behind = CASES[name]
    text = GRAPH.format(
        outputs=outputs, results=results, inner=inner, more=more, behind=behind, row=ROWS[row]
    )
    model = onnx.parser.parse_model(text)
    new = rewrite(model, strategy=strategy).model
    for lengths in ((2, 0, 3), (0, 2), (3, 1)):
        xs = [np.full((n, 2), i + 0.5, np.float32) for i, n in enumerate(lengths)]
        feeds = {"xs": xs, "b": np.float32([1, 2])}
        wanted = open_session(model, "onnxruntime").run(feeds)["y"]
        found = open_session(new, "onnxruntime").run(feeds)["y"]
        pairs = (
            [(wanted, found)]
            if isinstance(wanted, np.ndarray)
            else zip(wanted, found, strict=True)
        )
        for one, other in pairs:
            assert 0 in (one.size, other.size) or np.array_equal(one, other)


WRITE = """<ir_version: 8, opset_import: ["" : 18]>
g (float[N,D,E] x, float[?,?] b, float[?,?,?] begin, bool[N] p, int64[N] at) => (float[?,?,?] y)
  <bool go = {{1}}, int64[1] zero = {{0}}, int64[1] one = {{1}}, int64 first = {{0}}> {{
  shape = Shape (x) n = Gather (shape, first)
  y = Loop (n, go, begin) <body = step (int64 i, bool c, float[?,?,?] s)
    => (bool d, float[?,?,?] t) {{
    d = Identity (c) e = Gather (x, i) f = Gather (p, i) k = Gather (at, i)
    row = If (f) <then_branch = v () => (float[] g) {{ g = Identity (e) }},
      else_branch = w () => (float[] h) {{ h = Identity (b) }}>
    wide = Unsqueeze (row, zero) column = Unsqueeze (k, zero) places = Unsqueeze (column, one)
    {write} }}> }}"""
WRITES = {
    "last": "t = ScatterND (s, places, wide)",
    "added": 't = ScatterND <reduction = "add"> (s, places, wide)',
    "where a flag is true": """t = If (f) <
      then_branch = v2 () => (float[] g2) { g2 = ScatterND (s, places, wide) },
      else_branch = w2 () => (float[] h2) { h2 = Identity (s) }>""",
}


@pytest.mark.parametrize("name", WRITES)
def test_rows_of_two_shapes_are_written_by_no_iteration(name: str) -> None:
    model = onnx.parser.parse_model(WRITE.format(write=WRITES[name]))
    new = rewrite(model, strategy="fuse").model
    assert not any(node.op_type == "Loop" for node in new.graph.node)
    for count, (rows, columns) in ((0, (0, 2)), (0, (3, 2)), (3, (3, 2))):
        feeds = {
            "x": np.arange(count * rows * columns, dtype=np.float32).reshape(count, rows, columns),
            "b": np.ones((rows, columns), np.float32),
            "begin": np.zeros((2, rows, columns), np.float32),
            "p": np.arange(count) % 2 == 0,
            "at": np.arange(count) % 2,
        }
        wanted = open_session(model, "onnxruntime").run(feeds)["y"]
        found = open_session(new, "onnxruntime").run(feeds)["y"]
        np.testing.assert_array_equal(found, wanted, strict=True)


REST = """<ir_version: 8, opset_import: ["" : 18]>
g (float[N,3] x, float[3] b) => (float[?,?] y, float[3] t)
  <bool go = {1}, int64 first = {0}> {
  shape = Shape (x) n = Gather (shape, first)
  t, rows = Loop (n, go, b) <body = step (int64 i, bool c, float[?] s)
    => (bool d, float[] u, float[] row) {
    d = Identity (c) e = Gather (x, i) f = Exp (e) g = Sin (f) h = Add (s, g) u = Tanh (h)
    row = Identity (s) }>
  shape2 = Shape (rows) m = Gather (shape2, first)
  y = Loop (m, go) <body = step2 (int64 i2, bool c2) => (bool d2, float[3] z) {
    d2 = Identity (c2) r = Gather (rows, i2) z = Min (r, b) }> }"""


def test_what_is_left_of_a_loop_tells_proven_dimensions() -> None:
    model = onnx.parser.parse_model(REST)
    new = rewrite(model, strategy="fuse").model
    for count in (0, 2):
        feeds = {"x": np.ones((count, 3), np.float32), "b": np.float32([1, 2, 3])}
        wanted = open_session(model, "onnxruntime").run(feeds)
        found = open_session(new, "onnxruntime").run(feeds)
        np.testing.assert_array_equal(found["y"], wanted["y"])
        np.testing.assert_allclose(found["t"], wanted["t"], rtol=1e-5)
