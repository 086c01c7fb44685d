"""Graphs of graphsurgeon in and out, with what graphsurgeon itself loses put right."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_graphsurgeon as gs
import pytest

from rewriter import graphsurgeon
from rewriter.checking import check
from rewriter.models import ModelError, give, save, take

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
