"""Weights that are copied to readers two graphs further in, and those that stay."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from passes.graph.graphs import all_nodes
from passes.runtimes import Authored, NearConstantsPass, NearWeightsPass
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


BRANCHES = """g (float[N,4] x, bool f) => (float[N,4] y) {
    two = Constant <value = float {2.0}> ()
    z = Mul (x, two)
    y = If (f) <
      then_branch = yes () => (float[N,4] v) { a = Mul (z, two)  v = Add (a, row) },
      else_branch = no () => (float[N,4] u) {
        n = Constant <value = int64 {3}> ()
        u = Loop (n, , z) <body = b (int64 i, bool c, float[N,4] s) => (bool d, float[N,4] r) {
          d = Identity (c)  q = Mul (s, three)  p = Mul (q, two)  r = Add (p, table) }> }> }"""


def branches() -> ir.Model:
    """Return a model whose branches read constants of the main graph, one of them large."""
    proto = onnx.parser.parse_model(f"{HEADER} {BRANCHES}")
    for name, dims in {"row": (4,), "three": (), "table": (25, 4)}.items():
        array = np.full(dims, 3, np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return ir.from_proto(proto)


def from_around(model: ir.Model) -> list[str]:
    """Return the names of constants of the main graph that inner nodes read."""
    inner = [node for node in all_nodes(model) if node.graph is not model.graph]
    read = (v for node in inner for v in node.inputs if v is not None and v.graph is model.graph)
    return sorted({v.name or "" for v in read if v.name != "z"})


def test_small_constants_stand_in_the_branches_that_read_them() -> None:
    """onnxruntime hands a branch all that it reads from around it, each time that it runs."""
    model = branches()
    assert from_around(model) == ["row", "table", "three", "two"]
    x = np.arange(100, dtype=np.float32).reshape(25, 4)
    feeds = [{"x": x, "f": np.array(flag)} for flag in (True, False)]
    before = [run(branches(), feed)["y"] for feed in feeds]
    assert NearConstantsPass()(model).modified
    assert from_around(model) == ["table"]
    for feed, expected in zip(feeds, before, strict=True):
        np.testing.assert_array_equal(run(model, feed)["y"], expected)
    assert not NearConstantsPass()(model).modified


def test_a_constant_that_only_branches_read_leaves_the_main_graph() -> None:
    proto = onnx.parser.parse_model(f"{HEADER} {BRANCHES.replace('Mul (x, two)', 'Neg (x)')}")
    model = ir.from_proto(proto)
    assert NearConstantsPass()(model).modified
    assert "two" not in {value.name for node in model.graph for value in node.outputs}


def test_constants_that_the_author_placed_stay() -> None:
    model = branches()
    assert not NearConstantsPass(Authored(model))(model).modified
