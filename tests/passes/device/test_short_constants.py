"""Bounds and places beyond 32 bits on a device that computes int64 in 32 bits."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.device.short_constants import ShortConstantsPass
from rewriter.backends import open_session, run
from rewriter.model_files.protos import from_proto
from rewriter.placement.device_kernels import reads_on_host
from tests import software_gpu

X = np.array([7, 3, 0, 2**31 - 2])
FIRST = "g (int64[N] x) => (int64[N] y)"
# Bodies that read bounds and places that no int32 is.
CASES = {
    "picked": "is = Equal (x, zero)  w = Where (is, far, x)  y = Min (w, seven)",
    "least": "y = Min (x, end)",
    "greatest": "y = Max (x, front)",
    "clamped": "y = Clip (x, front, end)",
    "compared": "is = Less (x, far)  y = Where (is, x, zero)",
    "as far": "is = GreaterOrEqual (x, far)  y = Where (is, seven, x)",
    "filled": "s = Shape (x)  f = ConstantOfShape <value = int64[1] {9223372036854775807}> (s)"
    "  y = Min (f, x)",
    "joined": "j = Concat <axis = 0> (x, ends)  m = ReduceMin <keepdims = 0> (j)  y = Add (x, m)",
    "written": "c = ScatterElements (x, zeros, ends)  y = Min (c, seven)",
    "behind": "w = Sub (x, far)  v = Max (w, zero)  y = Add (x, v)",
    "divided": "w = Div (x, far)  y = Add (x, w)",
    "with an axis more": "u = Unsqueeze (end, zeros)  y = Min (u, x)",
    "carried": "n = Size (x)  yes = Equal (zero, zero)  m, p = Loop (n, yes, end) <body = b "
    "(int64 i, bool c, int64 a) => (bool d, int64 least, int64 o) { d = Identity (c)"
    "  e = Gather (x, i)  least = Min (a, e)  o = Identity (least) }>  y = Add (p, m)",
}
CONSTANTS = (
    "int64 zero = {0}, int64[1] zeros = {0}, int64 seven = {7}, int64 far = {2305843009213693951}, "
    "int64 end = {9223372036854775807}, int64[1] ends = {9223372036854775807}, "
    "int64 front = {-9223372036854775808}"
)


def model_of(body: str) -> onnx.ModelProto:
    text = f"{FIRST} <{CONSTANTS}> {{ {body} }}"
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}')


@pytest.mark.quick
@pytest.mark.parametrize("body", CASES.values(), ids=CASES)
def test_what_nothing_reaches_is_not_reached_on_the_device(body: str) -> None:
    before = model_of(body)
    after = rewriter.optimize(before, target="onnxruntime-webgpu-int64")
    expected = run(before, {"x": X})["y"]
    np.testing.assert_array_equal(run(after, {"x": X})["y"], expected)
    if software_gpu.why_not():
        return
    software_gpu.start()
    found = open_session(after, device="webgpu-int64").run({"x": X})["y"]
    np.testing.assert_array_equal(found, expected)


LEFT = {
    "few": "y = Min (x, seven)",
    "read by the host": "y = Slice (x, zeros, ends)",
    "computed beforehand": "f = Cast <to = 1> (far)  g = Cast <to = 1> (x)  h = Div (g, f)"
    "  y = Cast <to = 7> (h)",
    "runs": "yes = Equal (zero, zero)  y = Loop (end, yes, x) <body = b (int64 i, bool c, "
    "int64[N] a) => (bool d, int64[N] o) { d = Not (c)  o = Add (a, a) }>",
}


@pytest.mark.parametrize("body", LEFT.values(), ids=LEFT)
def test_other_constants_stay(body: str) -> None:
    model = from_proto(model_of(body))
    before = ir.to_proto(model).SerializeToString()
    on_host = reads_on_host("webgpu-int64", model)
    assert not ShortConstantsPass(on_host)(model).modified
    assert ir.to_proto(model).SerializeToString() == before
