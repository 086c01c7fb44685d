"""Forms for a device: equal to the operator itself, and only where its kernel is missing."""

from __future__ import annotations

import collections

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.device.device_forms import DeviceFormsPass
from passes.device.moved_forms import WIDENED
from passes.graph.graphs import all_nodes
from rewriter.backends import run
from rewriter.model_files.checking import check
from rewriter.placement.device_kernels import kernels_of
from rewriter.placement.placing import place
from rewriter.target_table import find_target

BYTES = np.array([[3, 255, 0], [255, 7, 7]], np.uint8)
INTS = np.array([[2**31 - 1, -(2**31), 5], [5, 2**24 + 1, 2**24]], np.int32)
ROWS = np.array([[1, 2, 4], [8, 16, 32]], np.float32)
HALF = np.arange(4, dtype=np.int64)
# Inputs with their types, body, result's type, feeds.
CASES = {
    "Pad of bytes": ("uint8[N,M] x, int64[4] p", "y = Pad (x, p)", "uint8", [BYTES, HALF]),
    "Pad of bytes with a value": (
        "uint8[N,M] x, int64[4] p, uint8 v",
        "y = Pad (x, p, v)",
        "uint8",
        [BYTES, HALF, np.uint8(255)],
    ),
    "Pad of int32": ("int32[N,M] x, int64[4] p", "y = Pad (x, p)", "int32", [INTS, HALF]),
    "Pad by reflection": (
        "uint8[N,M] x, int64[4] p",
        'y = Pad <mode = "reflect"> (x, p)',
        "uint8",
        [BYTES, np.array([0, 1, 1, 0])],
    ),
    "Pad of nothing": (
        "uint8[N,M] x, int64[4] p",
        "y = Pad (x, p)",
        "uint8",
        [BYTES[:0], np.array([1, 0, 0, 1])],
    ),
    "CenterCropPad of bytes": (
        "uint8[N,M] x, int64[2] s",
        "y = CenterCropPad (x, s)",
        "uint8",
        [BYTES, np.array([3, 2])],
    ),
    "CenterCropPad along one axis": (
        "uint8[N,M] x, int64[1] s",
        "y = CenterCropPad <axes = [1]> (x, s)",
        "uint8",
        [BYTES, np.array([6])],
    ),
    "ArgMax of bytes": ("uint8[N,M] x", "y = ArgMax <axis = -1> (x)", "int64", [BYTES]),
    "ArgMin of int32": (
        "int32[N,M] x",
        "y = ArgMin <axis = 0, keepdims = 0> (x)",
        "int64",
        [INTS],
    ),
    "GatherND of int32": (
        "int32[N,M] x, int64[K,1] i",
        "y = GatherND (x, i)",
        "int32",
        [INTS, np.array([[1], [0]])],
    ),
    "mean": ("float[N,M] x, float[M] z", "y = Mean (x, z)", "float", [ROWS, ROWS[0]]),
    "mean of one": ("float[N,M] x", "y = Mean (x)", "float", [ROWS]),
    "mean of halves": ("float16[N,M] x", "y = Mean (x, x)", "float16", [ROWS.astype("float16")]),
    "product of sizes": ("int64[3] x", "y = ReduceProd (x)", "int64", [np.array([2**40, 3, 5])]),
}


def model_of(inputs: str, body: str, result: str) -> onnx.ModelProto:
    text = f"g ({inputs}) => ({result}[] y) {{ {body} }}".replace("[] y", "[P,Q] y")
    if "GatherND" not in body and ("keepdims = 0" in body or "ReduceProd" in body):
        text = text.replace("[P,Q] y", "[P] y")
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}')


@pytest.mark.parametrize(("inputs", "body", "result", "feeds"), CASES.values(), ids=CASES)
def test_forms_compute_the_same(inputs: str, body: str, result: str, feeds: list) -> None:
    before = model_of(inputs, body, result)
    model = ir.from_proto(before)
    forms = DeviceFormsPass(kernels_of("cuda", model))
    assert forms(model).modified
    check(model)
    named = dict(zip((value.name for value in before.graph.input), feeds, strict=True))
    expected, found = run(before, named)["y"], run(model, named)["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert not forms(model).modified
    placement = place(model, find_target("cuda"))
    assert placement is not None
    assert [one for one in placement.host if not one.is_shapes] == []


KEPT = {
    "along an axis": ("float[N,M] x, bool[M] c", "y = Compress <axis = 1> (x, c)"),
    "of all numbers": ("float[N,M] x, bool[K] c", "y = Compress (x, c)"),
}


@pytest.mark.parametrize("target", ["dml", "tensorrt", "migraphx"])
@pytest.mark.parametrize(("inputs", "body"), KEPT.values(), ids=KEPT)
def test_what_is_kept_is_gathered(inputs: str, body: str, target: str) -> None:
    before = model_of(inputs, body, "float").SerializeToString()
    model = ir.serde.deserialize_model(onnx.load_from_string(before))
    row = find_target(target)  # type: ignore[arg-type]
    assert DeviceFormsPass(kernels_of(row.kernels, model))(model).modified
    placement = place(model, row)
    assert placement is not None
    assert [one for one in placement.host if not one.is_shapes] == []
    feeds = {"x": ROWS, "c": np.array([True, False, True])}
    expected, found = run(onnx.load_from_string(before), feeds)["y"], run(model, feeds)["y"]
    np.testing.assert_array_equal(found, expected)


def test_booleans_are_picked_as_bytes() -> None:
    """The host's onnxruntime has no Where of booleans either."""
    before = model_of("bool[N,M] c, bool[N,M] a, bool[M] b", "y = Where (c, a, b)", "bool")
    model = ir.from_proto(before)
    assert DeviceFormsPass(kernels_of("cuda", model))(model).modified
    c = np.array([[True, False, True], [False, False, True]])
    feeds = {"c": c, "a": ~c, "b": c[0]}
    np.testing.assert_array_equal(run(model, feeds)["y"], np.where(c, ~c, c[0]))


@pytest.mark.parametrize(
    ("inputs", "body", "result"),
    [
        ("float[N,M] x, int64[4] p", "y = Pad (x, p)", "float"),
        ("bool[N,M] c, int64[N,M] a, int64[N,M] b", "y = Where (c, a, b)", "int64"),
    ],
    ids=["a kernel", "a kernel for Where"],
)
def test_what_has_a_kernel_stays(inputs: str, body: str, result: str) -> None:
    model = ir.from_proto(model_of(inputs, body, result))
    assert not DeviceFormsPass(kernels_of("cuda", model))(model).modified


@pytest.mark.parametrize("count", ["N", "9"])
def test_a_product_of_many_sizes_or_of_any_number_stays(count: str) -> None:
    model = ir.from_proto(model_of(f"int64[{count}] x", "y = ReduceProd (x)", "int64"))
    assert not DeviceFormsPass(kernels_of("cuda", model))(model).modified


def test_strings_are_not_read_as_floats_to_tell_their_shape() -> None:
    model = ir.from_proto(model_of("string[N,M] x", "y = Shape (x)", "int64"))
    assert not DeviceFormsPass(kernels_of("tensorrt", model))(model).modified


def test_every_row_is_an_operator() -> None:
    counted = collections.Counter(WIDENED)
    assert all(onnx.defs.has(name) for name in counted)
    assert len(list(all_nodes(ir.from_proto(model_of(*CASES["Pad of bytes"][:3]))))) == 1
