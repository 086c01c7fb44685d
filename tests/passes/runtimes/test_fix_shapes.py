"""Models for inputs of certain shapes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from passes.runtimes.fix_shapes import FixShapesPass
from rewriter.backends import run

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N,3] x) => (float[?] y, float[N,3] z) {
    all = Constant <value_ints = [-1]> () s = Shape (x) n = ReduceProd <keepdims = 0> (s)
    axis = Constant <value_ints = [0]> () m = Unsqueeze (n, axis)
    u = Identity (x) v = Neg (u) y = Reshape (v, all) z = Identity (v) }"""


def test_copies_go_and_results_stay() -> None:
    given = onnx.parser.parse_model(TEXT)
    model = ir.from_proto(given)
    assert FixShapesPass({"x": (2, 3)})(model).modified
    operators = [node.op_type for node in model.graph]
    assert operators.count("Neg") == 1
    assert operators.count("Identity") <= 1
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    for name, found in run(model, feeds).items():
        np.testing.assert_array_equal(found, run(given, feeds)[name], strict=True)


BEHIND = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N,3] x) => (float[?,?] y) <float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
    p = MatMul (x, w) s = Shape (p) k = Constant <value_ints = [1, 2]> () t = Tile (p, k)
    u = Shape <start = 1> (t) r = Constant <value_ints = [-1]> ()
    c = Concat <axis = 0> (u, r) y = Reshape (t, c) }"""


def test_shapes_of_what_is_computed_are_constants() -> None:
    given = onnx.parser.parse_model(BEHIND)
    model = ir.from_proto(given)
    FixShapesPass({"x": (2, 3)})(model)
    assert [node.op_type for node in model.graph] == ["MatMul", "Tile", "Reshape"]
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    np.testing.assert_array_equal(run(model, feeds)["y"], run(given, feeds)["y"], strict=True)
