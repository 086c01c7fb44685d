"""What no output of an If needs is not copied with it: the body may not be computed for it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.options import Strategy

MODEL = """<ir_version: 10, opset_import: ["": 18]>
g (float[N,3] x, float[N] h, bool u, bool p) => (float[M] e, float[M] f) {{
    z = Constant <value_int = 0> () sh = Shape (x) n = Gather (sh, z)
    e, f = Loop (n, p) <body = l (int64 i, bool c) => (bool d, float e0, float f0) {{
        d = Identity (c) r = Gather (x, i) a = Abs (r) fl = Gather (h, i) cc = Cast <to = 9> (fl)
        e0, f0 = If ({flag}) <then_branch = t () => (float t1, float t2) {{ {nodes} }},
            else_branch = o () => (float o1, float o2) {{
                o1 = ReduceMax <keepdims = 0> (r) o2 = Neg (o1) }}> }}> }}"""
INNER = """q1, q2 = If ({}) <then_branch = tt () => (float z1, float z2) {{
    z1 = ReduceSum <keepdims = 0> (r) z2 = ReduceMax <keepdims = 0> (a) }},
    else_branch = te () => (float y1, float y2) {{
    y1 = ReduceMax <keepdims = 0> (r) y2 = ReduceMin <keepdims = 0> (a) }}> """
BRANCHES = {
    "a node": "dead = Neg (a) t1 = ReduceSum <keepdims = 0> (r) t2 = Neg (t1)",
    "an output of an inner If": INNER.format("u") + "t1 = Neg (q1) t2 = Neg (t1)",
    "the first output of an inner If": INNER.format("u") + "t1 = Neg (q2) t2 = Neg (t1)",
    "a node behind an inner If": INNER.format("u") + "w = Add (q1, q2) t1 = Neg (q1) "
    "t2 = Neg (t1)",
    "an inner If": INNER.format("u") + "t1 = ReduceSum <keepdims = 0> (r) t2 = Neg (t1)",
    "a loop": "k, m = Loop (n, u) <body = w (int64 j, bool g) => (bool g2, float s, float v) { "
    "g2 = Identity (g) s = ReduceSum <keepdims = 0> (a) v = Neg (s) }> "
    "t1 = ReduceSum <keepdims = 0> (r) t2 = Neg (t1)",
}


@pytest.mark.quick
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("flag", ["u", "cc"])
@pytest.mark.parametrize("strategy", ["auto", "fuse"])
@pytest.mark.parametrize("name", BRANCHES)
def test_it_is_left_out(name: str, strategy: Strategy, flag: str) -> None:
    model = onnx.parser.parse_model(MODEL.format(flag=flag, nodes=BRANCHES[name]))
    after = rewriter.optimize(model, strategy=strategy)
    x = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
    h = np.array([0, 1, 1, 0], np.float32)
    for u in (True, False):
        feeds = {"x": x, "h": h, "u": np.array(u), "p": np.array(True)}
        found = [rewriter.ReferenceEvaluator(m).run(None, feeds) for m in (model, after)]
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
