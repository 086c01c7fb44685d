from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.runtimes.old_forms import OldFormsPass
from rewriter.backends import run

pytestmark = pytest.mark.quick


def grids(size: str, dtype: str = "float", aligned: int = 0, columns: int = 3) -> onnx.ModelProto:
    rank = len(size.split(","))
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 20]> g ({dtype}[2,{columns - 1},{columns}] t) => '
        f"({dtype}[{', '.join('?' * rank)}] y) {{ s = Constant <value = int64[{rank}] {{{size}}}> "
        f"() y = AffineGrid <align_corners = {aligned}> (t, s) }}"
    )


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("size", ["2,3,1,1", "2,3,1,5", "2,3,4,2", "2,1,16,9"])
def test_a_grid_by_arithmetic(size: str, dtype: str, aligned: int) -> None:
    given = grids(size, dtype, aligned)
    model = ir.from_proto(given)
    assert OldFormsPass()(model).modified
    made = ir.to_proto(model)
    assert {node.op_type for node in made.graph.node}.isdisjoint({"AffineGrid", "If"})
    theta = np.random.default_rng(0).standard_normal((2, 2, 3))
    feeds = {"t": theta.astype(np.float32 if dtype == "float" else np.float64)}
    np.testing.assert_allclose(run(made, feeds)["y"], run(given, feeds)["y"], atol=1e-6)


def test_volumes_stay() -> None:
    model = ir.from_proto(grids("2,1,4,3,2", columns=4))
    OldFormsPass()(model)
    assert "AffineGrid" in {node.op_type for node in model.graph}


def test_images_turned_by_their_own_matrices() -> None:
    given = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20]>
        g (seq(float[1,2,3]) thetas) => (seq(float[1,4,5,2]) ys) {
            ys = SequenceMap (thetas) <body = b (float[1,2,3] t) => (float[1,4,5,2] y) {
                s = Constant <value = int64[4] {1, 3, 4, 5}> ()  y = AffineGrid (t, s) }> }"""
    )
    made = rewriter.optimize(given, target="portable", tensor_io=True)
    theta = [np.random.default_rng(i).random((1, 2, 3), np.float32) for i in range(3)]
    for one, other in zip(
        run(given, {"thetas": theta})["ys"], run(made, {"thetas": theta})["ys"], strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)
