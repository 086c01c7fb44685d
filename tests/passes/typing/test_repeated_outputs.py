"""Branches and bodies that yield one value in two places: every place has its type."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.typing import type_values
from rewriter.backends import open_session
from tests.passes.loops import model, read

GRAPHS = {
    "branches": """(bool b, float[3] a) => (float[3] y) {
        y, u = If (b) <then_branch = yes () => (float[3] p, float[3] p) { p = Tanh (a) },
            else_branch = no () => (float[3] q, float[3] q2) { q = Relu (a)  q2 = Neg (a) }> }""",
    "one branch, three places": """(bool b, float[3] a) => (float[3] y) {
        y, u, v = If (b) <then_branch = yes () => (float[3] p, float[3] p, float[3] p)
                { p = Tanh (a) },
            else_branch = no () => (float[3] q, float[3] q, float[3] q) { q = Relu (a) }> }""",
    "a body": """(bool b, float[3] a) => (float[3] y) {
        n = Constant <value = int64 {2}> ()
        y, ys = Loop (n, b, a) <body = step (int64 i, bool c, float[3] s)
            => (bool d, float[3] s2, float[3] s2) { s2 = Tanh (s)  d = Identity (c) }> }""",
}


@pytest.mark.quick
@pytest.mark.parametrize("proven", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_place_has_a_rank(name: str, *, proven: bool) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g {GRAPHS[name]}'
    taken = ir.from_proto(onnx.parser.parse_model(text))
    typing = type_values(taken, proven=proven, ranks=False)
    values = [value for node in taken.graph for value in node.outputs]
    assert all(typing.rank(value) is not None for value in values)


RESETS = """g (float[N] r) => (float[N] ys) {
    t = Constant <value = bool {1}> ()  shape = Shape (r)  n = Squeeze (shape)
    z = Constant <value = float {0}> ()
    s9, w9, ys = Loop (n, t, z, z) <body = step (int64 i, bool c, float s, float w)
        => (bool d, float s2, float w2, float y) {
        three = Constant <value = int64 {3}> ()  zero = Constant <value = int64 {0}> ()
        m = Mod (i, three)  b = Equal (m, zero)  a = Gather (r, i)
        u, v = If (b) <then_branch = yes () => (float p, float p) { p = Identity (z) },
            else_branch = no () => (float q, float q2) { q = Identity (s)  q2 = Identity (w) }>
        s2 = Add (u, a)  h = Mul (a, a)  w2 = Add (v, h)  y = Sub (w2, s2)
        d = Identity (c)
    }>
}"""


@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_two_totals_that_begin_anew_with_one_value(length: int) -> None:
    before = model(RESETS)
    found = read(before)
    assert found.loops == 0
    feed = {"r": np.random.default_rng(length).normal(size=length).astype(np.float32)}
    expected, made = (open_session(one).run(feed)["ys"] for one in (before, found.model))
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)
