"""A model in a newer opset computes the same; what cannot be converted is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.errors import RewriteError
from passes.graph.graphs import all_nodes
from passes.graph.opsets import find_misfit
from passes.runtimes.convert_opset import ConvertOpsetPass
from tests.passes.batching.harness import Array, run_model

NODES = {
    "squeeze": (11, "u = Unsqueeze<axes=[0]>(x) y = Squeeze<axes=[0]>(u)"),
    "sum": (11, "y = ReduceSum<axes=[1], keepdims=0>(x)"),
    "mean over all": (13, "y = ReduceMean<keepdims=0>(x)"),
    "maximum": (17, "y = ReduceMax<axes=[-1]>(x)"),
    "softmax over two axes": (11, "u = Unsqueeze<axes=[2]>(x) y = Softmax<axis=1>(u)"),
    "split": (11, "a, b = Split<axis=1>(x) y = Sub(a, b)"),
    "split unevenly": (11, "a, b = Split<axis=1, split=[1, 3]>(x) y = Sub(b, a)"),
    "dropout": (11, "y = Dropout<ratio=0.5>(x)"),
    "clip": (11, "top = Constant<value=float {0.5}>() y = Clip(x, , top)"),
    "resize by constants": (11, "y = Resize<mode=\"linear\">(x, roi, scales)"),
    "scatter": (10, "i = Cast<to=7>(ones) y = Scatter<axis=1>(x, i, ones)"),
    "in a branch": (
        11,
        "y = If(yes) <then_branch = t () => (float[3,1] a) { a = ReduceSum<axes=[1]>(x) },"
        " else_branch = e () => (float[3,1] b) { b = ReduceMean<axes=[1]>(x) }>",
    ),
    "in a loop": (
        12,
        "y = Loop(three, yes) <body = b (int64 i, bool c) => (bool d, float[4] r)"
        " { d = Identity(c) e = Gather(x, i) m = ReduceMax<axes=[0]>(e) r = Sub(e, m) }>",
    ),
    "softmax over all": (12, "y = Softmax<axis=0>(x)"),
    "softmax": (12, "y = LogSoftmax<axis=-1>(x)"),
    "pooling": (11, "u = Unsqueeze<axes=[0]>(x) y = AveragePool<kernel_shape=[3], ceil_mode=1>(u)"),
    "normalization of groups": (
        18,
        "u = Unsqueeze(x, one) s = Constant<value_floats=[2.0]>() b = Constant<value_floats=[1.0]>()"
        " y = GroupNormalization<num_groups=1>(u, s, b)",
    ),
    "grid sample": (
        16,
        "u = Unsqueeze(x, front) g = Constant<value=float[1,1,2,2] {0.1, 0.2, -0.5, 0.9}>()"
        " y = GridSample<mode=\"bicubic\">(u, g)",
    ),
    "spectrum": (17, "u = Unsqueeze(x, last) y = DFT<axis=1>(u)"),
    "cast": (13, "y = Cast<to=7>(x)"),
    "two readers of one operand": (11, "s = ReduceSum<axes=[0]>(x) y = Mul(s, s)"),
}  # fmt: skip


def _model(opset: int, nodes: str) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(f"""<ir_version: 7, opset_import: ["" : {opset}]>
      g (float[3,4] x) => (float[] y)
      <bool yes = {{1}}, int64 three = {{3}}, float[2] scales = {{2, 1}}, float[0] roi = {{}},
       int64[1] one = {{1}}, int64[2] front = {{0, 1}}, int64[1] last = {{2}},
       float[3,1] ones = {{1, 1, 1}}> {{ {nodes} }}""")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def _converted(proto: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    model = ir.from_proto(proto)
    assert ConvertOpsetPass(opset)(model).modified
    new = ir.to_proto(model)
    assert find_misfit(all_nodes(model), opset) is None
    assert [o.version for o in new.opset_import if not o.domain] == [opset]
    return new


def _drawn() -> Array:
    return np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


@pytest.mark.quick
@pytest.mark.parametrize("opset", [19, 21, 24])
@pytest.mark.parametrize("name", NODES)
def test_a_converted_model_computes_the_same(name: str, opset: int) -> None:
    old = _model(*NODES[name])
    feeds = {"x": _drawn()}
    (want,), (got,) = run_model(old, feeds), run_model(_converted(old, opset), feeds)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_did_not_change_stays_in_place() -> None:
    model = ir.from_proto(_model(13, "[first] a = Relu(x) [second] y = ReduceSum(a)"))
    nodes = list(all_nodes(model))
    assert ConvertOpsetPass(18)(model).modified
    assert list(all_nodes(model)) == nodes
    assert not ConvertOpsetPass(18)(model).modified


def test_a_converted_node_keeps_its_name_and_its_output() -> None:
    model = ir.from_proto(_model(17, "[top] m = ReduceMax<axes=[1]>(x) y = Sub(x, m)"))
    ConvertOpsetPass(18)(model)
    (node,) = [node for node in all_nodes(model) if node.op_type == "ReduceMax"]
    assert (node.name, node.outputs[0].name) == ("top", "m")
    assert "axes" not in node.attributes


def test_functions_are_converted_by_their_own_opset() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 15, "own" : 1]>
      g (float[3,4] x) => (float[3,1] y) { y = own.best(x) }
      <domain: "own", opset_import: ["" : 13]> best (a) => (b) { b = ReduceMax<axes=[1]>(a) }""")
    new = _converted(proto, 18)
    assert [(o.domain, o.version) for o in new.functions[0].opset_import] == [("", 18)]
    (want,), (got,) = (run_model(one, {"x": _drawn()}) for one in (proto, new))
    np.testing.assert_array_equal(got, want)


