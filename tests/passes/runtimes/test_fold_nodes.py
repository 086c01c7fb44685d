"""What is the same in every run becomes a constant, and nodes that do nothing go."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_nodes
from passes.runtimes import Authored, FoldNodesPass
from rewriter import rewrite
from rewriter.backends import run

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def graph(body: str) -> ir.Model:
    text = f"{HEADER} g (float[N,4] x, bool f) => (float[M,K] y) {{ {body} }}"
    return ir.from_proto(onnx.parser.parse_model(text))


FOLDED = {
    "an Identity": ("v = Identity (x) y = Neg (v)", ["Neg"]),
    "a chain of Identities": ("u = Identity (x) v = Identity (u) y = Neg (v)", ["Neg"]),
    "a cast to the same type": ("v = Cast <to = 1> (x) y = Neg (v)", ["Neg"]),
    "a cast to another type": (
        "u = Cast <to = 11> (x) v = Cast <to = 1> (u) y = Neg (v)",
        ["Cast", "Cast", "Neg"],
    ),
    "a known dimension": (
        "s = Shape <start = 1> (x) t = Concat <axis = 0> (s, s) y = Reshape (x, t)",
        ["Reshape"],
    ),
    "an open dimension": ("s = Shape (x) y = Reshape (x, s)", ["Shape", "Reshape"]),
    "few numbers of one value": (
        "s = Constant <value_ints = [1, 4]> () c = ConstantOfShape <value = float[1] {2}> (s)"
        "y = Mul (x, c)",
        ["Mul"],
    ),
    "many numbers of one value": (
        "s = Constant <value_ints = [1000, 1, 4]> () c = ConstantOfShape (s)"
        "r = ReduceSum <keepdims = 0> (c, a) a = Constant <value_ints = [0]> () y = Add (x, r)",
        ["ConstantOfShape", "ReduceSum", "Add"],
    ),
    "a constant of more axes": (
        "c = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()"
        "a = Constant <value_ints = [0]> () u = Unsqueeze (c, a) y = Mul (x, u)",
        ["Mul"],
    ),
    "what is given out": ("y = Identity (x)", ["Identity"]),
}


@pytest.mark.parametrize("name", FOLDED)
def test_a_graph_folds_to_what_depends_on_its_inputs(name: str) -> None:
    body, left = FOLDED[name]
    if "many" in name:
        body = "a = Constant <value_ints = [0]> () " + body.replace(
            "a = Constant <value_ints = [0]> () y", "y"
        )
    x = np.ones((4, 4), np.float32) if "dimension" in name else X
    before = run(graph(body), {"x": x, "f": np.array(True)})["y"]
    model = graph(body)
    modified = FoldNodesPass()(model).modified
    kept = [node.op_type for node in all_nodes(model) if node.op_type != "Constant"]
    assert kept == left
    assert modified == (
        kept != [n.op_type for n in all_nodes(graph(body)) if n.op_type != "Constant"]
    )
    np.testing.assert_array_equal(run(model, {"x": x, "f": np.array(True)})["y"], before)
    assert not FoldNodesPass()(model).modified


def test_a_condition_is_not_decided_before_the_model_is_loaded() -> None:
    """onnxruntime loses what the branch of an If of constant condition reads."""
    body = """s = Size (x) z = Constant <value_int = 0> () n = Sub (s, s)
        c = Equal (n, z)
        y = If (c) <then_branch = t () => (float[N,4] p) { p = Neg (x) },
                    else_branch = e () => (float[N,4] q) { q = Abs (x) }>"""
    model = graph(body)
    FoldNodesPass()(model)
    assert "Equal" in [node.op_type for node in all_nodes(model)]


def test_what_the_author_wrote_in_place_stays() -> None:
    model = graph("v = Identity (x) y = Neg (v)")
    assert not FoldNodesPass(Authored(model))(model).modified


def test_equal_constants_of_a_graph_are_one() -> None:
    model = graph(
        "s = Shape <start = 1> (x) t = Concat <axis = 0> (s, s) u = Concat <axis = 0> (s, s)"
        "v = Reshape (x, t) y = Reshape (v, u)"
    )
    FoldNodesPass()(model)
    assert [node.op_type for node in model.graph].count("Constant") == 1


def test_the_session_has_nothing_to_fold_that_a_rewrite_wrote() -> None:
    """A map over slices reads bounds of one type: no cast to it is written."""
    text = f"""{HEADER} g (float[T,4] x, int64[B] n) => (float[B,4] y) {{
        s = SplitToSequence <axis = 0> (x, n)
        q = SequenceMap (s) <body = b (float[L,4] e) => (float[4] o) {{
            a = Constant <value_ints = [0]> () u = Tanh (e) o = ReduceMax <keepdims = 0> (u, a) }}>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (q) }}"""
    model = ir.from_proto(rewrite(onnx.parser.parse_model(text)).model)
    idle = [node for node in all_nodes(model) if node.op_type == "Identity"]
    assert all(node.outputs[0].is_graph_output() for node in idle)
