"""Integers of a body that a type tells become constants."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.graphs import constant_value, subgraphs
from passes.simplify import SimplifyBodiesPass

pytestmark = pytest.mark.quick

# Of each body: its nodes, and what is left in it. A sample is float[N,3] of a tensor.
BODIES: dict[str, tuple[str, str]] = {
    "a shape by parts": (
        """all = Constant <value_ints = [-1]> () s = Shape <start = 1> (r)
        t = Concat <axis = 0> (all, s) y = Reshape (r, t)""",
        "Constant Reshape",
    ),
    "a dimension": (
        """one = Constant <value_int = 1> () s = Shape (r) n = Gather (s, one)
        f = Cast <to = 1> (n) y = Div (r, f)""",
        "Div",
    ),
    "an open dimension": ("s = Shape (r) y = Cast <to = 1> (s)", "Shape Cast"),
    "a size with an open dimension": (
        "s = Size (r) f = Cast <to = 1> (s) y = Div (r, f)",
        "Size Cast Div",
    ),
    "a dimension that is only declared": (
        "s = Shape <start = 1> (q) y = Cast <to = 1> (s)",
        "Shape Cast",
    ),
    "what is no integer": (
        "s = Shape <start = 1> (r) f = Cast <to = 1> (s) y = Div (r, f)",
        "Div",
    ),
    "what a branch computes": (
        """h = Constant <value = bool {1}> () z = ReduceSum <keepdims = 0> (r)
        o = Constant <value = float {0}> () c = Greater (z, o)
        y = If (c) <then_branch = one () => (float[3] a) { s = Shape <start = 1> (r)
            a = Expand (z, s) }, else_branch = two () => (float[3] b) {
            u = Shape <start = 1> (r) b = Expand (o, u) }>""",
        "ReduceSum Constant Greater If",
    ),
}


def _model(body: str) -> onnx.ModelProto:
    # The elements of the second sequence are declared with 2 columns, which nothing checks.
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[B,N,3] x, seq(float[M,2]) qs) => (seq(float[]) ys) {{
            xs = SplitToSequence <keepdims = 0> (x)
            ys = SequenceMap (xs, qs) <body = each (float[] r, float[] q) => (float[] y)
                {{ {body} }}> }}"""
    )


@pytest.mark.parametrize("name", BODIES)
def test_what_a_type_tells_is_written(name: str) -> None:
    text, expected = BODIES[name]
    model = ir.from_proto(_model(text))
    SimplifyBodiesPass()(model)
    (node,) = (node for node in model.graph if node.op_type == "SequenceMap")
    ((_, body),) = subgraphs(node)
    assert sorted(inner.op_type for inner in body) == sorted(expected.split())


def test_the_numbers_are_those_of_the_shape() -> None:
    model = ir.from_proto(_model(BODIES["a shape by parts"][0]))
    SimplifyBodiesPass()(model)
    (node,) = (node for node in model.graph if node.op_type == "SequenceMap")
    ((_, body),) = subgraphs(node)
    (reshape,) = (inner for inner in body if inner.op_type == "Reshape")
    np.testing.assert_array_equal(constant_value(reshape.inputs[1]), [-1, 3])
