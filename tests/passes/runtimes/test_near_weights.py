"""Weights that are copied to readers two graphs further in, and those that stay."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from passes.graph.graphs import all_nodes
from passes.runtimes import Authored, NearWeightsPass
from rewriter import rewrite
from rewriter.backends import run

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
LOOP = """Loop (n, t) <body = b (int64 i, bool c) => (bool d, float[1,K] r) {
    d = Identity (c)  e = Gather (x, i)  r = MatMul (e, w) }>"""
NEAR = f"y = {LOOP}"
FAR = f"""y = If (f) <then_branch = yes () => (float[N,1,K] v) {{ v = {LOOP} }},
    else_branch = no () => (float[N,1,K] u) {{ u = Identity (x) }}>"""


def graph(body: str, size: int = 17) -> ir.Model:
    """Return a model with weights ``[size, size]`` in its main graph."""
    proto = onnx.parser.parse_model(
        f"""{HEADER} g (float[N,1,{size}] x, bool f) => (float[N,1,K] y) {{
            s = Shape <end = 1> (x)  z = Constant <value_ints = [0]> ()  n = Squeeze (s, z)
            t = Constant <value = bool {{1}}> ()  {body} }}"""
    )
    weights = np.random.default_rng(1).standard_normal((size, size)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return ir.from_proto(proto)


def reader(model: ir.Model) -> ir.Node:
    (found,) = (node for node in all_nodes(model) if node.op_type == "MatMul")
    return found


def rows(model: ir.Model, size: int = 17) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal((100, 1, size)).astype(np.float32)
    found: np.ndarray = run(model, {"x": x, "f": np.array(True)})["y"]
    return found


def test_the_loop_in_a_branch_reads_a_copy_and_gives_the_same_bits() -> None:
    model = graph(FAR)
    near = rows(graph(NEAR))
    assert (rows(model) != near).any()  # onnxruntime packs what it finds now? then drop the pass
    assert NearWeightsPass()(model).modified
    weights = reader(model).inputs[1]
    assert weights is not None
    assert weights.graph is reader(model).graph
    np.testing.assert_array_equal(rows(model), near)
    assert not NearWeightsPass()(model).modified


STAY = {
    "one graph around": (NEAR, 17),
    "too large": (FAR, 520),
    "computed": (FAR.replace("MatMul (e, w)", "MatMul (e, k)").join(["k = Neg (w) ", ""]), 17),
    "no operator that packs": (FAR.replace("MatMul (e, w)", "Add (e, w)"), 17),
}


@pytest.mark.parametrize("name", STAY)
def test_others_stay(name: str) -> None:
    body, size = STAY[name]
    assert not NearWeightsPass()(graph(body, size)).modified


def test_weights_that_may_be_fed_stay() -> None:
    model = graph(FAR)
    model.graph.inputs.append(model.graph.initializers["w"])
    assert not NearWeightsPass()(model).modified


def test_what_the_author_wrote_stays() -> None:
    model = graph(FAR)
    assert not NearWeightsPass(Authored(model))(model).modified


def test_the_copies_are_limited() -> None:
    """Each takes a MiB, and eight are made."""
    size = 512
    loops = "".join(
        f"y{at} = {FAR.removeprefix('y = ').replace(' b (', f' b{at} (')} " for at in range(9)
    )
    total = "y = Sum (" + ", ".join(f"y{at}" for at in range(9)) + ")"
    model = graph(loops + total, size)
    assert NearWeightsPass()(model).modified
    readers = [node for node in all_nodes(model) if node.op_type == "MatMul"]
    near = [n for n in readers if n.inputs[1] is not None and n.inputs[1].graph is n.graph]
    assert (len(near), len(readers)) == (8, 9)


def test_a_guarded_map_reads_its_weights_where_they_are_packed() -> None:
    text = f"""{HEADER} g (seq(float[R,17]) xs) => (seq(float[R,17]) ys) {{
        ys = SequenceMap (xs) <body = b (float[R,17] x) => (float[R,17] y) {{
            h = MatMul (x, w)  r = Relu (h)  q = MatMul (r, w)  y = Softmax (q) }}> }}"""
    proto = onnx.parser.parse_model(text)
    weights = np.random.default_rng(1).standard_normal((17, 17)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    made = ir.from_proto(rewrite(proto).model)
    assert any(node.op_type == "If" for node in all_nodes(made))
    assert not NearWeightsPass()(made).modified
