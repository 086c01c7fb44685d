"""A Resize to sizes that a Slice cuts out, by constants that a branch captures.

Sizes are divided in the branch for some samples: that may fail, and does not run for none.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter

MODEL = """<ir_version: 9, opset_import: ["": 18]>
g (float[B,H,W,3] x, int64[2] to, int64 by) => (float[B,h,w,3] y) <int64[1] zero = {0}, int64[1] two = {2}> {
  xs = SplitToSequence <axis = 0, keepdims = 0> (x)
  ys = SequenceMap (xs) <body = b (float[H,W,3] e) => (float[h,w,3] r) {
    u = Unsqueeze (e, zero) t = Transpose <perm = [0, 3, 1, 2]> (u) s = Shape (t)
    head = Slice (s, zero, two) part = Div (to, by) n = Concat <axis = 0> (head, part)
    z = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (t, , , n)
    q = Squeeze (z, zero) r = Transpose <perm = [1, 2, 0]> (q) }>
  y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
}"""


@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("strategy", ["auto", "fuse"])
def test_the_sizes_have_a_number(strategy: str, target: str) -> None:
    given = onnx.parser.parse_model(MODEL)
    after = rewriter.optimize(given, strategy=strategy, target=target)  # type: ignore[call-overload]
    images = np.random.default_rng(0).random((3, 4, 6, 3)).astype(np.float32)
    feeds = {"x": images, "to": np.array([10, 4]), "by": np.array(2)}
    wanted, found = rewriter.run(given, feeds)["y"], rewriter.run(after, feeds)["y"]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    assert not {"Loop", "SequenceMap"} & {node.op_type for node in after.graph.node}
