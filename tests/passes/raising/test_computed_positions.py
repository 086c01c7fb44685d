"""Loops that read elements of a sequence by another number than that of the iteration."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.backends import run
from rewriter.proof.compare import compare
from tests.passes.loops import rows

CUTS = {
    "rows": "s = SplitToSequence <axis = 0, keepdims = 0> (x)",
    "slices of one row": "s = SplitToSequence <axis = 0> (x)",
    "slices of one size": "s = SplitToSequence <axis = 0> (x, two)",
    "slices of given sizes": "s = SplitToSequence <axis = 0> (x, sizes)",
}
READS = {
    "from the last one on": ("len", "b = Sub (len, one) p = Sub (b, i) r = SequenceAt (s, p)"),
    "counted from the end": (
        "len",
        "m = Mul (i, minus) p = Sub (m, one) r = SequenceAt (s, p)",
    ),
    "the next one": ("less", "p = Add (i, one) r = SequenceAt (s, p)"),
    "every other one": ("half", "p = Mul (i, two) r = SequenceAt (s, p)"),
    "neighbours": (
        "less",
        "p = Add (i, one) e = SequenceAt (s, p) f = SequenceAt (s, i) a = Concat <axis = 0> (e, f) "
        "r = Sin (a)",
    ),
}


def model(cut: str, count: str, nodes: str) -> onnx.ModelProto:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,3] x, int64[K] sizes) => (float[] y) <int64 one = {{1}}, int64 two = {{2}},
      int64 minus = {{-1}}, bool go = {{1}}> {{
      {CUTS[cut]} len = SequenceLength (s) less = Sub (len, one) more = Add (len, one)
      half = Div (more, two) none = SequenceEmpty <dtype = 1> ()
      q = Loop ({count}, go, none) <body = b (int64 i, bool c, seq(float[]) l)
        => (bool d, seq(float[]) l2) {{
        d = Identity (c) {nodes} v = Neg (r) l2 = SequenceInsert (l, v) }}>
      y = ConcatFromSequence <axis = 0> (q) }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for value in next(n for n in proto.graph.node if n.op_type == "Loop").attribute[0].g.input:
        if value.type.HasField("sequence_type"):
            value.type.sequence_type.elem_type.tensor_type.ClearField("shape")
    return proto


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("read", READS)
def test_it_ends_without_a_loop(read: str, cut: str) -> None:
    given = model(cut, *READS[read])
    after = rewriter.rewrite(given, target="portable").model
    for sizes in ([2, 3, 1, 4], [1, 2], [5, 2, 2]):
        feeds = {"x": rows(sum(sizes), 3), "sizes": np.array(sizes)}
        assert compare(run(given, feeds), run(after, feeds)).equal


def test_a_position_out_of_range_is_an_error_as_before() -> None:
    given = model("rows", "len", READS["the next one"][1])
    after = rewriter.rewrite(given).model
    for one in (given, after):
        with pytest.raises(rewriter.RewriteError):
            run(one, {"x": rows(3, 3), "sizes": np.array([3])})
