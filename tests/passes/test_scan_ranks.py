"""Scans in bodies: onnxruntime refuses one that yields a value of unknown rank."""

from __future__ import annotations

from typing import get_args

import numpy as np
import onnx
import pytest

from rewriter import validate
from rewriter.backends import open_session
from rewriter.options import Strategy
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (seq({element}) ws, float[n,4] x) => (seq(float[]) ys) {{
    zero = Constant <value_ints = [0]> ()
    start = Constant <value = float[4] {{0, 0, 0, 0}}> ()
    ys = SequenceMap (ws) <body = f ({element} a) => (float[] y) <{inside}> {{ {nodes} }}> }}"""
SCANS = {
    "captures a sample": """y = Scan <num_scan_inputs = 1, body = s (p) => (r) {
        r = MatMul (p, a) }> (x)""",
    "has a state": """last, y = Scan <num_scan_inputs = 1, body = s (state, p) => (next, r) {
        next = Add (state, p) t = MatMul (next, a) r = Identity (t) }> (start, x)""",
    "scans a sample": """y = Scan <num_scan_inputs = 1, body = s (p) => (r) {
        t = Relu (p) r = Add (t, t) }> (a)""",
    "reads rows": """y = Scan <num_scan_inputs = 1, body = s (p) => (r) {
        t = Gather <axis = 0> (a, zero) r = Neg (t) }> (x)""",
    "reads what is reshaped": """size = Shape (a) t = Reshape (a, size)
        y = Scan <num_scan_inputs = 1, body = s (p) => (r) { r = MatMul (p, t) }> (x)""",
    "cuts by a value": """y = Scan <num_scan_inputs = 1, body = s (p) => (r) {
        top = ReduceSum <keepdims = 0> (p) end = Cast <to = 7> (top)
        ends = Unsqueeze (end, zero) r = Slice (a, zero, ends) }> (x)""",
}


@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("shape", [(4, 3), (4, 4, 3)], ids=["matrices", "stacks of matrices"])
@pytest.mark.parametrize("name", SCANS)
def test_a_scan_knows_the_rank_of_what_it_yields(
    name: str, shape: tuple[int, ...], strategy: Strategy
) -> None:
    element = "float[4,4,c]" if len(shape) == 3 else "float[4,c]"
    inside = f"{element} t" if "reshaped" in name else "float[] unused"
    model = onnx.parser.parse_model(TEXT.format(element=element, inside=inside, nodes=SCANS[name]))
    rng = np.random.default_rng(0)
    samples = [rng.integers(0, 4, shape).astype(np.float32) for _ in range(3)]
    feeds = {"ws": samples, "x": np.ones((5, 4), np.float32)}
    expected = open_session(model, "reference").run(feeds)
    rewritten = rewrite(model, strategy=strategy).model
    difference = compare(expected, open_session(rewritten).run(feeds))
    assert difference.equal, difference.message


LOOP = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[]) s) => (seq(float[]) ys) {
    n = SequenceLength (s) go = Constant <value = bool {1}> () none = SequenceEmpty <dtype = 1> ()
    ys = Loop (n, go, none) <body = l (int64 i, bool c, seq(float[]) before)
      => (bool d, seq(float[]) after) {
        d = Identity (c) a = SequenceAt (s, i) axis = Constant <value_int = -2> ()
        b = CumSum (a, axis)
        y = Scan <num_scan_inputs = 2, scan_input_axes = [0, -2], scan_output_axes = [1],
                  body = p (float[k] u, float[] w) => (float[k] o) { o = Sub (u, w) }> (a, b)
        after = SequenceInsert (before, y) }> }"""


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_the_body_of_a_loop_keeps_the_ranks_of_its_scans(strategy: Strategy) -> None:
    model = onnx.parser.parse_model(LOOP)
    rng = np.random.default_rng(0)
    shapes = ((2, 1), (3, 2), (2, 1), (1, 1))
    samples = [rng.integers(0, 4, shape).astype(np.float32) for shape in shapes]
    session = open_session(rewrite(model, strategy=strategy).model)
    for feeds in ({"s": samples}, {"s": samples[:1] * 12}, {"s": samples * 5}):
        expected = open_session(model, "reference").run(feeds)
        difference = compare(expected, session.run(feeds))
        assert difference.equal, difference.message


AROUND = {
    "a Scan that becomes none": """g (seq(float[]) s, float[n,2] x) => (float[?,?,?,?] y) {
        first = Constant <value_int = 0> () v = SequenceAt (s, first)
        y = Scan <num_scan_inputs = 1, body = outer (float[] p) => (float[] r) {
          r = Scan <num_scan_inputs = 1, body = inner (float[] q) => (float[k,2] t) {
            t = Min (p, x) }> (v) }> (v) }""",
    "a Loop over what is a sequence": """g (seq(float[?,?]) s) => (float[?,?] y, bool[?,?,?,?] z) {
        first = Constant <value_int = 0> () v = SequenceAt (s, first)
        y, z = Scan <num_scan_inputs = 1, body = outer (float[] p, float[] q)
          => (float[] r, bool[] all) {
          three = Constant <value = int64 {3}> () go = Constant <value = bool {1}> ()
          all = Loop (three, go) <body = inner (int64 i, bool c) => (bool d, bool[?,?] t) {
            d = Constant <value = bool {1}> () t = LessOrEqual (v, p) }>
          r = Add (p, q) }> (v, v) }""",
}


@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("name", AROUND)
def test_a_scan_around_what_is_fused_knows_its_ranks(name: str, strategy: Strategy) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {AROUND[name]}')
    rewritten = rewrite(model, strategy=strategy, tensor_io="Loop" in name).model
    feeds = {"s": [np.ones((3, 1), np.float32)] * 2, "x": np.ones((3, 2), np.float32)}
    names = {value.name for value in model.graph.input}
    check = validate(model, rewritten, inputs={n: v for n, v in feeds.items() if n in names})
    assert check.ok, check
