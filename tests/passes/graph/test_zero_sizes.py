"""Reshape to given dimensions, a 0 among them, before opset 14."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.builder import Builder
from passes.graph.names import make_names_unique
from passes.graph.opsets import to_opset_form
from rewriter.backends import BackendError, open_session

TARGETS = {
    "one dimension": ("first = Gather(s, i0) t = Concat<axis = 0>(first, six)", 1, []),
    "a slice": ("first = Slice(s, i0, i1) t = Concat<axis = 0>(first, six)", 1, []),
    "two dimensions": ("both = Gather(s, i01) t = Concat<axis = 0>(both, two)", 2, ["Slice"]),
    "a slice of two": ("both = Slice(s, i0, i2) t = Concat<axis = 0>(both, two)", 2, ["Slice"]),
}


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("name", TARGETS)
def test_reshape_without_zeros(name: str, rows: int) -> None:
    lines, kept, more = TARGETS[name]
    model = ir.from_proto(
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 13]>
          g (float[N,3,2] x) => (int64[R] t) <int64[1] i0 = {{0}}, int64[1] i1 = {{1}},
          int64[1] i2 = {{2}}, int64[2] i01 = {{0, 1}}, int64[1] six = {{6}}, int64[1] two = {{2}}> {{
            s = Shape(x) {lines} }}""")
    )
    builder = Builder("reshape")
    target = model.graph.outputs[0]
    found = builder.op("Reshape", [model.graph.inputs[0], target], {"allowzero": 1})
    to_opset_form(builder.nodes, 13)
    assert [n.op_type for n in builder.nodes if n.op_type == "Slice"] == more
    model.graph.extend(builder.nodes)
    found.type, found.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([None] * (kept + 1))
    model.graph.outputs[:] = [found]
    make_names_unique(model)
    x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 3, 2)
    (got,) = open_session(ir.to_proto(model)).run({"x": x}).values()
    np.testing.assert_array_equal(got, x if kept == 2 else x.reshape(rows, 6))


SHAPES = [
    ((0, 3), (3, 0)),
    ((0, 3), (2, 0, 3, 0)),
    ((0,), (0, 0, 0)),
    ((4, 0), (0,)),
    ((2, 3), (3, 2)),
    ((6,), (1, 2, 3)),
    ((1, 1), (1,)),
]
KINDS = {"float": np.float32, "bool": np.bool_, "string": np.str_, "float16": np.float16}


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("kind", KINDS)
def test_a_reshape_that_keeps_zeros_has_a_form_for_older_opsets(kind: str, opset: int) -> None:
    model = ir.from_proto(
        onnx.parser.parse_model(f"""<ir_version: 7, opset_import: ["" : {opset}]>
          g ({kind}[] x, int64[R] t) => ({kind}[] y) {{ z = Identity (x) }}""")
    )
    data, target = model.graph.inputs
    builder = Builder("reshape")
    result = builder.op("Reshape", [data, target], {"allowzero": 1})
    to_opset_form(builder.nodes, opset)
    assert result is builder.nodes[-1].outputs[0]
    model.graph.extend(builder.nodes)
    result.type = data.type
    model.graph.outputs[:] = [result]
    make_names_unique(model)
    session = open_session(ir.to_proto(model))
    for given, wanted in SHAPES:
        x = np.arange(np.prod(given)).reshape(given).astype(KINDS[kind])
        x = x.astype(object) if kind == "string" else x
        (got,) = session.run({"x": x, "t": np.array(wanted, np.int64)}).values()
        np.testing.assert_array_equal(got, x.reshape(wanted), strict=kind != "string")
    with pytest.raises(BackendError):
        session.run({"x": x, "t": np.array([2, 3])})


def test_a_reshape_to_rank_0_is_one_below_opset_14() -> None:
    builder = Builder("reshape")
    builder.op("Reshape", [ir.val("x"), builder.ints()], {"allowzero": 1})
    to_opset_form(builder.nodes, 13)
    assert [node.op_type for node in builder.nodes[-1:]] == ["Reshape"]
    assert "allowzero" not in builder.nodes[-1].attributes
