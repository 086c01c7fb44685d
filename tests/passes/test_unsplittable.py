"""Packed results of element types that onnxruntime does not split."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter.backends import open_session
from rewriter.pipeline import rewrite

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (uint8[T,2] x{given}) => (seq(uint8[n,2]) ys) {{
    {lengths} xs = SplitToSequence (x, sizes)
    ys = SequenceMap (xs) <body = b (uint8[m,2] e) => (uint8[m,2] y) {{ y = BitwiseNot (e) }}> }}"""


@pytest.mark.parametrize(
    ("given", "lengths", "inside"),
    [
        ("", "sizes = Constant <value_ints = [2, 0, 3]> ()", {"Split", "SequenceConstruct"}),
        (", int64[B] sizes", "", {"Loop"}),
    ],
    ids=["a known number", "any number"],
)
def test_rows_are_cut_by_their_lengths(given: str, lengths: str, inside: set[str]) -> None:
    model = onnx.parser.parse_model(TEXT.format(given=given, lengths=lengths))
    after = rewrite(model, strategy="fuse").model
    assert isinstance(after, onnx.ModelProto)
    # The sizes are made to add up once, where the rows come from.
    assert sum(node.op_type == "Abs" for node in after.graph.node) == 1
    used = {node.op_type for node in after.graph.node}
    assert inside <= used
    assert "SplitToSequence" not in used
    assert ("Loop" in used) == ("Loop" in inside)
    x = np.arange(10, dtype=np.uint8).reshape(5, 2)
    feeds = {"x": x} | ({"sizes": np.array([2, 0, 3])} if given else {})
    (found,) = open_session(after).run(feeds).values()
    for one, rows in zip(found, (x[:2], x[:0], x[2:]), strict=True):
        np.testing.assert_array_equal(one, ~rows, strict=True)
