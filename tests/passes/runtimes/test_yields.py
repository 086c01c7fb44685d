"""What branches and steps yield twice is there twice, in graphs that were written or moved."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import rewriter
from passes.runtimes import SidestepDefectsPass
from rewriter.options import Strategy

pytestmark = pytest.mark.quick

HEAD = '<ir_version: 10, opset_import: ["": 22]>'
TWICE = "(float[N] a, float[N] a) { a = Exp(x) }"
OTHER = "(float[N] b, float[N] c) { b = Neg(x) c = Sin(x) }"
BRANCHES = {"then": (TWICE, OTHER), "else": (OTHER, TWICE), "both": (TWICE, TWICE)}
MAP = """g (seq(float[N]) s, bool p) => (seq(float[N]) y, seq(float[N]) z) {{
    y, z = SequenceMap (s) <body = m (float[N] x) => (float[N] o, float[N] k) {{
        o, k = If (p) <then_branch = t () => {0}, else_branch = e () => {1}> }}> }}"""
SCAN = """g (float[2] x, float[M,2] r) => (float[2] y, float[M,2] z) {
    y, z = Scan <num_scan_inputs = 1, body = s (float[2] a, float[2] b) => (float[2] c, float[2] c)
        { c = Add(a, b) }> (x, r) }"""


@pytest.mark.parametrize("name", BRANCHES)
@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
def test_an_if_of_a_body(name: str, strategy: Strategy) -> None:
    model = onnx.parser.parse_model(HEAD + MAP.format(*BRANCHES[name]))
    after = rewriter.optimize(model, strategy=strategy)
    session = onnxruntime.InferenceSession(after.SerializeToString())
    samples = [np.array([0, 1], np.float32), np.array([2], np.float32)]
    for p in (True, False):
        found = session.run(None, {"s": samples, "p": np.array(p)})
        expected = rewriter.ReferenceEvaluator(model).run(None, {"s": samples, "p": np.array(p)})
        for ours, ones in zip(found, expected, strict=True):
            for one, other in zip(ours, ones, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6)


def test_an_if_in_a_branch_of_another() -> None:
    """What takes the place of the inner one is gone, with its branch, once the outer one is."""
    text = """g (float[N] x, int64[1] s, int64[1] e, bool p) => (float[] y, float[] z) {
        y, z0 = If (p) <else_branch = o () => (float[] k, float[] k) { k = Neg(x) },
            then_branch = t () => (float[] c, float[] c) {
                a, b = If (p) <else_branch = i () => (float[] f, float[] f) { f = Exp(x) },
                    then_branch = h () => (float[] d, float[] d) { d = Slice(x, s, e) }>
                m = ReduceMax(x)
                c0 = Add(a, b)
                c = Add(c0, m) }>
        r = Max(z0, y)
        z = ReduceMax(r) }"""  # whose form hangs on the types
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    given = ir.to_proto(model)
    assert SidestepDefectsPass()(model).modified
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    one, two = np.array([1]), np.array([2])
    for p in (True, False):
        feeds = {"x": np.array([3, 5, 4], np.float32), "s": one, "e": two, "p": np.array(p)}
        expected = rewriter.ReferenceEvaluator(given).run(None, feeds)
        for ours, other in zip(session.run(None, feeds), expected, strict=True):
            np.testing.assert_allclose(ours, other, rtol=1e-6)


def test_a_scan() -> None:
    model = ir.from_proto(onnx.parser.parse_model(HEAD + SCAN))
    assert SidestepDefectsPass()(model).modified
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    rows = np.array([[1, 2], [3, 4]], np.float32)
    last, sums = session.run(None, {"x": np.zeros(2, np.float32), "r": rows})
    np.testing.assert_array_equal(sums, np.cumsum(rows, 0))
    np.testing.assert_array_equal(last, rows.sum(0))


def test_a_loop_stays() -> None:
    """Its body may name a value twice."""
    text = """g (float[2] x, int64 n, bool t) => (float[2] y, float[M,2] z) {
        y, z = Loop (n, t, x) <body = l (int64 i, bool c, float[2] a) =>
            (bool d, float[2] b, float[2] b) { d = Identity(c) b = Add(a, x) }> }"""
    assert not SidestepDefectsPass()(ir.from_onnx_text(HEAD + text)).modified
