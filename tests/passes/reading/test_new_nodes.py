"""The types of nodes that a pass wrote are found without those of the whole model."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from passes.graph.builder import Builder
from passes.reading.kept_typing import type_new_nodes
from passes.typing import type_values

pytestmark = pytest.mark.quick
HEADER = '<ir_version: 9, opset_import: ["" : 18]>'


def model_of(text: str) -> ir.Model:
    return ir.serde.deserialize_model(onnx.parser.parse_model(f"{HEADER} {text}"))


def test_new_nodes_are_typed_by_what_they_read() -> None:
    model = model_of("g (float[N,4] x) => (float[N,4] y) { t = Relu (x) y = Neg (t) }")
    typing = type_values(model, proven=True)
    read = model.graph[0].outputs[0]
    builder = Builder("new")
    wide = builder.op("Concat", [read, read], {"axis": 1})
    long = builder.op("Concat", [read, read], {"axis": 0})
    turned = builder.op("Transpose", [wide])
    users = len(read.uses())
    # In any order: whoever reads may stand in front.
    type_new_nodes(builder.nodes[::-1], typing, model)
    assert typing.dims(wide) == ("x.0", 8)
    assert typing.dims(turned) == (8, "x.0")
    assert typing.dtype(turned) == ir.DataType.FLOAT
    # A symbol of this inference could be another one of the model.
    assert typing.dims(long) == (None, 4)
    assert len(read.uses()) == users, "a copy still reads a value of the model"


def test_what_was_known_of_a_value_stays_known() -> None:
    model = model_of("g (float[N,4] x, int64[k] s) => (float[N,4] y) { y = Reshape (x, s) }")
    typing = type_values(model, proven=True)
    builder = Builder("new")
    (made,) = builder.node("Reshape", list(model.graph.inputs)).outputs
    typing.copy({model.graph.inputs[0]: made})
    type_new_nodes(builder.nodes, typing, model)
    assert typing.dims(made) == typing.dims(model.graph.inputs[0])


def test_declared_dimensions_prove_nothing() -> None:
    model = model_of("g (float[N,4] x, int64[2] s) => (float[N,4] y) { y = Neg (x) }")
    typing = type_values(model, proven=True)
    builder = Builder("new")
    made = builder.op("Reshape", list(model.graph.inputs))
    made.type, made.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([7, 3])
    type_new_nodes(builder.nodes, typing, model)
    assert typing.dims(made) == (None, None)


def test_values_of_one_name_are_told_apart() -> None:
    model = model_of(
        "g (float[N,4] x, float[3] w) => (y) { t = Relu (x) u = Neg (w) y = Abs (u) }"
    )
    typing = type_values(model, proven=True)
    one, other = (node.outputs[0] for node in list(model.graph)[:2])
    other.name = one.name
    builder = Builder("new")
    made = [builder.op("Neg", [one]), builder.op("Neg", [other])]
    type_new_nodes(builder.nodes, typing, model)
    assert [typing.dims(value) for value in made] == [("x.0", 4), (3,)]
