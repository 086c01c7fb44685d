"""Graphs of graphsurgeon in and out, with what graphsurgeon itself loses put right."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import onnx.parser
import onnx_graphsurgeon as gs
import pytest

from rewriter import optimize
from rewriter.backends import run
from rewriter.errors import ModelError
from rewriter.feeding.feeds import read_expected, read_feeds
from rewriter.model_files import graphsurgeon
from rewriter.model_files.checking import check
from rewriter.model_files.models import give, take
from rewriter.model_files.on_disk import save
from rewriter.proof.compare import compare

MODELS = pathlib.Path(__file__).parents[3] / "models" / "exported"
CAPTURE = """
<ir_version: 10, opset_import: ["" : 17]>
g (seq(float[2,W]) xs, float[2,3] y) => (seq(float[2,W]) zs, float[2,3] q)
<float[2,3] w = {1, 2, 3, 4, 5, 6}, float[1] only = {7}>
{ q = Add (y, w)
  zs = SequenceMap (xs) <body = b (float[2,W] x) => (float[2,W] z)
  <float c = {1}> { u = Mul (x, w)  v = Add (u, only)  z = Add (v, c) }> }
"""


def graph(text: str = CAPTURE) -> gs.Graph:
    return gs.import_onnx(onnx.parser.parse_model(text))


def body(proto: onnx.ModelProto) -> onnx.GraphProto:
    return next(n for n in proto.graph.node if n.op_type == "SequenceMap").attribute[0].g


def test_captured_initializers_stay_outside_of_bodies():
    taken = take(graph())
    check(taken.model)
    assert taken.model.graph.initializers["w"].const_value.numpy().sum() == 21
    inner = next(n for n in taken.model.graph if n.op_type == "SequenceMap").attributes["body"]
    assert set(inner.as_graph().initializers) == {"c", "only"}  # nothing outside reads `only`


def test_graphsurgeon_still_copies_captured_initializers():
    names = {tensor.name for tensor in body(gs.export_onnx(graph())).initializer}
    assert "w" in names  # mended? then _unshadow can go


def test_an_initializer_of_a_body_that_hides_an_outer_one_stays():
    before = graph()
    inner = next(node for node in before.nodes if node.op == "SequenceMap").attrs["body"]
    for node in inner.nodes:
        node.inputs = [
            gs.Constant("w", np.ones((2, 3), np.float32)) if tensor.name == "w" else tensor
            for tensor in node.inputs
        ]
    assert "w" in {t.name for t in body(graphsurgeon.to_proto(before)).initializer}


def test_types_of_inputs_and_outputs_come_back():
    before = graph()
    assert before.inputs[0].shape is None  # graphsurgeon reads no element shape
    before.inputs[0].shape = [2, "W"]
    before.outputs[0].shape = [2, "W"]
    taken = take(before)
    after = give(taken, taken.model)
    for old, new in zip(
        [*before.inputs, *before.outputs], [*after.inputs, *after.outputs], strict=True
    ):
        assert (new.name, new.dtype, new.shape, new.type) == (
            old.name,
            old.dtype,
            old.shape,
            old.type,
        )
    written = gs.export_onnx(after).graph.input[0].type.sequence_type.elem_type.tensor_type
    assert [d.dim_value or d.dim_param for d in written.shape.dim] == [2, "W"]


def test_an_input_that_became_a_tensor_keeps_its_new_type():
    before = graph()
    taken = take(before)
    proto = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 17]>
        g (float[B,2,W] xs) => (float[B,2,W] zs) { zs = Relu (xs) }""")
    after = graphsurgeon.from_proto(proto, taken.original)
    assert after.inputs[0].shape == ["B", 2, "W"]


def test_the_graph_that_was_handed_in_is_never_changed():
    before = graph()
    before.nodes.append(gs.Node("Own", domain="com.x", inputs=[], outputs=[gs.Variable("o")]))
    text, domains = str(before), list(before.import_domains)
    taken = take(before)
    assert taken.model.opset_imports == {"": 17, "com.x": 1}
    for value in [*taken.model.graph.inputs, *taken.model.graph.initializers.values()]:
        value.name = f"{value.name}_renamed"
    taken.model.graph.remove(taken.model.graph[-1])
    give(taken, taken.model)
    assert str(before) == text
    assert list(before.import_domains) == domains


def test_functions_survive():
    before = graph("""
        <ir_version: 10, opset_import: ["" : 17, "f" : 1]>
        g (float[N] x) => (float[N] y) { y = f.twice (x) }
        <domain: "f", opset_import: ["" : 17]> twice (a) => (b) { b = Add (a, a) }""")
    taken = take(before)
    assert [function.name for function in give(taken, taken.model).functions] == ["twice"]


