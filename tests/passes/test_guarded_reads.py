"""What the loop behind a failed guard reads: the sequence itself, unless its type may be false."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_graphs
from rewriter.backends import open_session
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare
from tests.passes.expansion import rows

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float{dims}) xs) => (seq(float{dims}) ys) {{
    ys = SequenceMap (xs) <body = b (float{dims} x) => (float{dims} y) {{
        t = Transpose (x) e = Exp (t) y = Transpose (e) }}> }}"""


@pytest.mark.parametrize(
    ("dims", "shapes", "itself"),
    [
        ("[N, M]", [(2, 3), (4, 5), (2, 1), (0, 3)], True),
        ("[2, M]", [(2, 3), (2, 5), (2, 1)], False),
    ],
)
def test_the_loop_behind_a_failed_guard(
    dims: str, shapes: list[tuple[int, ...]], itself: bool
) -> None:
    model = onnx.parser.parse_model(TEXT.format(dims=dims))
    after = rewrite(model, strategy="fuse").model
    assert isinstance(after, onnx.ModelProto)
    loops = [n for g in all_graphs(ir.from_proto(after)) for n in g if n.op_type == "Loop"]
    read = {
        node.inputs[0].name
        for loop in loops
        for node in loop.attributes["body"].as_graph()
        if node.op_type == "SequenceAt" and node.inputs[0] is not None
    }
    assert read
    assert (read == {"xs"}) is itself
    feed = {"xs": rows(*shapes)}
    expected = open_session(model, "reference").run(feed)
    difference = compare(expected, open_session(after).run(feed))
    assert difference.equal, difference.message


def test_equal_elements_of_another_shape_than_declared() -> None:
    model = onnx.parser.parse_model(TEXT.format(dims="[2, 3]"))
    after = rewrite(model, strategy="fuse").model
    feed = {"xs": [np.ones((4, 5), np.float32)] * 3}
    difference = compare(open_session(model, "reference").run(feed), open_session(after).run(feed))
    assert difference.equal, difference.message


def test_the_guard_and_the_loop_behind_it_hide_the_type_once() -> None:
    after = rewrite(onnx.parser.parse_model(TEXT.format(dims="[2, 3]")), strategy="fuse").model
    nodes = [node.op_type for graph in all_graphs(ir.from_proto(after)) for node in graph]
    assert nodes.count("SequenceErase") == 1


@pytest.mark.parametrize(("name", "dtype"), [("int64", np.int64), ("double", np.float64)])
def test_without_samples_the_sequence_is_empty_and_of_its_type(name: str, dtype: type) -> None:
    text = TEXT.replace("Exp", "Neg").format(dims="[N, M]")
    model = onnx.parser.parse_model(text.replace("float", name))
    after = rewrite(model, strategy="fuse").model
    for shapes in ([], [(2, 3), (2, 3)], [(2, 3), (1, 1)]):
        feed = {"xs": [np.ones(shape, dtype) for shape in shapes]}
        expected = open_session(model, "reference").run(feed)
        difference = compare(expected, open_session(after).run(feed))
        assert difference.equal, difference.message


BATCHED = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[N, M]) xs, seq(float[K, L]) ws) => (seq(float[N, M]) ys, seq(float) zs) {
    ys, zs = SequenceMap (xs, ws) <body = b (float[N, M] x, float[K, L] w) => (float[N, M] y, float z) {
        s = Sigmoid (x) t = Transpose (s) e = Exp (t) u = Transpose (e) y = Neg (u)
        a = Tanh (w) z = ReduceSum <keepdims = 0> (a) }>
}"""


def test_what_needs_no_guard_is_batched_behind_one_that_fails_too() -> None:
    model = onnx.parser.parse_model(BATCHED)
    result = rewrite(model, strategy="fuse", input_shapes={"ws": [None, 3]})
    [decision] = result.report.decisions
    assert (
        decision.form == "batched if shapes differ in the first axis only, else 5 nodes in 1 loop"
    )
    after = result.model
    assert isinstance(after, onnx.ModelProto)
    loops = [n for g in all_graphs(ir.from_proto(after)) for n in g if n.op_type == "Loop"]
    inside = {n.op_type for loop in loops for n in loop.attributes["body"].as_graph()}
    assert "Sigmoid" in inside
    assert "Tanh" not in inside
    for shapes in ([(2, 3), (4, 5)], [(2, 3), (2, 3)], []):
        feed = {"xs": rows(*shapes), "ws": rows(*((i + 1, 3) for i, _ in enumerate(shapes)))}
        expected = open_session(model, "reference").run(feed)
        difference = compare(expected, open_session(after).run(feed))
        assert difference.equal, difference.message


PROMISED = """<ir_version: 10, opset_import: ["" : 18]>
g (seq(float[]) xs, seq(int64[]) zs, float[4, 3] w) => (seq(float[]) ys) {
    ys = SequenceMap (xs, zs) <body = b (float[] x, int64[] z) => (float[] y) {
        e = Exp (x) v = Gather <axis = -2> (w, z) m = MatMul (e, v) y = Neg (m) }>
}"""


@pytest.mark.parametrize("shape", [(), (2,)], ids=["rank 0", "rank 1"])
@pytest.mark.parametrize("samples", [1, 3])
def test_no_rank_is_supposed_of_what_no_guard_asks(shape: tuple[int, ...], samples: int) -> None:
    model = onnx.parser.parse_model(PROMISED)
    after = rewrite(model, strategy="fuse", uniform=["zs"]).model
    feed = {
        "xs": [np.ones((5, 2) if shape else (3,), np.float32)] * samples,
        "zs": [np.ones(shape, np.int64)] * samples,
        "w": np.arange(12, dtype=np.float32).reshape(4, 3),
    }
    expected = open_session(model, "reference").run(feed)
    difference = compare(expected, open_session(after).run(feed))
    assert difference.equal, difference.message
