"""Scans in bodies: onnxruntime refuses one that yields a value of unknown rank."""

from __future__ import annotations

from typing import get_args

import numpy as np
import onnx
import pytest

from rewriter.backends import open_session
from rewriter.compare import compare
from rewriter.options import Strategy
from rewriter.pipeline import rewrite

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (seq({element}) ws, float[n,4] x) => (seq(float[]) ys) {{
    zero = Constant <value_ints = [0]> ()
    start = Constant <value = float[4] {{0, 0, 0, 0}}> ()
    ys = SequenceMap (ws) <body = f ({element} a) => (float[] y) <{inside}> {{ {nodes} }}> }}"""
SCANS = {
    "captures a sample": """y = Scan <num_scan_inputs = 1, body = s (p) => (r) {
        r = MatMul (p, a) }> (x)""",
    "has a state": """last, y = Scan <num_scan_inputs = 1, body = s (state, p) => (next, r) {
        next = Add (state, p) t = MatMul (next, a) r = Identity (t) }> (start, x)""",
    "scans a sample": """y = Scan <num_scan_inputs = 1, body = s (p) => (r) {
        t = Relu (p) r = Add (t, t) }> (a)""",
    "reads rows": """y = Scan <num_scan_inputs = 1, body = s (p) => (r) {
        t = Gather <axis = 0> (a, zero) r = Neg (t) }> (x)""",
    "reads what is reshaped": """size = Shape (a) t = Reshape (a, size)
        y = Scan <num_scan_inputs = 1, body = s (p) => (r) { r = MatMul (p, t) }> (x)""",
    "cuts by a value": """y = Scan <num_scan_inputs = 1, body = s (p) => (r) {
        top = ReduceSum <keepdims = 0> (p) end = Cast <to = 7> (top)
        ends = Unsqueeze (end, zero) r = Slice (a, zero, ends) }> (x)""",
}


@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("shape", [(4, 3), (4, 4, 3)], ids=["matrices", "stacks of matrices"])
@pytest.mark.parametrize("name", SCANS)
def test_a_scan_knows_the_rank_of_what_it_yields(
    name: str, shape: tuple[int, ...], strategy: Strategy
) -> None:
    element = "float[4,4,c]" if len(shape) == 3 else "float[4,c]"
    inside = f"{element} t" if "reshaped" in name else "float[] unused"
    model = onnx.parser.parse_model(TEXT.format(element=element, inside=inside, nodes=SCANS[name]))
    rng = np.random.default_rng(0)
    samples = [rng.integers(0, 4, shape).astype(np.float32) for _ in range(3)]
    feeds = {"ws": samples, "x": np.ones((5, 4), np.float32)}
    expected = open_session(model, "reference").run(feeds)
    rewritten = rewrite(model, strategy=strategy).model
    difference = compare(expected, open_session(rewritten).run(feeds))
    assert difference.equal, difference.message