def test_a_graph_can_be_saved(tmp_path):
    save(graph(), tmp_path / "m.onnx")
    assert [t.name for t in onnx.load(tmp_path / "m.onnx").graph.initializer] == ["w"]


RAGGED = """
<ir_version: 10, opset_import: ["" : 17]>
g (seq(float[N,3]) xs, float[3] w) => (seq(float[N,3]) ys)
{ ys = SequenceMap (xs) <body = b (float[N,3] x) => (float[N,3] y)
  { u = Mul (x, w)  v = Softmax <axis = 0> (u)  s = Tanh (v)  y = Add (s, u) }> }
"""


def test_graphsurgeon_still_cannot_export_optional_values():
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) '
        "<optional(float[2]) o> { o = Optional (x)  y = OptionalGetElement (o) }"
    )
    with pytest.raises(UnboundLocalError):  # mended? then _forget_optional_types can go
        gs.export_onnx(gs.import_onnx(proto))


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
@pytest.mark.parametrize("text", [CAPTURE, RAGGED], ids=["capture", "ragged"])
def test_an_optimized_graph_can_be_exported_and_computes_the_same(text, strategy):
    before = onnx.parser.parse_model(text)
    after = gs.export_onnx(optimize(graph(text), strategy=strategy))
    assert "SequenceMap" not in {node.op_type for node in after.graph.node}
    onnx.checker.check_model(after, full_check=True)
    rng = np.random.default_rng(0)
    for rows in ([], [2], [2, 2, 2], [2, 5, 0]):
        if text is CAPTURE:
            rows = [2 for _ in rows]
        xs = [rng.standard_normal((n, 3)).astype(np.float32) for n in rows]
        feeds = {"xs": xs, "w": np.ones(3, np.float32), "y": np.ones((2, 3), np.float32)}
        feeds = {value.name: feeds[value.name] for value in before.graph.input}
        expected = run(before, feeds, backend="reference")
        for backend in ("reference", "onnxruntime"):
            difference = compare(expected, run(after, feeds, backend=backend))
            assert difference.equal, difference.message


@pytest.mark.parametrize("name", ["dy_hstack", "dy_atleast_1d", "ts_split_map_cat"])
def test_exporters_graphs_come_out_without_sequences(name):
    path = MODELS / f"{name}.onnx"
    model = onnx.load(path)
    after = optimize(gs.import_onnx(model), target="tensorrt", require=["sequence-free"])
    exported = gs.export_onnx(after)
    assert list(exported.graph.input) == list(gs.export_onnx(gs.import_onnx(model)).graph.input)
    assert {t.name: t.dtype for t in after.outputs} == {
        t.name: t.dtype for t in gs.import_onnx(model).outputs
    }
    vector = path.with_suffix(".npz")
    actual = run(exported, read_feeds(vector, path))
    assert compare(read_expected(vector, path), actual).equal


@pytest.mark.parametrize(
    "spoil",
    [
        lambda g: setattr(g.inputs[1], "dtype", None),
        lambda g: setattr(g.inputs[1], "type", "optional_type"),
        lambda g: g.nodes[0].attrs.update(empty=[]),
    ],
    ids=["untyped input", "optional input", "empty list"],
)
def test_what_graphsurgeon_cannot_export_is_refused(spoil):
    before = graph()
    spoil(before)
    with pytest.raises(ModelError, match=r"^graphsurgeon cannot export the graph: .") as caught:
        take(before)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("handed", [None, "g.onnx", onnx.ModelProto()], ids=type)
def test_other_things_are_no_graphs(handed):
    assert not graphsurgeon.is_graph(handed)


def test_no_optional_value_is_declared_where_onnx_infers_it():
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17, "com.x" : 1]>
        g (bool c, float[2] x) => (float[2] y) <optional(float[2]) own> {
            own = com.x.Wrap (x)
            y = If (c) <
              then_branch = a () => (float[2] u) <optional(float[2]) o>
                { o = Optional (x)  u = OptionalGetElement (o) },
              else_branch = b () => (float[2] v) { v = OptionalGetElement (own) }> }""")
    taken = take(proto)
    after = give(taken, taken.model)
    assert [info.name for info in after.graph.value_info] == ["own"]  # only its author knows it
    branch = next(a.g for a in after.graph.node[1].attribute if a.name == "then_branch")
    assert [info.name for info in branch.value_info] == []
