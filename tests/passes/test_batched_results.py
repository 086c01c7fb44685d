"""Results of maps that are joined: rows of known size need no shape that is computed."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models

TEXT = """<ir_version: 9, opset_import: ["" : 18]> g (float[N,2,%s] x) => (float[A,B] y) {
    s = SplitToSequence <axis = 0, keepdims = 0> (x)
    m = SequenceMap (s) <body = b (float[2,%s] p) => (float[2,%s] q) { q = Tanh (p) }>
    y = ConcatFromSequence <axis = %d> (m) }"""
CASES = {
    "rows of known size": ("3", "3", 0, False),
    "columns of known size": ("3", "3", 1, False),
    "counted from the back": ("3", "3", -2, False),
    "rows of a size that is only declared": ("K", "3", 0, True),
    "columns of open size": ("K", "K", 0, True),
}


@pytest.mark.parametrize("name", CASES)
def test_joined_rows_of_known_size_are_one_reshape(name: str) -> None:
    given, declared, axis, asks = CASES[name]
    model = onnx.parser.parse_model(TEXT % (given, declared, declared, axis))
    rewritten = rewriter.rewrite(model).model
    types = [node.op_type for node in rewritten.graph.node]
    assert ("Shape" in types, "SequenceMap" in types) == (asks, False)
    for count in (1, 4):
        feeds = {"x": np.arange(count * 6, dtype=np.float32).reshape(count, 2, 3) / 10}
        one, other = (
            onnxruntime.InferenceSession(m.SerializeToString()).run(None, feeds)[0]
            for m in (model, rewritten)
        )
        np.testing.assert_array_equal(one, other)


COLUMN = """<ir_version: 9, opset_import: ["" : 18]>
    g (seq(float[H,W,3]) xs) => (seq(float[3,w]) ys) {
      ys = SequenceMap (xs) <body = one (float[H,W,3] x) => (float[3,w] y) {
        r = ReduceMax <keepdims = 0> (x, a)  y = Transpose (r) }> }"""


def test_columns_that_leave_a_model_are_a_tensor_whatever_the_target() -> None:
    """Samples that differ along another axis than the first leave as rows and sizes."""
    text = COLUMN.replace("r = Reduce", "a = Constant <value_ints = [0]> () r = Reduce")
    model = onnx.parser.parse_model(text)
    after = rewriter.optimize(model, strategy="fuse", tensor_io=True)
    found = {node.op_type for node in after.graph.node}
    assert not [name for name in found if "Sequence" in name or name in ("Loop", "If")]
    images = [np.random.default_rng(s).random((h, w, 3)).astype(np.float32)
              for s, (h, w) in enumerate(((2, 3), (1, 1), (4, 2)))]  # fmt: skip
    io = TensorIo.read(models.take(after).model)
    given = outputs_as_lists(io, backends.open_session(after).run({"xs": images}))["ys"]
    for image, one in zip(images, given, strict=True):
        np.testing.assert_array_equal(one, image.max(0).T)


SQUARES = """<ir_version: 9, opset_import: ["" : 18]>
    g (seq(float[N,3]) xs) => (seq(float[n,n]) ys) {
      ys = SequenceMap (xs) <body = one (float[N,3] x) => (float[n,n] y) {
        t = Transpose (x)  y = MatMul (x, t) }> }"""


def test_squares_that_leave_a_model_are_a_tensor_whatever_the_target() -> None:
    """Samples that differ in length along two axes leave as rows and sizes."""
    after = rewriter.optimize(onnx.parser.parse_model(SQUARES), target="portable", tensor_io=True)
    found = {node.op_type for node in after.graph.node}
    assert not [name for name in found if "Sequence" in name or name in ("Loop", "If")]
    samples = [np.random.default_rng(n).random((n, 3)).astype(np.float32) for n in (2, 1, 0, 4)]
    io = TensorIo.read(models.take(after).model)
    given = outputs_as_lists(io, backends.open_session(after).run({"xs": samples}))["ys"]
    for sample, one in zip(samples, given, strict=True):
        np.testing.assert_allclose(one, sample @ sample.T, rtol=1e-6)
