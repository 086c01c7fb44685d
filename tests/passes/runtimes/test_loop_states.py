"""A Loop declares the shape that a carried tensor begins with, and the tensor grows."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.runtimes import Authored, LoopStatesPass
from rewriter import rewrite
from tests.passes.expansion import operators
from tests.passes.loops import same

GROWS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,4] x) => (float[P,Q] y, float h) {
  yes = Constant <value = bool {1}> ()
  zero = Constant <value = float {0}> ()
  none = Constant <value = float[4] {0, 0, 0, 0}> ()
  row = Constant <value = float[1,4] {1, 2, 3, 4}> ()
  shape = Shape (x)
  first = Constant <value_int = 0> ()
  n = Gather (shape, first)
  y, h = Loop (n, yes, row, zero) <
    body = step (int64 i, bool on, float[1,4] rows, float past)
        => (bool more, float[P,Q] longer, float now) {
      r = Gather (x, i)
      total = Loop (n, yes, none) <body = sum (int64 j, bool go, float[4] s)
          => (bool again, float[K] t) { again = Identity (go)  t = Add (s, r) }>
      greatest = ReduceMax <keepdims = 0> (total)
      both = Add (greatest, past)
      now = Tanh (both)
      is_high = Greater (now, zero)
      longer = If (is_high) <
        then_branch = yes_ () => (float[A,B] v) {
          axes = Constant <value_ints = [0]> ()
          q = Unsqueeze (total, axes)
          v = Concat <axis = 0> (rows, q)
        },
        else_branch = no_ () => (float[A,B] w) { w = Concat <axis = 0> (row, rows, row) }>
      more = Identity (on)
    }>
}"""


def test_what_a_loop_carries_may_grow_behind_what_was_fused() -> None:
    before = onnx.parser.parse_model(GROWS)
    result = rewrite(before)
    assert operators(result.model)["Loop"] == 1
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((n, 4)).astype(np.float32)} for n in (0, 1, 2, 9)]
    assert same(before, result.model, *feeds) == len(feeds)


STATES = """<ir_version: 8, opset_import: ["" : 17]>
g (int64 n, float[2,4] x, float[4] w) => (float[P,Q] y, float[A,B] z) {
  yes = Constant <value = bool {1}> ()
  y, z = Loop (n, yes, x, x) <
    body = step (int64 i, bool on, float[2,4] grows, float[2,4] stays)
        => (bool more, float[P,Q] longer, float[A,B] next) {
      longer = Concat <axis = 0> (grows, x)
      next = Add (stays, w)
      more = Identity (on)
    }>
}"""


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_number_that_holds_stays(is_changed: bool) -> None:
    model = ir.from_proto(onnx.parser.parse_model(STATES))
    authored = Authored(model)
    if is_changed:
        (loop,) = (node for node in model.graph if node.op_type == "Loop")
        model.graph.insert_before(loop, ir.node("Relu", [model.graph.inputs[1]]))
    assert LoopStatesPass(authored)(model).modified == is_changed
    (loop,) = (node for node in model.graph if node.op_type == "Loop")
    grows, stays = loop.attributes["body"].as_graph().inputs[2:]
    assert list(grows.shape or ()) == [ir.SymbolicDim(None) if is_changed else 2, 4]
    assert list(stays.shape or ()) == [2, 4]
