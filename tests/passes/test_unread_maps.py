"""Maps of which nothing is read are gone, and take nothing with them that others need."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.backends import open_session, run
from rewriter.proof.compare import compare

UNREAD = """<ir_version: 8, opset_import: ["" : 18]>
main (seq(float[N,3]) s) => (seq(float[N,3]) y) {{
  {first}
  {second}
}}"""
READ = "y = SequenceMap (s) <body = b (e) => (o) { r = Relu (e) o = Softmax <axis = 0> (r) }>"
DEAD = "z = SequenceMap (s) <body = c (f) => (p) { q = Neg (f) p = Softmax <axis = 0> (q) }>"


@pytest.mark.sampled
@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
@pytest.mark.parametrize(("first", "second"), [(READ, DEAD), (DEAD, READ)])
def test_a_map_that_nothing_reads_leaves_the_others_whole(
    first: str, second: str, strategy: Any
) -> None:
    before = onnx.parser.parse_model(UNREAD.format(first=first, second=second))
    result = rewriter.rewrite(before, strategy=strategy)
    judge = open_session(before, "reference")
    sessions = [open_session(result.model, name) for name in ("reference", "onnxruntime")]
    for lengths in ([], [2], [2, 2], [2, 0, 3]):
        rng = np.random.default_rng(0)
        feeds = {"s": [rng.standard_normal((n, 3)).astype(np.float32) for n in lengths]}
        expected = judge.run(feeds)
        for session in sessions:
            difference = compare(expected, session.run(feeds))
            assert difference.equal, difference.message
    forms = [decision.form for decision in result.report.decisions]
    assert "removed, no output of it is read" in forms


READ_BY_DEAD = """<ir_version: 8, opset_import: ["" : 18]>
main (seq(float[N]) s) => (seq(float[N]) y) {
  q = SequenceMap (s) <body = b (float[N] e) => (float[N] o) { o = Neg (e) }>
  y = SequenceMap (s) <body = c (float[N] f) => (float[N] p) {
    dead = SequenceMap (q) <body = d (float[N] g) => (float[N] r) { r = Neg (g) }>
    p = Relu (f) }>
}"""


@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
def test_a_map_that_only_an_unread_map_reads_is_gone_with_it(strategy: Any) -> None:
    before = onnx.parser.parse_model(READ_BY_DEAD)
    result = rewriter.rewrite(before, strategy=strategy)
    feeds = {"s": [np.array([-1, 2], np.float32), np.array([3], np.float32)]}
    expected = run(before, feeds, backend="reference")
    difference = compare(expected, run(result.model, feeds))
    assert difference.equal, difference.message


READ_BY_DEAD_BESIDE_LOOPS = """<ir_version: 8, opset_import: ["" : 18]>
main (float[N,3] x) => (seq(float[3]) y, float[N,3] z) {
  shape = Shape <end = 1> (x)
  axis = Constant <value_ints = [0]> ()
  count = Squeeze (shape, axis)
  yes = Constant <value = bool {1}> ()
  none = SequenceEmpty ()
  q, z = Loop (count, yes, none) <body = a (int64 i, bool go, seq(float[3]) acc)
    => (bool goes, seq(float[3]) more, float[3] row) {
    goes = Identity (go)  row = Gather (x, i)  double = Add (row, row)
    more = SequenceInsert (acc, double) }>
  dead = SequenceMap (q) <body = b (float[3] e) => (float[3] o) { o = Neg (e) }>
  length = SequenceLength (q)
  nothing = SequenceEmpty ()
  y = Loop (length, yes, nothing) <body = c (int64 j, bool on, seq(float[3]) acc_1)
    => (bool goes_1, seq(float[3]) more_1) {
    goes_1 = Identity (on)  e_1 = SequenceAt (q, j)  r = Relu (e_1)
    more_1 = SequenceInsert (acc_1, r) }>
}"""


@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
def test_loops_are_merged_beside_an_unread_map(strategy: Any) -> None:
    before = onnx.parser.parse_model(READ_BY_DEAD_BESIDE_LOOPS)
    result = rewriter.rewrite(before, strategy=strategy)
    for length in (0, 1, 3):
        feeds = {"x": np.arange(3 * length, dtype=np.float32).reshape(length, 3) - 4}
        expected = run(before, feeds, backend="reference")
        difference = compare(expected, run(result.model, feeds))
        assert difference.equal, difference.message
