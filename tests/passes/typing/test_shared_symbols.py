"""One symbol of two declared types says nothing of the elements of a sequence.

onnxruntime gives one value the memory of another if both have the same symbols.
"""

from __future__ import annotations

from typing import get_args

import numpy as np
import onnx
import pytest

from rewriter.backends import open_session
from rewriter.options import Strategy
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g ({inputs}) => (seq(float[]) ys, seq(float[]) ws) {{
    ys, ws = SequenceMap ({mapped}) <body = f ({elements}) => (float[] y, float[] w) {{
        first = Constant <value_int = 0> ()
        {nodes} }}> }}"""
SEQUENCES = {
    "inputs": "seq(float[N,M]) xs, seq(float[N,M]) zs",
    "mapped": "xs, zs",
    "elements": "float[A,B] x, float[C,D] z",
}
CAPTURED = {
    "inputs": "seq(float[N,M]) xs, float[N,M] z",
    "mapped": "xs",
    "elements": "float[A,B] x",
}
ITSELF = {"inputs": "seq(float[N,M]) xs", "mapped": "xs", "elements": "float[A,B] x"}
BOTH_READ = "y = Gather <axis = 0> (x, first) w = Gather <axis = 0> (z, first)"
ONE_AFTER_THE_OTHER = """u = Exp (z) total = ReduceSum <keepdims = 0> (u)
    v = Exp (x) y = Mul (v, total) w = Neg (z)"""
WITH_A_SCAN = """column = Constant <value_ints = [1]> ()
    y = Gather <axis = -1> (x, first) start = ReduceMax <keepdims = 0> (z, column)
    w, rows = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = s (float[k] a, float[k] b)
        => (float[k] c, float[k] d) { c = Mul (a, b) d = Relu (c) }> (start, z)"""
READ_TWICE = """u = Exp (x) total = ReduceSum <keepdims = 0> (u)
    e = SequenceAt (xs, first) v = Exp (e) y = Mul (v, total) w = Neg (e)"""
CASES = {
    "two sequences": SEQUENCES | {"nodes": BOTH_READ},
    "two sequences and a Scan": SEQUENCES | {"nodes": WITH_A_SCAN},
    "a sequence and a captured tensor": CAPTURED | {"nodes": ONE_AFTER_THE_OTHER},
    "a sequence that the body reads, too": ITSELF | {"nodes": READ_TWICE},
}


@pytest.mark.sampled
@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("name", CASES)
def test_elements_have_memory_of_their_own(name: str, strategy: Strategy) -> None:
    model = onnx.parser.parse_model(TEXT.format(**CASES[name]))
    rng = np.random.default_rng(0)
    xs = [rng.random(shape, np.float32) for shape in ((1, 2), (4, 3), (3, 3))]
    zs = [rng.random(shape, np.float32) for shape in ((2, 2), (5, 2), (1, 7))]
    session = open_session(rewrite(model, strategy=strategy).model)
    for count in (1, 3):
        feeds = {"xs": xs[:count], "zs": zs[:count], "z": rng.random((4, 5), np.float32)}
        fed = {given.name: feeds[given.name] for given in model.graph.input}
        expected = open_session(model, "reference").run(fed)
        difference = compare(expected, session.run(fed))
        assert difference.equal, difference.message


TRUSTED = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[N,M]) xs, float[M] row) => (seq(float[?,?]) ys, float[M] same) {
    same = Neg (row)
    ys = SequenceMap (xs) <body = f (float[?,?] x) => (float[?,?] y) { y = Neg (x) }> }"""


def test_trusted_types_say_nothing_by_symbols() -> None:
    model = onnx.parser.parse_model(TRUSTED)
    feeds = {"xs": [np.ones((3, 4), np.float32), np.ones((0, 2), np.float32)]}
    feeds |= {"row": np.ones(4, np.float32)}
    expected = open_session(model, "reference").run(feeds)
    session = open_session(rewrite(model, strategy="fuse", trust_types=True).model)
    difference = compare(expected, session.run(feeds))
    assert difference.equal, difference.message
