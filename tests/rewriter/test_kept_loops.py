"""The report names every Loop that is left, by its path in the new model."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.decisions import Verdict
from passes.graphs import node_paths

RUNNING_SUM = """<ir_version: 8, opset_import: ["" : 18]>
g (float[N,4] x, float[4] b) => (float[4] last) {
    unread = Neg (x)
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    more = Identity (unread)
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    xs = SplitToSequence <axis = 0, keepdims = 0> (x)
    last = Loop (n, t, b) <body = step (int64 i, bool c, float[4] s) => (bool go, float[4] s2) {
        left_out = Neg (s)
        e = SequenceAt (xs, i)
        s2 = Add (s, e)
        go = Identity (c)
    }>
}"""


@pytest.mark.parametrize("strategy", ["auto", "fuse"])
def test_a_loop_without_a_name_that_moves(strategy: str) -> None:
    result = rewriter.rewrite(onnx.parser.parse_model(RUNNING_SUM), strategy=strategy)
    (decision,) = result.report.decisions
    paths = node_paths(ir.from_proto(result.model))
    (path,) = (path for node, path in paths.items() if node.op_type == "Loop")
    assert decision.verdict is Verdict.KEPT
    assert decision.path == path
    assert all(reason.node.startswith(f"{path}/") for reason in decision.reasons)
