"""One of two values by a boolean, of every element type that can be picked."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.builder import Builder
from passes.graph.names import make_names_unique
from passes.graph.picking import can_pick, pick
from rewriter.backends import open_session

TYPES = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "bool": np.bool_,
    "string": np.str_,
}


@pytest.mark.quick
@pytest.mark.parametrize("name", TYPES)
def test_one_is_picked(name: str) -> None:
    model = ir.from_proto(
        onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
          g (bool[4] c, {name}[2,1] one, {name}[4] other) => ({name}[2,4] y) {{ }}""")
    )
    dtype = model.graph.inputs[1].dtype
    assert can_pick(dtype)
    builder = Builder("pick")
    picked = pick(builder, *model.graph.inputs, dtype)
    model.graph.extend(builder.nodes)
    picked.type, picked.shape = ir.TensorType(dtype), ir.Shape([2, 4])
    model.graph.outputs[:] = [picked]
    make_names_unique(model)
    feeds = {
        "c": np.array([True, False, True, False]),
        "one": np.array([[1], [0]]).astype(TYPES[name]),
        "other": np.array([1, 1, 0, 0]).astype(TYPES[name]),
    }
    (got,) = open_session(ir.to_proto(model)).run(feeds).values()
    expected = np.where(feeds["c"], feeds["one"], feeds["other"])
    assert np.asarray(got).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["UINT64", "FLOAT8E4M3FN", "COMPLEX64"])
def test_what_cannot_be_picked(name: str) -> None:
    assert not can_pick(ir.DataType[name])
    assert not can_pick(None)
