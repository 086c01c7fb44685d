"""Outputs of a model that are declared with other dimensions than they have."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from rewriter.backends import open_session
from rewriter.model_files.checking import correct_declarations

LOOP = """<ir_version: 9, opset_import: ["" : 18]>
g (float[7,2] x) => (float[DIMS] y) <int64 n = {7}, bool go = {1}> {
  y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[2] r) {
    d = Identity (c) q = Gather (x, i) r = Neg (q) }> }"""
PLAIN = """<ir_version: 9, opset_import: ["" : 18]>
g (float[7,N] x) => (float[DIMS] y) { y = Neg (x) }"""


def test_a_declaration_that_is_false_is_corrected_where_the_loop_goes() -> None:
    given = onnx.parser.parse_model(LOOP.replace("DIMS", "2,2"))
    result = rewriter.rewrite(given, require=["loop-free"])
    (told,) = result.report.warnings
    assert told == (
        "output 'y' is declared [2,2] although it is [7,2]; the new model declares it so"
    )
    (dims,) = [
        [d.dim_value for d in o.type.tensor_type.shape.dim] for o in result.model.graph.output
    ]
    assert dims == [7, 2]
    feed = {"x": np.ones((7, 2), np.float32)}
    assert open_session(result.model).run(feed)["y"].shape == (7, 2)


DECLARED = {
    "what it is": ("7,N", None),
    "another number": ("6,N", "[6,?] although it is [7,?]"),
    "another rank": ("N", "[?] although it is [7,?]"),
    "a symbol": ("M,N", None),
    "a number of what is not known": ("7,3", None),
}


@pytest.mark.parametrize("name", DECLARED)
def test_only_what_is_false_by_proof_is_corrected(name: str) -> None:
    dims, expected = DECLARED[name]
    model = ir.from_onnx_text(PLAIN.replace("DIMS", dims))
    told = correct_declarations(model) or []
    assert [text.split(" is declared ")[1].split(";")[0] for text in told] == (
        [] if expected is None else [expected]
    )


def test_an_output_without_dimensions_is_left_alone() -> None:
    model = ir.from_onnx_text(PLAIN.replace("[DIMS]", ""))
    model.graph.outputs[0].shape = None
    assert correct_declarations(model) is None


def test_a_false_declaration_inside_is_dropped_where_the_loop_goes() -> None:
    """As `unsafe_reshape` of spox declares: rows have another rank than their initial value."""
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[N,2] x) => (float[R] z) <int64 n = {3}, bool go = {1}, float[R] u, float[R] v> {
      f = Constant <value = float[2] {1, 2}> ()
      y = Loop (n, go, f) <body = b (int64[1] i, bool c, float[2] a) => (bool d, r) {
        d = Identity (c) q = Gather (x, i) r = Add (a, q) }>
      u = Neg (y) v = Identity (u) z = Relu (v) }"""
    given = onnx.parser.parse_model(text)
    result = rewriter.rewrite(given, require=["loop-free"])
    (told,) = result.report.warnings
    assert told.startswith("output 'z' is declared [?] although it is [1,2];")
    feed = {"x": np.ones((4, 2), np.float32)}
    got, expected = (open_session(model).run(feed)["z"] for model in (result.model, given))
    np.testing.assert_array_equal(got, expected)


def test_what_one_branch_makes_contradicts_a_declaration() -> None:
    """Nothing is known of the other branch, so nothing is declared instead."""
    model = ir.from_onnx_text("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[] x, bool c) => (seq(float[P,Q]) y) {
          y = If (c) <then_branch = a () => (seq(float[]) p) {
            p = SplitToSequence <keepdims = 0> (x) }, else_branch = b () => (seq(float[2]) q) {
            v = Constant <value = float[2] {1, 2}> () q = SequenceConstruct (v) }> }""")
    (told,) = correct_declarations(model) or [""]
    assert told.endswith("[?,?] although a branch makes it [2]; the new model declares none")
    assert model.graph.outputs[0].shape is None
