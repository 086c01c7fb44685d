"""Loops that stand in model-local functions."""

from __future__ import annotations

import onnx
import pytest

import rewriter
from tests.passes.loops import read, rows, same

MAPPED = """
<domain: "own", opset_import: ["" : 17]>
per_row <factor> (v) => (w) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    shape = Shape (v)
    n = Gather <axis = 0> (shape, zero)
    f = Constant <value_float: float = @factor> ()
    w = Loop (n, t) <body = step (int64 i, bool c) => (bool go, float[4] y) {
        e = Gather <axis = 0> (v, i)
        m = Mul (e, f)
        y = Relu (m)
        go = Identity (t)
    }>
}
"""
SUMMED = """
<domain: "own", opset_import: ["" : 17]>
sums (v) => (w) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    shape = Shape (v)
    n = Gather <axis = 0> (shape, zero)
    none = Constant <value = float[4] {0, 0, 0, 0}> ()
    last, w = Loop (n, t, none) <body = step (int64 i, bool c, float[4] s)
        => (bool go, float[4] s2, float[4] y) {
        e = Gather <axis = 0> (v, i)
        u = Add (s, e)
        s2 = Tanh (u)
        y = Identity (s2)
        go = Identity (t)
    }>
}
"""
CALLING = """
<domain: "own", opset_import: ["" : 17, "own" : 1]>
calls (v) => (w) { a = own.per_row <factor: float = 2.0> (v)  w = Exp (a) }
"""


def parsed(body: str, *functions: str) -> onnx.ModelProto:
    head = '<ir_version: 8, opset_import: ["" : 17, "own" : 1]>'
    text = f"g (float[N,4] x) => (float[M,4] ys) {{ {body} }}"
    return onnx.parser.parse_model(f"{head} {text} {' '.join(functions)}")


FEEDS = [{"x": rows(n, 4)} for n in (1, 3, 0)]
CASES = {
    "once": ("ys = own.per_row <factor: float = 2.0> (x)", (MAPPED,)),
    "twice": (
        "a = own.per_row <factor: float = 2.0> (x) ys = own.per_row <factor: float = -1.0> (a)",
        (MAPPED,),
    ),
    "through_a_call": ("ys = own.calls (x)", (MAPPED, CALLING)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function_that_maps_is_inlined_and_fused(name: str) -> None:
    body, functions = CASES[name]
    before = parsed(body, *functions)
    found = read(before)
    assert found.loops == 0
    assert not found.model.functions
    assert same(before, found.model, *FEEDS) == len(FEEDS)


def test_a_function_of_a_recurrence_stays() -> None:
    before = parsed("a = own.per_row <factor: float = 2.0> (x) ys = own.sums (a)", MAPPED, SUMMED)
    found = read(before)
    assert [function.name for function in found.model.functions] == ["sums"]
    assert found.operators["Loop"] == 1
    assert found.codes == ["recurrence"]
    assert same(before, found.model, *FEEDS) == len(FEEDS)


def test_a_model_of_which_nothing_is_fused_stays_as_it_is() -> None:
    before = parsed("ys = own.sums (x)", SUMMED)
    found = read(before)
    assert found.codes == ["recurrence"]
    assert [node.op_type for node in found.model.graph.node] == ["sums"]


ROWS = """<domain: "own", opset_import: ["" : 17]>
rows (x) => (y) {
    r = SplitToSequence <axis = 0> (x)
    s = SequenceMap (r) <body = b (v) => (w) { w = Mul (v, v) }>
    y = ConcatFromSequence <axis = 0> (s) }"""


@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
def test_a_function_of_maps_that_nothing_calls_is_left_out(strategy: str) -> None:
    before = parsed("ys = own.per_row <factor: float = 2.0> (x)", MAPPED, ROWS)
    after = rewriter.optimize(before, strategy=strategy)
    assert "rows" not in [function.name for function in after.functions]
    assert same(before, after, *FEEDS) == len(FEEDS)
