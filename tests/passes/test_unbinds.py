"""Unbind as PyTorch's exporter writes it: a cut into ones that takes the axis away."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from passes.decisions import Verdict
from rewriter.pipeline import rewrite
from tests.passes.expansion import operators
from tests.passes.loops import same

HEADS = """<ir_version: 8, opset_import: ["" : 17], producer_name: "{producer}">
g (float[B,N] scores, float[B,N,4] boxes) => ({output} y) {{
  zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  rows = Constant <value_ints = [-1]> ()
  low = Constant <value_float = 0.2> ()
  most = Constant <value_ints = [3]> ()
  shape = Shape (scores)
  trips = Gather (shape, zero)
  go = Constant <value = bool {{1}}> ()
  none = SequenceEmpty <dtype = 1> ()
  all = Loop (trips, go, none) <body = b (int64 i, bool on, seq(float[p]) acc)
      => (bool further, seq(float[p]) more) {{
    own = Gather (scores, i)
    box = Gather (boxes, i)
    is_high = Greater (own, low)
    found = NonZero (is_high)
    turned = Transpose <perm = [1, 0]> (found)
    columns = SplitToSequence <axis = 1, keepdims = 0> (turned, one)
    at = SequenceAt (columns, zero)
    high = Gather (own, at)
    size = Shape (high)
    k = Min (size, most)
    best, places = TopK <axis = 0> (high, k)
    place = Gather (at, places)
    kept = Gather <axis = 0> (box, place)
    further = Identity (on)
    more = SequenceInsert (acc, kept)
  }}>
  y = ConcatFromSequence <axis = 0> (all)
}}"""


def feeds():
    rng = np.random.default_rng(0)
    for samples, places, shift in [(1, 9, 0), (3, 9, 0), (2, 4, -9), (3, 1, 0), (2, 7, 9)]:
        yield {
            "scores": rng.standard_normal((samples, places)).astype(np.float32) + shift,
            "boxes": rng.standard_normal((samples, places, 4)).astype(np.float32),
        }


@pytest.mark.parametrize("target", ["onnxruntime", "portable"])
@pytest.mark.parametrize("output", ["float[K,4]", "float[K,1,4]"])
def test_rows_that_are_found_and_sorted_end_without_a_loop(target, output):
    """The exporter declares the rank that ONNX infers, which onnxruntime does not yield."""
    before = onnx.parser.parse_model(HEADS.format(producer="pytorch", output=output))
    result = rewrite(before, target=target)
    assert not {"Loop", "SplitToSequence"} & set(operators(result.model))
    assert any("unbind" in line for line in result.report.assumptions)
    declared = result.model.graph.output[0].type.tensor_type
    assert declared.HasField("shape") == (output == "float[K,4]")
    is_wrong = any("rank 3" in line for line in result.report.warnings)
    assert is_wrong == (output != "float[K,4]")
    assert same(before, result.model, *feeds()) == 5


def test_of_other_exporters_nothing_is_supposed():
    before = onnx.parser.parse_model(HEADS.format(producer="other", output="float[K,4]"))
    result = rewrite(before)
    assert "SplitToSequence" in operators(result.model)
    assert result.report.decisions[0].verdict is Verdict.KEPT
    assert same(before, result.model, *feeds()) == 5


CARRIED = """<ir_version: 8, opset_import: ["" : 17], producer_name: "pytorch">
g (float[N,4] x, float[4,4] w, float[4] b, seq(float[4]) others) => (float[p,q] y) {{
  one = Constant <value_int = 1> ()
  go = Constant <value = bool {{1}}> ()
  begin = Constant <value = float[4] {{1, 0, -1, 2}}> ()
  rows = SplitToSequence <axis = 0, keepdims = 0> (x, one)
  trips = SequenceLength ({counted})
  y = Loop (trips, go, begin) <body = b (int64 i, bool on, float[4] s)
      => (bool further, float[p,q] r) {{
    row = SequenceAt (rows, i)
    {body}
    further = Identity (on)
  }}>
}}"""
BODIES = {
    "a total": "r = Add (s, row)",
    "a greatest": "u = Relu (row) r = Max (s, u)",
    "a recurrence": "t = Tanh (s) r = Add (t, row)",
    "beside a list": "other = SequenceAt (others, i) u = Mul (row, other) r = Add (s, u)",
    "under a condition": """sum = ReduceSum <keepdims = 0> (row) zero = Constant <value = float {0}> ()
      is_high = Greater (sum, zero)
      r = If (is_high) <then_branch = yes () => (float[p,q] v) { v = Add (s, row) },
                        else_branch = no () => (float[p,q] u) { u = Identity (s) }>""",
    "a product of a vector": "u = Gemm (row, w, b) v = Squeeze (u) r = Add (s, v)",
    "a turned product": "u = Gemm <transB = 1, alpha = 2.0> (row, w) v = Squeeze (u) r = Add (s, v)",
}


@pytest.mark.sampled
@pytest.mark.parametrize("counted", ["rows", "others"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_ranks_that_the_exporter_declares_behind_it_are_not_believed(body, counted):
    before = onnx.parser.parse_model(CARRIED.format(body=body, counted=counted))
    rng = np.random.default_rng(1)
    fed = [
        {
            "x": rng.standard_normal((n, 4)).astype(np.float32),
            "w": rng.standard_normal((4, 4)).astype(np.float32),
            "b": rng.standard_normal(4).astype(np.float32),
            "others": list(rng.standard_normal((n, 4)).astype(np.float32)),
        }
        for n in (0, 1, 4)
    ]
    result = rewrite(before)
    assert ("Loop" in operators(result.model)) == ("Tanh" in body or "other" in body)
    assert not result.report.warnings or "rank 2 and has rank 1" in result.report.warnings[0]
    fed = [{i.name: one[i.name] for i in before.graph.input} for one in fed]
    assert same(before, result.model, *fed) == 3


CUT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3] x) => (float[M,2] y) {
  zero = Constant <value_int = 0> ()
  last = Constant <value_int = -1> ()
  shape = Shape (x)
  trips = Gather (shape, zero)
  go = Constant <value = bool {1}> ()
  y = Loop (trips, go) <body = b (int64 i, bool on) => (bool further, float[2] r) {
    row = Gather (x, i)
    cut = SplitToSequence <axis = 0, keepdims = 0> (row)
    a = SequenceAt (cut, zero)
    z = SequenceAt (cut, last)
    n = SequenceLength (cut)
    m = Cast <to = 1> (n)
    s = Add (a, m)
    axes = Constant <value_ints = [0]> ()
    u = Unsqueeze (s, axes)
    v = Unsqueeze (z, axes)
    r = Concat <axis = 0> (u, v)
    further = Identity (on)
  }>
}"""


def test_what_is_cut_and_read_in_a_body_is_read_without_the_cut():
    before = onnx.parser.parse_model(CUT)
    result = rewrite(before)
    left = set(operators(result.model))
    assert not {"Loop", "SplitToSequence", "SequenceAt", "SequenceLength"} & left
    rng = np.random.default_rng(1)
    fed = [{"x": rng.standard_normal((n, 3)).astype(np.float32)} for n in (0, 1, 4)]
    assert same(before, result.model, *fed) == 3
