"""Lengths that are passed beside a tensor are checked wherever they are read."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.backends import BackendError, open_session

ROWS = np.arange(10, dtype=np.float32).reshape(5, 2)
HEAD = '<ir_version: 9, opset_import: ["" : 18]>\n'
MAPPED = """g (seq(float[N,2]) xs, bool c) => (seq(float[N,2]) y) {
    y = If (c) <then_branch = t () => (seq(float[N,2]) a) {
            a = SequenceMap (xs) <body = b (float[N,2] x) => (float[N,2] o) { o = Exp (x) }> },
        else_branch = e () => (seq(float[N,2]) d) {
            d = SequenceMap (xs) <body = b2 (float[N,2] x2) => (float[N,2] o2) { o2 = Neg (x2) }> }>
}"""
SPLIT = """g (float[R,2] x, int64[B] l, bool c) => (float[K,2] y) {
    y = If (c) <then_branch = t () => (float[K,2] a) {
            s = SplitToSequence <axis = 0> (x, l)
            m = SequenceMap (s) <body = b (float[N,2] r) => (float[N,2] o) { o = Softmax <axis = 0> (r) }>
            a = ConcatFromSequence <axis = 0> (m) },
        else_branch = e () => (float[R,2] d) { d = Neg (x) }> }"""


def test_a_map_in_a_branch_needs_no_branch_for_its_lengths() -> None:
    model = onnx.parser.parse_model(HEAD + MAPPED)
    after = rewriter.optimize(model, target="portable", tensor_io=True)
    lengths = np.array([2, 0, 3])
    for flag, expected in ((True, np.exp(ROWS)), (False, -ROWS)):
        feeds = {"xs": ROWS, "xs.lengths": lengths, "c": np.array(flag)}
        found = rewriter.run(after, feeds)
        np.testing.assert_allclose(found["y"], expected, rtol=1e-6)
        assert found["y.lengths"].tolist() == lengths.tolist()
        session = open_session(after, "onnxruntime")
        for wrong in ([2, 0, 4], [-1, 3, 3], [2]):
            with pytest.raises(BackendError, match="Reshape"):
                session.run(feeds | {"xs.lengths": np.array(wrong)})


def test_lengths_of_the_author_are_checked_where_they_are_read() -> None:
    with pytest.raises(rewriter.TargetError, match="SequenceMap_1 could fail where its branch"):
        rewriter.optimize(onnx.parser.parse_model(HEAD + SPLIT), target="portable")


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("target", ["onnxruntime", "portable"])
def test_a_list_of_equal_cuts_is_passed_without_a_loop(count: int, target: str) -> None:
    """What `torch.split(x, 2)` returns; the last cut may be shorter."""
    model = onnx.parser.parse_model(f"""{HEAD}g (float[R,2] x) => (seq(float[N,2]) y) {{
        two = Constant <value_int = 2> ()  y = SplitToSequence <axis = 0> (x, two) }}""")
    after = rewriter.optimize(model, target=target, tensor_io=True)
    assert not {node.op_type for node in after.graph.node} & {"Loop", "SplitToSequence"}
    found = open_session(after, "onnxruntime").run({"x": ROWS[:count]})
    np.testing.assert_array_equal(found["y"], ROWS[:count])
    assert found["y.lengths"].tolist() == [min(2, count - i) for i in range(0, count, 2)]
