"""Bodies of Loops that only the number of iterations ends hand their condition on."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_nodes
from passes.runtimes import Authored, LoopConditionsPass
from rewriter.backends import run

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
YES = "Constant <value = bool {1}> ()"


def loop(condition: str, given: str = "t") -> ir.Model:
    text = f"""{HEADER} g (float[N] x, int64 n, bool f) => (float y, float[M] ys) {{
        t = {YES} no = Constant <value = bool {{0}}> () z = Constant <value = float {{0}}> ()
        y, ys = Loop (n, {given}, z) <body = b (int64 i, bool c, float s)
                                             => (bool d, float s2, float r) {{
            e = Gather (x, i) s2 = Add (s, e) r = Neg (s2) k = Constant <value = float {{9}}> ()
            {condition} }}> }}"""
    return ir.from_proto(onnx.parser.parse_model(text))


def yielded(model: ir.Model) -> ir.Node:
    (node,) = (node for node in all_nodes(model) if node.op_type == "Loop")
    maker = node.attributes["body"].as_graph().outputs[0].producer()
    assert maker is not None
    return maker


CASES = {
    "a constant": (f"d = {YES}", "t", True),
    "a constant of the body, handed on": (f"h = {YES} d = Identity (h)", "t", True),
    "a constant around the body": ("d = Identity (t)", "t", True),
    "an integer as a flag": ("h = Constant <value_int = 1> () d = Cast <to = 9> (h)", "t", True),
    "no condition at the start": (f"d = {YES}", "", True),
    "a condition that is fed": (f"d = {YES}", "f", False),
    "one that never runs": (f"d = {YES}", "no", False),
    "one that ends behind the first": ("d = Identity (no)", "t", False),
    "what is computed": ("d = Less (s2, k)", "t", False),
    "what is handed": ("d = Identity (c)", "t", False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_condition_that_always_holds_is_handed_on(name: str) -> None:
    body, given, is_handed_on = CASES[name]
    feeds = [
        {"x": np.arange(5, dtype=np.float32), "n": np.array(n), "f": np.array(f)}
        for n in (0, 1, 5)
        for f in (True, False)
    ]
    before = [run(loop(body, given), one) for one in feeds]
    model = loop(body, given)
    assert LoopConditionsPass()(model).modified == is_handed_on
    if is_handed_on:
        assert yielded(model).op_type == "Identity"
        assert yielded(model).inputs[0] is not None
        assert yielded(model).inputs[0].is_graph_input()
    for one, expected in zip(feeds, before, strict=True):
        found = run(model, one)
        assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert not LoopConditionsPass()(model).modified


def test_a_loop_of_the_author_in_its_place_stays() -> None:
    model = loop(f"d = {YES}")
    assert not LoopConditionsPass(Authored(model))(model).modified
