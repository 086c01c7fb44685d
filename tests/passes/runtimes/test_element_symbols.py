"""Elements of one symbol stand side by side in a new model, and are of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from rewriter import rewrite
from tests.passes.expansion import operators
from tests.passes.loops import same

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
IMAGES = [(4, 2), (3, 4), (5, 1)]
WORK = "r = Relu (x)  w = Exp (r)  v = Neg (w)"


def of_a_loop(inputs: str, behind: str, trips: int = 3) -> onnx.ModelProto:
    """Return a model with a Loop of few iterations over a sequence of elements ``[H,W]``."""
    return onnx.parser.parse_model(
        HEAD
        + f"""g ({inputs}) => (seq(float[A,B]) q, float a) {{
            none = SequenceEmpty <dtype = 1> ()
            trips = Constant <value = int64 {{{trips}}}> ()
            yes = Constant <value = bool {{1}}> ()
            q = Loop (trips, yes, none) <
                body = step (int64 i, bool c, seq(float[A,B]) sofar)
                    => (bool d, seq(float[A,B]) longer) {{
                    x = SequenceAt (s, i) {WORK}
                    longer = SequenceInsert (sofar, v)
                    d = Identity (c) }}>
            first = Constant <value = int64 {{0}}> ()
            {behind}
            a = ReduceSum <keepdims = 0> (o) }}"""
    )


LIST = "seq(float[H,W]) s"
MODELS = {
    "copies": of_a_loop(LIST, "o = SequenceAt (q, first)"),
    "beside-the-author's": of_a_loop(LIST, "o = SequenceAt (s, first)"),
    "two-sequences": of_a_loop(
        f"{LIST}, seq(float[H,W]) t", "p = SequenceAt (t, first)  m = Exp (p)  o = Neg (m)", 1
    ),
}


def feed(model: onnx.ModelProto) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    images = {
        name: [rng.random(size, np.float32) for size in np.roll(IMAGES, turn, 0)]
        for turn, name in enumerate("st")
    }
    return {value.name: images[value.name] for value in model.graph.input}


@pytest.mark.parametrize("name", MODELS)
def test_images_of_any_size_beside_each_other(name: str) -> None:
    before = MODELS[name]
    after = rewrite(before).model
    assert operators(after)["Loop"] == 0
    assert same(before, after, feed(before)) == 1


def test_one_sequence_is_hidden_once() -> None:
    after = rewrite(MODELS["copies"]).model
    assert operators(after)["SequenceErase"] == 1


def test_what_is_promised_to_be_equal_is_not_hidden() -> None:
    after = rewrite(MODELS["copies"], input_shapes={"s": [4, 2]}).model
    assert operators(after)["SequenceErase"] == 0


def test_an_author_s_reads_stay() -> None:
    before = onnx.parser.parse_model(
        HEAD
        + """g (seq(float[H,W]) s, seq(float[N]) l) => (float[P,Q] y, seq(float[N]) z) {
            a = Constant <value = int64 {0}> ()
            b = Constant <value = int64 {1}> ()
            u = SequenceAt (s, a)  v = SequenceAt (s, b)  y = MatMul (u, v)
            z = SequenceMap (l) <body = m (float[N] e) => (float[N] f) { f = Neg (e) }> }"""
    )
    after = rewrite(before, strategy="expand").model
    (read,) = {n.input[0] for n in after.graph.node if n.op_type == "SequenceAt"}
    assert read == "s"
