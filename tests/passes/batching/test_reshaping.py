"""Reshape to given dimensions, a 0 among them, before opset 14."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.batching.reshaping import reshape_without_zeros
from passes.graph.builder import Builder
from passes.graph.names import make_names_unique
from rewriter.backends import open_session

TARGETS = {
    "one dimension": ("first = Gather(s, i0) t = Concat<axis = 0>(first, six)", 1, []),
    "a slice": ("first = Slice(s, i0, i1) t = Concat<axis = 0>(first, six)", 1, []),
    "two dimensions": ("both = Gather(s, i01) t = Concat<axis = 0>(both, two)", 2, ["Pad"]),
    "a slice of two": ("both = Slice(s, i0, i2) t = Concat<axis = 0>(both, two)", 2, ["Pad"]),
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
    found = reshape_without_zeros(builder, model.graph.inputs[0], target)
    assert [n.op_type for n in builder.nodes if n.op_type == "Pad"] == more
    model.graph.extend(builder.nodes)
    found.type, found.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([None] * (kept + 1))
    model.graph.outputs[:] = [found]
    make_names_unique(model)
    x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 3, 2)
    (got,) = open_session(ir.to_proto(model)).run({"x": x}).values()
    np.testing.assert_array_equal(got, x if kept == 2 else x.reshape(rows, 6))
