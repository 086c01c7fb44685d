"""Forms for a device that computes int64 in 32 bits, and those of bytes on it: equal, all there."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.device.device_forms import DeviceFormsPass
from rewriter.backends import BackendError, open_session, run
from rewriter.backends.onnxruntime import OnnxruntimeSession
from rewriter.model_files.checking import check
from rewriter.model_files.protos import from_proto
from rewriter.placement.device_kernels import kernels_of
from rewriter.placement.placing import place
from rewriter.target_table import find_target
from tests import software_gpu

TABLE = "webgpu-int64"
NUMBERS = np.array([[0, -1, 2**31 - 1, -(2**31)], [70000, -70000, 65536, -65537]])
SMALL = NUMBERS % 1000 - 500
RESTS = np.array([[7, -7, 7, -7], [6, -6, 0, 5]])
DIVISORS = np.array([[3, 3, -3, -3], [3, -3, -3, 2**31 - 1]])
HALVES = np.arange(-3.5, 4)
BYTES = np.array([[3, 255, 0], [255, 7, 7]], np.uint8)
X = "int64[N,M] x"
# Inputs with their types, result with its type, body, feeds.
CASES = {
    "places of flags": (
        "float[N] x",
        "int64[1,K] y",
        "f = Greater (x, zero) y = NonZero (f)",
        [np.float32([1, -1, 0, 2, np.nan, 5])],
    ),
    "places of numbers": (
        "float[N,M,L] x",
        "int64[3,K] y",
        "a = Neg (x) y = NonZero (a)",
        [np.float32([[[0, 1], [-0.0, 2]], [[3, 0], [0, 4]], [[0, 0], [0, 1e-30]]])],
    ),
    "no places": (
        "float[N,M] x",
        "int64[2,K] y",
        "f = Greater (x, zero) y = NonZero (f)",
        [np.float32([[-1, 0], [0, -2]])],
    ),
    "one row of many": (X, "int64[A,B] y", "a = Add (x, x) y = Flatten <axis = 0> (a)", [SMALL]),
    "flags in a branch": (
        "float[N] x",
        "bool[N] y",
        """s = ReduceMax <keepdims = 0> (x) c = Greater (s, zero)
        y = If (c) <then_branch = t () => (bool[N] p) {
            a = Greater (x, zero) b = Less (x, zero) p = Or (a, b) },
            else_branch = e () => (bool[N] q) { q = Equal (x, zero) }>""",
        [np.float32([1, -1, 0])],
    ),
    "running sum": (X, "int64[N,M] y", "y = CumSum (x, one)", [SMALL]),
    "greatest": (X, "int64[N] y", "y = ReduceMax <keepdims = 0> (x, ones)", [NUMBERS]),
    "least": (X, "int64[N] y", "y = ReduceMin <keepdims = 0> (x, ones)", [NUMBERS]),
    "squeezed": ("int64[1,M] x", "int64[M] y", "y = Squeeze (x, zeros)", [NUMBERS[1:]]),
    "turned": (X, "int64[M,N] y", "y = Transpose <perm = [1, 0]> (x)", [NUMBERS]),
    "turned, nothing": (X, "int64[M,N] y", "y = Transpose <perm = [1, 0]> (x)", [NUMBERS[:0]]),
    "split": (
        "int64[N,4] x",
        "int64[N,2] y",
        "a, b = Split <axis = 1, num_outputs = 2> (x)  y = Max (a, b)",
        [NUMBERS],
    ),
    "picked": (
        f"{X}, int64[N,K] i",
        "int64[N,K] y",
        "y = GatherElements <axis = 1> (x, i)",
        [NUMBERS, np.array([[3, -1, 0], [1, 1, -4]])],
    ),
    "cut": (X, "int64[N,K] y", "y = Slice (x, ones, far, ones)", [NUMBERS]),
    "written": (
        f"{X}, int64[N,K] i, int64[N,K] u",
        "int64[N,M] y",
        "y = ScatterElements <axis = 1> (x, i, u)",
        [NUMBERS, np.array([[0, 2], [3, 1]]), NUMBERS[:, 2:]],
    ),
    "distance from zero": (X, "int64[N,M] y", "y = Abs (x)", [SMALL]),
    "negative": (X, "int64[N,M] y", "y = Neg (x)", [SMALL]),
    "sign": (X, "int64[N,M] y", "y = Sign (x)", [NUMBERS]),
    "sign of floats": (
        "float[N] x",
        "float[N] y",
        "y = Sign (x)",
        [np.float32([np.nan, -0.0, np.inf, -3, 0, 2])],
    ),
    "either": (
        "float[N] x",
        "bool[N] y",
        "f = Cast <to = 1> (one)  a = Less (x, f)  b = Equal (x, f)  y = Or (a, b)",
        [np.float32([0, 1, 2])],
    ),
    "one of two": (
        "float[N] x",
        "bool[N] y",
        "f = Cast <to = 1> (one)  a = Less (x, f)  b = Less (x, zero)  y = Xor (a, b)",
        [np.float32([-1, 0, 1, 2])],
    ),
    "all of both, and of neither": (
        "bool[N] a, bool[M,1] b",
        "bool[M,N] y",
        "y = Xor (a, b)",
        [np.array([True, False]), np.array([[True], [False]])],
    ),
    "rest with the sign of the divisor": (
        f"{X}, int64[N,M] by",
        "int64[N,M] y",
        "y = Mod (x, by)",
        [RESTS, DIVISORS],
    ),
    "rest with the sign of the number": (
        f"{X}, int64[N,M] by",
        "int64[N,M] y",
        "y = Mod <fmod = 1> (x, by)",
        [RESTS, DIVISORS],
    ),
    "rest of int32": (
        "int32[N,M] x, int32[N,M] by",
        "int32[N,M] y",
        "y = Mod (x, by)",
        [RESTS.astype(np.int32), DIVISORS.astype(np.int32)],
    ),
    "rest of uint32": (
        "uint32[N] x, uint32[N] by",
        "uint32[N] y",
        "y = Mod (x, by)",
        [np.array([7, 2**32 - 1, 6], np.uint32), np.array([3, 2**31, 6], np.uint32)],
    ),
    "rounded": (
        "float[N] x",
        "float[N] y",
        "y = Round (x)",
        [np.float32([*HALVES, 0.49999997, -0.3, 2**23 + 1, -(2**30), np.inf, -np.inf, np.nan])],
    ),
    "product of any number": ("int64[N] x", "int64[1] y", "y = ReduceProd (x)", [RESTS[0]]),
    "product of none": ("int64[N] x", "int64[1] y", "y = ReduceProd (x)", [RESTS[0, :0]]),
    "cut int32": (
        "int32[N,M] x",
        "int32[N,K] y",
        "a = Neg (x) y = Slice (a, ones, far, ones)",
        [NUMBERS.astype(np.int32)],
    ),
    "flags of a branch, of around it": (
        "float[N] x",
        "bool[N] y",
        """s = ReduceMax <keepdims = 0> (x) c = Greater (s, zero) f = Less (x, zero)
        y = If (c) <then_branch = t () => (bool[N] p) { p = Identity (f) },
            else_branch = e () => (bool[N] q) { q = Equal (x, zero) }>""",
        [np.float32([1, -1, 0])],
    ),
    "joined bytes": (
        "uint8[N,M] x",
        "uint8[K,M] y",
        "y = Concat <axis = 0> (x, x)",
        [BYTES],
    ),
    "cut bytes": ("uint8[N,M] x", "uint8[N,K] y", "y = Slice (x, ones, far, ones)", [BYTES]),
    "shape of bytes": (
        "uint8[N,M] x",
        "float[N,M] y",
        "s = Shape (x)  f = Cast <to = 1> (one)  y = Expand (f, s)",
        [BYTES],
    ),
    "kept": (
        "float[N,M] x, bool[K] c",
        "float[A,M] y",
        "y = Compress <axis = 0> (x, c)",
        [SMALL.astype(np.float32)[[0, 1, 1, 0]], np.array([True, False, True])],
    ),
    "kept columns": (
        f"{X}, bool[K] c",
        "int64[N,A] y",
        "y = Compress <axis = 1> (x, c)",
        [NUMBERS, np.array([False, True, True, True])],
    ),
    "kept of all": (
        f"{X}, bool[K] c",
        "int64[A] y",
        "y = Compress (x, c)",
        [NUMBERS, np.array([True, False, False, False, False, True])],
    ),
}
CONSTANTS = "float zero = {0}, int64 one = {1}, int64[1] ones = {1}, int64[1] zeros = {0}, int64[1] far = {9999}"


def model_of(inputs: str, result: str, body: str) -> onnx.ModelProto:
    text = f"g ({inputs}) => ({result}) <{CONSTANTS}> {{ {body} }}"
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}')


def formed(before: onnx.ModelProto) -> ir.Model:
    model = ir.from_proto(onnx.load_from_string(before.SerializeToString()))
    forms = DeviceFormsPass(kernels_of(TABLE, model), short_int64=True)
    assert forms(model).modified
    check(model)
    assert not forms(model).modified
    return model


@pytest.mark.quick
@pytest.mark.parametrize(("inputs", "result", "body", "feeds"), CASES.values(), ids=CASES)
def test_forms_compute_the_same(inputs: str, result: str, body: str, feeds: list) -> None:
    before = model_of(inputs, result, body)
    model = formed(before)
    placement = place(model, find_target(TABLE))
    assert placement is not None
    assert placement.host == ()
    named = dict(zip((value.name for value in before.graph.input), feeds, strict=True))
    expected, found = run(before, named)["y"], run(model, named)["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    if software_gpu.why_not():
        return
    software_gpu.start()
    # The compiler of shaders may take it that nothing is NaN.
    skipped = np.isnan(expected)
    whole = OnnxruntimeSession(ir.to_proto(model), None, TABLE, whole=True)
    np.testing.assert_array_equal(whole.run(named)["y"][~skipped], expected[~skipped])


COPIED_LIST = """g (bool[N] x, bool c) => (seq(bool[N]) y) {
    f = Not (x) s = SequenceConstruct (f)
    y = If (c) <then_branch = t () => (seq(bool[N]) p) { p = Identity (s) },
        else_branch = e () => (seq(bool[N]) q) { q = SequenceEmpty <dtype = 9> () }> }"""
IN_A_LOOP = """g (float[N] x, int64 n) => (float[N] y) {
    c = Constant <value = bool {1}> ()
    y = Loop (n, c, x) <body = b (int64 i, bool t, float[N] a) => (bool u, float[N] o) {
        u = Identity (t) f = Mul (a, a) o = Round (f) }> }"""
CUT_SHAPE = """g (int64[N] x, int64[1] k) => (int32[M] y) {
    c = Cast <to = 6> (x) y = Slice (c, k, k) }"""
SHAPE_OF_THE_HOST = """g (uint8[N] x) => (float[M] y) {
    u = Unique (x) s = Shape (u) f = Constant <value = float {1}> () y = Expand (f, s) }"""


@pytest.mark.parametrize(
    ("table", "opset", "text"),
    [
        (TABLE, 18, "g (float[N] x) => (float[N] y) { y = Mod <fmod = 1> (x, x) }"),
        (TABLE, 18, "g (float[N,M] x) => (float[N,M] y) { y = LogSoftmax (x) }"),
        (TABLE, 18, "g (double[N] x) => (double[N] y) { y = Round (x) }"),
        ("webgpu", 18, "g (int64[N] x) => (int64[N] y) { y = Mod (x, x) }"),
        ("cuda", 18, "g (int64[N] x) => (int64[N] y) { y = Mod (x, x) }"),
        ("webgpu", 18, "g (int32[N] x) => (int32[N] y) { y = Slice (x, x, x) }"),
        ("webgpu", 18, CUT_SHAPE),
        (TABLE, 18, IN_A_LOOP),
        (TABLE, 18, SHAPE_OF_THE_HOST),
        (TABLE, 18, COPIED_LIST),
        ("dml", 18, COPIED_LIST),
    ],
    ids=[
        "a rest of floats",
        "a logarithm of no rows, whose greatest its kernel refuses",
        "doubles",
        "no int64",
        "a kernel is there",
        "int32 that may lie on the host",
        "int32 that the host makes",
        "rounding in a loop of the host",
        "the shape of what the host makes",
        "a list of flags",
        "a list of flags where the device has lists",
    ],
)
def test_what_stays(table: str, opset: int, text: str) -> None:
    before = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> {text}')
    model = from_proto(before)
    forms = DeviceFormsPass(kernels_of(table, model), short_int64=table == TABLE)
    assert not forms(model).modified


@pytest.mark.parametrize("kept", [[], [False, False]], ids=["of nothing", "nothing"])
def test_nothing_is_kept(kept: list) -> None:
    before = model_of(*CASES["kept"][:3])
    rows = np.arange(2 * len(kept), dtype=np.float32).reshape(-1, 2)
    found = run(formed(before), {"x": rows, "c": np.array(kept, bool)})
    np.testing.assert_array_equal(found["y"], rows[:0])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)], ids=str)
def test_there_are_no_places_in_nothing(shape: tuple[int, ...]) -> None:
    names = ",".join("NM"[: len(shape)])
    before = model_of(f"float[{names}] x", "int64[R,K] y", "f = Neg (x) y = NonZero (f)")
    found = run(formed(before), {"x": np.zeros(shape, np.float32)})
    assert found["y"].shape == (len(shape), 0)


@pytest.mark.parametrize("table", ["webgpu", TABLE])
def test_a_vector_is_not_copied_for_its_size(table: str) -> None:
    body = "a = Neg (x) n = Size (a) m = Reshape (n, ones) y = ConstantOfShape (m)"
    before = model_of("float[N] x", "float[N] y", body)
    model = from_proto(before)
    assert DeviceFormsPass(kernels_of(table, model), short_int64=table == TABLE)(model).modified
    placement = place(model, find_target(table))
    assert placement is not None
    assert "Size" not in [one.op for one in placement.host]
    feeds = {"x": np.arange(5, dtype=np.float32)}
    assert run(model, feeds)["y"].shape == (5,)


def test_the_host_tells_the_size_of_what_it_computes() -> None:
    body = "a = Add (ends, ends) n = Size (a) y = Mul (n, n)"
    model = from_proto(model_of("int64[N] ends", "int64 y", body))
    assert not DeviceFormsPass(kernels_of("webgpu", model))(model).modified


def test_flags_of_the_host_stay_there() -> None:
    text = """c = Greater (ends, zeros) d = ReduceMax <keepdims = 0> (ends) e = Greater (d, one)
        y = If (e) <then_branch = t () => (bool[N] p) { b = Less (ends, zeros) p = Or (c, b) },
            else_branch = o () => (bool[N] q) { q = Identity (c) }>"""
    model = from_proto(model_of("int64[N] ends", "bool[N] y", text))
    DeviceFormsPass(kernels_of("webgpu", model))(model)
    assert "Or" in [node.op_type for node in model.graph.all_nodes()]


def test_without_the_setting_int64_stays_on_the_host() -> None:
    model = ir.from_proto(model_of(*CASES["greatest"][:3]))
    assert not DeviceFormsPass(kernels_of("webgpu", model))(model).modified


ADDED = "g (int64[N] x) => (int64[N] y) { y = Add (x, x) }"


def test_the_device_adds_int64_in_32_bits() -> None:
    """Why the setting has a target of its own: docs/guide/placement.md."""
    if reason := software_gpu.why_not():
        pytest.skip(reason)
    software_gpu.start()
    added = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {ADDED}')
    numbers = {"x": np.array([-3, 2**30 - 1, 2**40])}
    session: Any = OnnxruntimeSession(added, None, TABLE, whole=True)
    assert session.run(numbers)["y"].tolist() == [-6, 2**31 - 2, 0]
    assert open_session(added, device="webgpu-int64").run(numbers)["y"][0] == -6
    with pytest.raises(BackendError, match="takes no node"):
        open_session(added, device="webgpu")
