"""Raising and giving back is the identity; in between stands a valid model that can be run."""

from __future__ import annotations

import pathlib

import onnx
import onnx_ir as ir
import pytest

from passes.raising import GiveBackPass, RaiseLoopsPass
from passes.sequence_operators import is_map
from rewriter.evaluator.reference import ReferenceEvaluator
from rewriter.model_files import models
from rewriter.proof.compare import compare
from tests.property.loops import DIALECTS, MISSES, draw
from tests.test_zoo import DEMO, EXPORTED, TEXT, load

SOME, MANY = range(12), range(12, 170)
SIZES = (0, 1, 2, 5)
RAISED = {
    "dy_embedding_bag",
    "dy_scan_identity_state",
    "skl_knn_regressor",
    "tf_map_fn_dense",
    "ts_embedding_bag_sum",
    "ts_listcomp_relu",
    "ts_rows_linear_stack",
    "ts_zip_matmul_badshapes",
}


def raised_and_given_back(proto: onnx.ModelProto) -> dict[str, str]:
    """Assert that a model comes back to the byte; return what was raised."""
    model = ir.from_proto(proto)
    given = ir.to_proto(model)
    first = RaiseLoopsPass()
    assert first(model).modified == bool(first.raised)
    back = GiveBackPass()(model)
    assert back.modified == bool(first.raised)
    assert ir.to_proto(model) == given
    return first.raised


@pytest.mark.parametrize("path", [*TEXT, *DEMO, *EXPORTED], ids=lambda path: path.stem)
def test_a_model_comes_back_to_the_byte(path: pathlib.Path) -> None:
    raised = raised_and_given_back(ir.to_proto(models.take(load(path)).model))
    assert raised or path.stem not in RAISED


@pytest.mark.parametrize("seed", SOME)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_random_loop_comes_back_to_the_byte(dialect: str, seed: int) -> None:
    assert raised_and_given_back(onnx.parser.parse_model(draw(dialect, seed).text))


@pytest.mark.full
@pytest.mark.parametrize("seed", MANY)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_many_random_loops_come_back_to_the_byte(dialect: str, seed: int) -> None:
    raised_and_given_back(onnx.parser.parse_model(draw(dialect, seed).text))


@pytest.mark.parametrize(
    ("dialect", "miss"), [(d, miss) for d, misses in MISSES.items() for miss in misses]
)
def test_a_near_miss_is_not_raised(dialect: str, miss: str) -> None:
    assert not raised_and_given_back(onnx.parser.parse_model(draw(dialect, 0, miss).text))


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_raised_model_is_valid_and_computes_the_same(dialect: str, seed: int) -> None:
    program = draw(dialect, seed)
    before = onnx.parser.parse_model(program.text)
    model = ir.from_proto(before)
    RaiseLoopsPass()(model)
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    assert sum(is_map(node) for node in model.graph) == 1
    assert not any(node.op_type in ("Loop", "Scan") for node in model.graph)
    names = [output.name for output in before.graph.output]
    for samples in SIZES:
        if samples < program.least:
            continue
        feeds = program.feeds(samples, seed)
        expected, found = (ReferenceEvaluator(m).run(None, feeds) for m in (before, after))
        difference = compare(*(dict(zip(names, v, strict=True)) for v in (expected, found)))
        assert difference.equal, difference.message


def test_a_raised_model_is_typed_at_every_opset() -> None:
    for opset in (11, 13, 15, 17, 18, 21):
        text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
        main (float[N,4] x, float[4,3] w) => (y) {{
          zero = Constant <value = int64 {{0}}> ()
          shape = Shape (x)
          n = Gather (shape, zero)
          t = Constant <value = bool {{1}}> ()
          y = Loop <body = step (int64 i, bool c) => (bool go, r) {{
            e = Gather (x, i)
            r = MatMul (e, w)
            go = Identity (c)
          }}> (n, t)
        }}"""
        model = ir.from_proto(onnx.parser.parse_model(text))
        RaiseLoopsPass()(model)
        typed = onnx.shape_inference.infer_shapes(
            ir.to_proto(model), strict_mode=True, data_prop=True
        )
        (output,) = typed.graph.output
        dims = output.type.tensor_type.shape.dim
        assert (dims[0].dim_param, dims[1].dim_value) == ("N", 3)


NESTED = """<ir_version: 8, opset_import: ["" : 17]>
main (float[N,M,4] x) => (float[N,M,4] y) {
  zero = Constant <value = int64 {0}> ()
  one = Constant <value = int64 {1}> ()
  shape = Shape (x)
  n = Gather (shape, zero)
  m = Gather (shape, one)
  t = Constant <value = bool {1}> ()
  y = Loop <body = outer (int64 i, bool c) => (bool go, float[M,4] rows) {
    e = Gather (x, i)
    rows = Loop <body = inner (int64 j, bool d) => (bool on, float[4] row) {
      f = Gather (e, j)
      row = Tanh (f)
      on = Identity (d)
    }> (m, t)
    go = Identity (c)
  }> (n, t)
}"""


def test_a_loop_inside_of_a_raised_one_is_raised_there() -> None:
    raised = raised_and_given_back(onnx.parser.parse_model(NESTED))
    assert list(raised) == ["Loop_6", "Loop_6/body/Loop_1"]


IN_FUNCTIONS = """<ir_version: 8, opset_import: ["" : 17, "f" : 1]>
main (float[N,4] x) => (float[N,4] y) {
  z = Constant <value = int64 {0}> ()
  t = Constant <value = bool {1}> ()
  s = Shape (x)
  n = Gather (s, z)
  y = Loop <body = step (int64 i, bool c) => (bool go, float[4] r) { e = Gather (x, i) r = f.a (e) go = Identity (c) }> (n, t)
}
<domain: "f", opset_import: ["" : 17, "g" : 1]> a (v) => (w) { u = g.b (v) w = Neg (u) }
<domain: "g", opset_import: ["" : 17]> b (v) => (w) { w = Relu (v) }
"""


def test_imports_that_opened_functions_need_go_again() -> None:
    assert raised_and_given_back(onnx.parser.parse_model(IN_FUNCTIONS))


def test_a_given_back_loop_follows_what_it_reads() -> None:
    model = ir.from_proto(onnx.parser.parse_model(NESTED))
    RaiseLoopsPass()(model)
    (x,) = model.graph.inputs
    doubled = ir.node("Neg", [x])
    first = model.graph.node(0)
    uses = [(user, at) for user, at in x.uses() if user is not doubled]
    model.graph.insert_before(first, doubled)
    for user, at in uses:
        user.replace_input_with(at, doubled.outputs[0])
    GiveBackPass()(model)
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    (loop,) = (node for node in model.graph if node.op_type == "Loop")
    body = loop.attributes["body"].as_graph()
    assert body.node(0).inputs[0] is doubled.outputs[0]
