"""Running totals that begin with a value of unknown rank stay in their Loop, with the reason."""

from __future__ import annotations

import warnings

import onnx.parser
import pytest

import rewriter
from passes.decisions import Code

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[a,b] p, float[c,d] q, seq(float[N,2]) w) => (seq(float[e,f,h]) y) {
    xs = SequenceConstruct (p, q)
    y = SequenceMap (xs, w) <body = body (x, first) => (all) {
        many = Constant <value = int64 {200}> ()
        t = Constant <value = bool {1}> ()
        last, all = Loop (many, t, first) <
            body = step (int64 i, bool c, float[?,?] s) => (bool d, float[?,?] n, float[?,?] r) {
            d = Identity (c)
            n = Add (s, x)
            r = Identity (n)
        }>
    }>
}"""


@pytest.mark.parametrize("strategy", ["auto", "fuse"])
def test_no_map_is_left_out_with_a_warning(strategy: str) -> None:
    model = onnx.parser.parse_model(TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = rewriter.rewrite(model, strategy=strategy).report
    codes = {reason.code for one in report.decisions for reason in one.reasons}
    assert Code.UNKNOWN_RANK in codes


def test_what_a_list_was_made_of_tells_the_rank_of_its_elements() -> None:
    """No other rank may be supposed: the branch behind such a guard would not be valid."""
    text = """<ir_version: 10, opset_import: ["" : 23]>
    g (seq(int64[?,?]) xs, seq(int64[?]) ys) => (int64[?] s) <bool go = {1}> {
        n = SequenceLength (xs)  e = SequenceEmpty <dtype = 7> ()
        l = Loop (n, go, e) <body = b (int64 i, bool c, seq(int64[]) q)
          => (bool c2, seq(int64[]) q2) {
            r = SequenceAt (ys, i)  q2 = SequenceInsert (q, r)  c2 = Identity (c) }>
        m = SequenceLength (ys)
        s = Loop (m, go) <body = k (int64 j, bool d) => (bool d2, int64[] t2) {
            v = SequenceAt (l, j)  t = ReduceSum <keepdims = 0> (v)  t2 = Identity (t)
            d2 = Identity (d) }> }"""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rewriter.rewrite(onnx.parser.parse_model(text), tensor_io=True)
