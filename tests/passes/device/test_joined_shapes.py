"""Shapes that an iteration joins stay on the host where the device would be handed each."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.device.joined_shapes import JoinedShapesPass
from rewriter.model_files.protos import from_proto
from rewriter.placement.device_kernels import kernels_of
from rewriter.placement.placing import place
from rewriter.target_table import find_target

TARGET = "webgpu-int64"


def scanned(body: str) -> str:
    return f"""<ir_version: 9, opset_import: ["" : 18]>
    g (float[M, L] x, int64[N] places) => (int64[N, K] y) {{
        r = Relu (x)
        y = Scan <num_scan_inputs = 1, body = b (int64 i) => (int64[K] s)
            <int64[1] none = {{-1}}, int64[1] zero = {{0}}, int64[1] two = {{2}}> {{
            a = Gather (r, i) b = Neg (r) m = Shape (a) n = Shape (b) {body} }}> (places) }}"""


# What is joined, and the copies of each iteration before.
CASES = {
    "two shapes": (scanned("s = Concat <axis = 0> (m, n)"), 2),
    "beside a constant": (scanned("s = Concat <axis = 0> (m, none, n, none)"), 2),
    "cut behind": (scanned("j = Concat <axis = 0> (m, n, none) s = Slice (j, zero, two)"), 3),
}
LEFT = {
    "a shape that is read elsewhere, too": scanned(
        "d = Mul (m, two) j = Concat <axis = 0> (m, n) s = Mul (j, d)"
    ),
    "no shape": scanned("s = Concat <axis = 0> (none, two)"),
    "what is computed": scanned("d = Mul (m, two) s = Concat <axis = 0> (d, n)"),
    "cut of a shape alone": scanned("s = Slice (n, zero, two)"),
    "a number beyond what doubles hold": scanned(
        "most = Constant <value = int64[1] {9223372036854775807}> () s = Concat <axis = 0> (n, most)"
    ),
    "no loop": """<ir_version: 9, opset_import: ["" : 18]> g (float[N, 3] x) => (int64[4] y) {
        m = Shape (x) z = Neg (x) n = Shape (z) y = Concat <axis = 0> (m, n) }""",
}


def formed(text: str, target: str = TARGET) -> tuple[onnx.ModelProto, ir.Model, bool]:
    given = onnx.parser.parse_model(text)
    model = from_proto(onnx.parser.parse_model(text))
    one = JoinedShapesPass(kernels_of(target, model))
    modified = one(model).modified
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert not one(model).modified
    return given, model, modified


@pytest.mark.parametrize(("text", "copies"), CASES.values(), ids=CASES)
def test_no_shape_is_copied_to_be_joined(text: str, copies: int) -> None:
    given, model, modified = formed(text)
    assert modified
    target = find_target(TARGET)
    before, after = place(from_proto(given), target), place(model, target)
    assert before is not None and after is not None
    assert before.copies_per_iteration - after.copies_per_iteration == copies
    feeds = {"x": np.ones((4, 3), np.float32), "places": np.array([2, 0, 1], np.int64)}
    expected = rewriter.run(given, feeds)["y"]
    np.testing.assert_array_equal(rewriter.run(model, feeds)["y"], expected)


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_other_rows_stay(text: str) -> None:
    assert not formed(text)[2]


@pytest.mark.parametrize("target", ["webgpu", "cuda"])
def test_other_devices_are_not_asked(target: str) -> None:
    assert not formed(CASES["two shapes"][0], target)[2]
