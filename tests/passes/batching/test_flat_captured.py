"""Graphs inside of a body that read samples which are flat outside."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter

pytestmark = pytest.mark.long

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[3,W,1]) xs, bool f, float[4,3] rows) => (seq(float) ys) {{
    ys = SequenceMap (xs) <body = one (float[?,?,?] x) => (float total) {{ {nodes}
      every = Constant <value_ints = [0, 1, 2]> () total = ReduceSum <keepdims = 0> (y, every) }}> }}"""
TOP = "k = Constant <value_ints = [0, 1, 2]> () top = ReduceMax <keepdims = 0> (x, k)"
NODES = {
    "If, one for all": """y = If (f) <then_branch = t () => (float[?,?,?] p) { p = Neg (x) },
        else_branch = e () => (float[?,?,?] q) { q = Identity (x) }>""",
    "If, by sample": f"""{TOP} zero = Constant <value_float = 0.0> ()
        many = Greater (top, zero)
        y = If (many) <then_branch = t () => (float[3,?,1] p) {{ p = Softmax <axis = 1> (x) }},
        else_branch = e () => (float[3,?,1] q) {{ q = Identity (x) }}>""",
    "Loop": """n = Constant <value = int64 {2}> () go = Constant <value = bool {1}> ()
        start = Constant <value_float = 1.0> ()
        s = Loop (n, go, start) <body = l (int64 i, bool c, float was) => (bool d, float now) {
          d = Identity (c) k = Constant <value_ints = [0, 1, 2]> ()
          t = ReduceMax <keepdims = 0> (x, k) h = Mul (was, t) now = Tanh (h) }>
        y = Mul (x, s)""",
    "Scan": """start = Constant <value = float[3] {1.0, 2.0, 3.0}> ()
        s, all = Scan <num_scan_inputs = 1, body = l (float[3] was, float[3] row)
          => (float[3] now, float[3,?,1] z) {
          k = Constant <value_ints = [1, 2]> () t = ReduceMax <keepdims = 0> (x, k)
          h = Mul (was, t) g = Add (h, row) now = Tanh (g) z = Neg (x) }> (start, rows)
        k2 = Constant <value_ints = [0]> () y = ReduceSum <keepdims = 0> (all, k2)""",
}
OPTIONS = {
    "fuse": {"strategy": "fuse"},
    "auto": {"strategy": "auto"},
    "no branches": {"strategy": "fuse", "target": "openvino"},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", NODES)
def test_a_graph_reads_the_samples(name: str, options: str) -> None:
    model = onnx.parser.parse_model(TEXT.format(nodes=NODES[name]))
    after = rewriter.optimize(model, tensor_io=True, **OPTIONS[options])
    rng = np.random.default_rng(0)
    for widths in ([2, 5, 1], [4], [3, 3]):
        xs = [rng.standard_normal((3, width, 1)).astype(np.float32) for width in widths]
        feeds = {"xs": xs, "f": np.array(True), "rows": np.ones((4, 3), np.float32)}
        check = rewriter.validate(model, after, inputs=feeds)
        assert check.ok, check
