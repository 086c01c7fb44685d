from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graphs import constant_value
from passes.old_forms import OldFormsPass
from rewriter.backends import run
from rewriter.checking import check


def split(opset: int, dims: str, attributes: str, count: int) -> onnx.ModelProto:
    names = [f"y{i}" for i in range(count)]
    outputs = ", ".join(f"float[?, ?] {name}" for name in names)
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[{dims}] x) => ({outputs}) '
        f"{{ {', '.join(names)} = Split <{attributes}> (x) }}"
    )


@pytest.mark.parametrize(
    ("opset", "dims", "attributes", "count", "sizes"),
    [
        (18, "6,2", "num_outputs = 3", 3, [2, 2, 2]),
        (18, "7,2", "num_outputs = 3", 3, [3, 3, 1]),
        (21, "2,7", "axis = -1, num_outputs = 2", 2, [4, 3]),
        (13, "6,2", "axis = 0", 2, [3, 3]),
    ],
)
def test_sizes_are_given(
    opset: int, dims: str, attributes: str, count: int, sizes: list[int]
) -> None:
    before = split(opset, dims, attributes, count)
    model = ir.from_proto(before)
    assert OldFormsPass()(model).modified
    (node,) = [node for node in model.graph if node.op_type == "Split"]
    assert constant_value(node.inputs[1]).tolist() == sizes
    assert "num_outputs" not in node.attributes
    check(model)
    x = np.arange(np.prod(shape := [int(d) for d in dims.split(",")]), dtype=np.float32)
    expected = run(before, {"x": x.reshape(shape)})
    for name, value in run(model, {"x": x.reshape(shape)}).items():
        np.testing.assert_array_equal(value, expected[name])
    assert not OldFormsPass()(model).modified


@pytest.mark.parametrize(
    ("opset", "dims", "attributes"),
    [(18, "N,2", "num_outputs = 2"), (11, "6,2", "axis = 0, split = [3, 3]")],
    ids=["open dimension", "sizes as an attribute"],
)
def test_what_stays(opset: int, dims: str, attributes: str) -> None:
    model = ir.from_proto(split(opset, dims, attributes, 2))
    assert not OldFormsPass()(model).modified


def test_in_a_body() -> None:
    model = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[4] x, bool c) => (float[2] y) { y = If (c) <
            then_branch = a () => (float[2] p) { p, p1 = Split <num_outputs = 2> (x) },
            else_branch = b () => (float[2] q) { q1, q = Split <num_outputs = 2> (x) }> }""")
    assert OldFormsPass()(model).modified
    check(model)
    x = np.float32([1, 2, 3, 4])
    assert run(model, {"x": x, "c": np.array(False)})["y"].tolist() == [3, 4]
