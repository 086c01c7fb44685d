"""Shapes of elements of a sequence are read on the host where the device holds no sequences."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.device.shapes_on_host import ShapesOnHostPass
from rewriter.backends import open_session, placement
from rewriter.model_files.protos import from_proto
from rewriter.placement.device_kernels import kernels_of, passes_behind_all
from rewriter.placement.placing import place
from rewriter.target_table import find_target
from tests import software_gpu


def scanned(body: str, kind: str = "float") -> str:
    return f"""<ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]>
    g (seq({kind}[M, 3]) xs, int64[N] places) => (int64[N, K] y) {{
        y = Scan <num_scan_inputs = 1, body = b (int64 i) => (int64[K] s) {{
            x = SequenceAt (xs, i)  {body} }}> (places) }}"""


ALONE = "s = Shape (x)"
CASES = {
    "a whole shape": (scanned(ALONE), 1),
    "parts of one": (
        scanned("p = Shape <end = 1> (x) q = Shape <start = -1> (x) s = Concat <axis = 0> (p, q)"),
        2,
    ),
    "integers of 32 bits": (scanned(ALONE, "int32"), 1),
    "beside what the host reads": (
        scanned("n = Shape (x) e = SequenceConstruct (x) l = SequenceLength (e) s = Mul (n, l)"),
        1,
    ),
}
LEFT = {
    "what the device reads, too": scanned(
        "r = Relu (x) n = Shape (x) h = ReduceSum <keepdims = 0> (r) i2 = Cast <to = 7> (h) s = Mul (n, i2)"
    ),
    "a type that the device has no Shape for": scanned(ALONE, "int64"),
    "strings": scanned(ALONE, "string"),
    "what an unknown operator makes": scanned("u = com.microsoft.Gelu (x) s = Shape (u)"),
    "no list": """<ir_version: 9, opset_import: ["" : 18]>
        g (float[N] x) => (int64[1] y) { r = Relu (x) y = Shape (r) }""",
}


def formed(text: str, target: str = "webgpu") -> tuple[onnx.ModelProto, ir.Model, bool]:
    given = onnx.parser.parse_model(text)
    model = from_proto(onnx.parser.parse_model(text))
    one = ShapesOnHostPass(kernels_of(target, model))
    modified = one(model).modified
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert not one(model).modified
    return given, model, modified


def test_forms_behind_all_leave_it_on_the_host() -> None:
    _, model, _ = formed(scanned(ALONE))
    assert not any(one(model).modified for one in passes_behind_all("webgpu", model))


@pytest.mark.parametrize(("text", "shapes"), CASES.values(), ids=CASES)
def test_no_element_is_copied_for_its_shape(text: str, shapes: int) -> None:
    given, model, modified = formed(text)
    assert modified
    made = [node for node in model.graph.all_nodes() if node.op_type == "Neg"]
    assert len(made) == shapes
    target = find_target("webgpu")
    before, after = place(from_proto(given), target), place(model, target)
    assert before is not None and after is not None
    assert (before.copies_per_iteration, after.copies_per_iteration) == (1, 0)
    kind = np.int32 if "seq(int32" in text else np.float32
    xs = [np.full((n, 3), np.nan if kind == np.float32 else 7).astype(kind) for n in (2, 0, 5)]
    feeds = {"xs": xs, "places": np.array([2, 0, 1], np.int64)}
    expected = rewriter.run(given, feeds)["y"]
    np.testing.assert_array_equal(rewriter.run(model, feeds)["y"], expected)


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_other_shapes_stay(text: str) -> None:
    assert not formed(text)[2]


def test_a_device_that_holds_sequences_reads_shapes_itself() -> None:
    assert not formed(CASES["a whole shape"][0], "cuda")[2]


@pytest.mark.parametrize("op", ["Neg", "Shape"])
def test_a_device_that_has_the_other_type_would_read_it_itself(op: str) -> None:
    model = from_proto(onnx.parser.parse_model(CASES["a whole shape"][0]))

    def has_kernel(node: ir.Node, dtype: ir.DataType | None) -> bool:
        return node.op_type == op if dtype == ir.DataType.INT8 else node.op_type != "SequenceAt"

    assert not ShapesOnHostPass(has_kernel)(model).modified


def test_the_adapter_is_handed_no_element() -> None:
    if reason := software_gpu.why_not():
        pytest.skip(reason)
    software_gpu.start()
    text = scanned("n = Shape (x) f = Cast <to = 1> (n) r = Exp (f) s = Cast <to = 7> (r)")
    given, model, _ = formed(text)
    feeds = {
        "xs": [np.zeros((n, 3), np.float32) for n in (2, 1, 5)],
        "places": np.array([2, 0, 1], np.int64),
    }
    copied = [
        placement(open_session(one, device="webgpu"), feeds) for one in (given, ir.to_proto(model))
    ]
    before, after = copied
    assert before is not None and after is not None
    assert before.to_device - after.to_device == len(feeds["places"])
