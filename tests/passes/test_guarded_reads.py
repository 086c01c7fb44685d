"""What the loop behind a failed guard reads: the sequence itself, unless its type may be false."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graphs import all_graphs
from rewriter.backends import open_session
from rewriter.compare import compare
from rewriter.pipeline import rewrite
from tests.passes.expansion import rows

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float{dims}) xs) => (seq(float{dims}) ys) {{
    ys = SequenceMap (xs) <body = b (float{dims} x) => (float{dims} y) {{
        t = Transpose (x) e = Exp (t) y = Transpose (e) }}> }}"""


@pytest.mark.parametrize(
    ("dims", "shapes", "itself"),
    [
        ("[N, M]", [(2, 3), (4, 5), (2, 1), (0, 3)], True),
        ("[2, M]", [(2, 3), (2, 5), (2, 1)], False),
    ],
)
def test_the_loop_behind_a_failed_guard(
    dims: str, shapes: list[tuple[int, ...]], itself: bool
) -> None:
    model = onnx.parser.parse_model(TEXT.format(dims=dims))
    after = rewrite(model, strategy="fuse").model
    assert isinstance(after, onnx.ModelProto)
    loops = [n for g in all_graphs(ir.from_proto(after)) for n in g if n.op_type == "Loop"]
    read = {
        node.inputs[0].name
        for loop in loops
        for node in loop.attributes["body"].as_graph()
        if node.op_type == "SequenceAt" and node.inputs[0] is not None
    }
    assert read
    assert (read == {"xs"}) is itself
    feed = {"xs": rows(*shapes)}
    expected = open_session(model, "reference").run(feed)
    difference = compare(expected, open_session(after).run(feed))
    assert difference.equal, difference.message


def test_equal_elements_of_another_shape_than_declared() -> None:
    model = onnx.parser.parse_model(TEXT.format(dims="[2, 3]"))
    after = rewrite(model, strategy="fuse").model
    feed = {"xs": [np.ones((4, 5), np.float32)] * 3}
    difference = compare(open_session(model, "reference").run(feed), open_session(after).run(feed))
    assert difference.equal, difference.message
