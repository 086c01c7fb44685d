"""Quantized weights stand in the graph of the product that reads them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_graphs
from passes.runtimes import Authored, SidestepDefectsPass
from rewriter.model_files.checking import check
from rewriter.pipeline import optimize
from tests.passes.runtimes.upstream import run

WEIGHTS = "int8[2, 2] w = {1, 2, 3, 4}"
SCALE = "float[2] s = {0.5, 1.0}"
BRANCH = """<ir_version: 10, opset_import: ["": 21]>
g (float[N, 2] x, bool choice) => (float[N, 2] y) <%s> {
    %s
    y = If (choice) <
        then_branch = one () => (float[N, 2] a) <%s> { %s },
        else_branch = two () => (float[N, 2] b) { b = Neg(x) }
    >
}
"""
PRODUCT = "d = DequantizeLinear(w, s) a = MatMul(x, d)"
X = np.array([[127, -64]], np.float32)
EXPECTED = np.array([[-32.5, -2]], np.float32)


def pass_over_moved_nodes() -> SidestepDefectsPass:
    """Return the pass over a model in which no node is the author's."""
    other = onnx.parser.parse_model(BRANCH % (f"{WEIGHTS}, {SCALE}", "", "float k = {0}", PRODUCT))
    return SidestepDefectsPass(authored=Authored(ir.from_proto(other)))


def sidestepped(*parts: str) -> tuple[ir.Model, bool]:
    model = ir.from_proto(onnx.parser.parse_model(BRANCH % parts))
    return model, pass_over_moved_nodes()(model).modified


def operators_within(model: ir.Model) -> list[str]:
    return [n.op_type for graph in all_graphs(model) for n in graph if graph is not model.graph]


@pytest.mark.parametrize(
    ("outside", "before", "inside", "steps"),
    [
        (f"{WEIGHTS}, {SCALE}", "", "float k = {0}", PRODUCT),
        (WEIGHTS, "", SCALE, PRODUCT),
        (SCALE, "", WEIGHTS, PRODUCT),
        (
            "float k = {0}",
            f"w = Constant <value = {WEIGHTS[:10]} {WEIGHTS[14:]}> ()",
            SCALE,
            PRODUCT,
        ),
        (WEIGHTS, "", SCALE, "v = Identity(w) d = DequantizeLinear(v, s) a = Gemm(x, d)"),
        (WEIGHTS, "", SCALE, "d = DequantizeLinear(w, s) e = Identity(d) a = MatMul(x, e)"),
    ],
)
def test_weights_come_to_the_product(outside: str, before: str, inside: str, steps: str) -> None:
    model, is_modified = sidestepped(outside, before, inside, steps)
    assert is_modified
    check(model)
    assert "Max" not in operators_within(model)
    found = run(ir.to_proto(model), {"x": X, "choice": np.array(True)})
    np.testing.assert_array_equal(found, EXPECTED, strict=True)
    assert not pass_over_moved_nodes()(model).modified


@pytest.mark.parametrize(
    ("outside", "inside", "steps"),
    [
        ("float k = {0}", f"{WEIGHTS}, {SCALE}", PRODUCT),
        (f"{WEIGHTS}, {SCALE}", "float k = {0}", "d = DequantizeLinear(w, s) a = Add(x, d)"),
    ],
)
def test_other_weights_stay(outside: str, inside: str, steps: str) -> None:
    assert not sidestepped(outside, "", inside, steps)[1]


def test_many_weights_are_kept_from_the_product() -> None:
    size = 1100
    text = f"""<ir_version: 10, opset_import: ["": 21]>
    g (float[N, {size}] x, bool choice) => (float[N, {size}] y) {{
        y = If (choice) <
            then_branch = one () => (float[N, {size}] a) {{ {PRODUCT} }},
            else_branch = two () => (float[N, {size}] b) {{ b = Neg(x) }}
        >
    }}"""
    proto = onnx.parser.parse_model(text)
    weights = np.eye(size, dtype=np.int8)
    scale = np.ones(size, np.float32)
    named = [onnx.numpy_helper.from_array(a, n) for n, a in (("w", weights), ("s", scale))]
    proto.graph.initializer.extend(named)
    model = ir.from_proto(proto)
    assert pass_over_moved_nodes()(model).modified
    assert "Max" in operators_within(model)
    x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
    found = run(ir.to_proto(model), {"x": x, "choice": np.array(True)})
    np.testing.assert_array_equal(found, x)


def test_a_loop_over_its_own_weights_becomes_a_branch() -> None:
    proto = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
    g (float[2] x, int64 n) => (seq(float[2]) y) <bool go = {{1}}> {{
        e = SequenceEmpty()
        y = Loop (n, go, e) <body = b (int64 i, bool c, seq(float[2]) l)
            => (bool k, seq(float[2]) m) <{WEIGHTS}, {SCALE}> {{
                k = Identity(c)
                d = DequantizeLinear(w, s)
                a = MatMul(x, d)
                m = SequenceInsert(l, a)
            }}>
    }}""")
    rewritten = optimize(proto)
    assert all(node.op_type != "Loop" for node in rewritten.graph.node)
    found = run(rewritten, {"x": X[0], "n": np.array(2)})
    np.testing.assert_array_equal(found, [EXPECTED[0]] * 2)


def test_weights_that_were_dequantized_outside_round_nothing() -> None:
    """onnxruntime rounds the other operand where one graph holds the product and its weights."""
    proto = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
    g (float[N, 2] x, int64 n) => (float[N, 2] y) <bool go = {{1}}, {WEIGHTS}, {SCALE}> {{
        d = DequantizeLinear(w, s)
        y = Loop (n, go) <body = b (int64 i, bool c) => (bool k, float[2] a) {{
            k = Identity(c)
            e = Gather(x, i)
            a = MatMul(e, d)
        }}>
    }}""")
    rewritten = optimize(proto)
    assert all(node.op_type != "Loop" for node in rewritten.graph.node)
    x = np.array([[1, 2], [3, 4]], np.float32)
    found = run(rewritten, {"x": x, "n": np.array(2)})
    np.testing.assert_array_equal(found, np.array([[3.5, 10], [7.5, 22]], np.float32))


def test_an_authors_product_of_dequantized_weights_stays() -> None:
    proto = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
    g (float[N, 2] x, int64 n) => (float[N, 2] a, float[M] y) <bool go = {{1}}, {WEIGHTS}, {SCALE}> {{
        d = DequantizeLinear(w, s)
        a = MatMul(x, d)
        v = Identity(a)
        y = Loop (n, go) <body = b (int64 i, bool c) => (bool k, float e) {{
            k = Identity(c)
            f = Gather(x, i)
            e = ReduceSum <keepdims = 0> (f)
        }}>
    }}""")
    assert all(node.op_type != "Max" for node in optimize(proto).graph.node)