def test_weights_in_other_files_are_not_read(tmp_path: Path) -> None:
    proto = _model(13, "p = Add(x, w) y = ReduceMax<axes=[0]>(p)")
    weight = proto.graph.initializer.add(name="w", dims=[3, 4], data_type=1, data_location=1)
    weight.external_data.add(key="location", value="is_not_there.bin")
    model = ir.from_proto(proto)
    ConvertOpsetPass(18)(model)
    assert isinstance(model.graph.initializers["w"].const_value, ir.ExternalTensor)


SEQUENCES = """<ir_version: 8, opset_import: ["" : 14]>
g (seq(float[N]) xs) => (seq(float[N]) ys) {
  zs = Identity(xs) zero = Constant<value = int64 {0}>() z = SequenceAt(zs, zero)
  m = ReduceMax<axes=[0]>(z) ys = SequenceInsert(zs, m) }"""


def test_sequences_stay_sequences() -> None:
    new = _converted(onnx.parser.parse_model(SEQUENCES), 18)
    assert new.graph.input[0].type.HasField("sequence_type")


FUNCTION = """<ir_version: 8, opset_import: ["" : 15, "own" : 1]>
g (float[3,4] x) => (float[3,1] y) { y = own.best<axes = [1]>(x) }
<domain: "own", opset_import: ["" : 15]>
best <axes>(a) => (b) { [top] b = ReduceMax<axes: ints = @axes>(a) }"""
NEWER_FUNCTION = FUNCTION.replace('["" : 15]>\nbest', '["" : 20]>\nbest')
REFUSED = {
    "older": (_model(18, "y = Relu(x)"), 17, "the model of opset 18 cannot be converted to opset"),
    "unknown": (_model(18, "y = Relu(x)"), 99, "cannot be converted to opset 99: choose one from"),
    "newer": (_model(18, "y = Gelu(x)"), 20, "Gelu_0 (Gelu) cannot be converted from opset 18 to"),
    "attribute": (
        onnx.parser.parse_model(FUNCTION),
        18,
        "own.best/top (ReduceMax) cannot be converted from opset 15 to 18: an attribute is set by "
        "a function's caller; choose another opset, or export the model anew",
    ),
    "function": (
        onnx.parser.parse_model(NEWER_FUNCTION),
        18,
        "the function best has opset 20 and cannot be converted to 18: choose opset 20",
    ),
    "pixels": (
        _model(10, 'y = Resize<mode="linear">(x, scales)'),
        18,
        "Resize_0 (Resize) cannot be converted from opset 10 to 18: it computes something else",
    ),
    "hardmax": (_model(12, "y = Hardmax<axis=0>(x)"), 13, "Hardmax_0 (Hardmax) cannot be conv"),
    "graph": (
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 8]>
          g (float[1,3,4] x) => (float[1,3,4] y) {
            [steps] y = Scan<num_scan_inputs = 1, body = b (float[4] e) => (float[4] r)
              { r = Relu(e) }>(, x) }"""),
        18,
        "steps (Scan) cannot be converted from opset 8 to 18: ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_named_in_one_line(name: str) -> None:
    proto, opset, expected = REFUSED[name]
    with pytest.raises(RewriteError) as refused:
        ConvertOpsetPass(opset)(ir.from_proto(proto))
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)
