"""Sequences of whose elements ONNX and onnxruntime say different ranks."""

from __future__ import annotations

from typing import get_args

import numpy as np
import onnx
import pytest

from rewriter.backends import open_session
from rewriter.options import Strategy
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[N, 3] x) => (seq(float[]) ys, float[] z) {{
    one = Constant <value = int64 {{1}}> ()
    xs = SplitToSequence <axis = 0, keepdims = 0> (x, one)
    ws = Identity (xs)
    ys = SequenceMap (ws) <body = b (float[] v) => (float[] y) {{
        a = Sigmoid (v) b = Exp (a) c = Neg (b) d = Abs (c) y = Sqrt (d) }}>
    z = ConcatFromSequence <axis = 0, new_axis = {new_axis}> (ys)
}}"""


@pytest.mark.parametrize("backend", ["reference", "onnxruntime"])
@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("new_axis", [0, 1])
def test_each_runtime_has_its_own_rank_after_the_rewrite_too(
    new_axis: int, strategy: Strategy, backend: str
) -> None:
    model = onnx.parser.parse_model(TEXT.format(new_axis=new_axis))
    result = rewrite(model, strategy=strategy)
    if strategy != "expand":
        assert "unknown-rank" in {r.code for d in result.report.decisions for r in d.reasons}
    feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    expected = open_session(model, backend).run(feed)
    difference = compare(expected, open_session(result.model, backend).run(feed))
    assert difference.equal, difference.message
