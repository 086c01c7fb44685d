"""Losses of samples whose scores and targets are cut by one length, but out of two tensors."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter.backends import BackendError, open_session
from rewriter.pipeline import rewrite
from tests.passes.expansion import operators
from tests.passes.loops import same

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[B,N,3] x, int64[B,M] t, int64[B] n, int64[B] m) => (float[B] y) {
  zero = Constant <value_int = 0> ()
  axes = Constant <value_ints = [0]> ()
  shape = Shape (n)
  trips = Gather (shape, zero)
  go = Constant <value = bool {1}> ()
  y = Loop (trips, go) <body = b (int64 i, bool on) => (bool further, float r) {
    scores = Gather (x, i)
    target = Gather (t, i)
    k = Gather (n, i)
    l = Gather (m, i)
    k1 = Unsqueeze (k, axes)
    l1 = Unsqueeze (l, axes)
    some = Slice (scores, axes, k1)
    few = Slice (target, axes, l1)
    r = SoftmaxCrossEntropyLoss <ignore_index = -100> (some, few)
    further = Identity (on)
  }>
}"""


def feed(lengths, other=None, targets=9):
    rng = np.random.default_rng(3)
    count = len(lengths)
    classes = rng.integers(0, 3, (count, targets))
    classes[:, 0] = -100
    return {
        "x": rng.standard_normal((count, 9, 3)).astype(np.float32),
        "t": classes,
        "n": np.array(lengths),
        "m": np.array(lengths if other is None else other),
    }


@pytest.mark.parametrize("target", ["onnxruntime", "portable"])
def test_a_mean_of_each_sample_ends_without_a_loop(target):
    before = onnx.parser.parse_model(TEXT)
    result = rewrite(before, target=target)
    assert "Loop" not in operators(result.model)
    assert same(before, result.model, feed([2, 9, 3]), feed([1]), feed([4, 4], targets=5)) == 3
    with pytest.raises(BackendError):
        open_session(before).run(feed([2, 3], [2, 4]))
    with pytest.raises(BackendError):
        open_session(result.model).run(feed([2, 3], [2, 4]))
