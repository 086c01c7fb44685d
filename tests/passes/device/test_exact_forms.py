"""Forms that move integers of 64 bits on a device, or compare them, without a wider type."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.device.device_forms import DeviceFormsPass
from rewriter.backends import run
from rewriter.model_files.checking import check
from rewriter.placement.device_kernels import kernels_of
from rewriter.placement.placing import place
from rewriter.target_table import find_target

BIG = np.array([[2**62 + 1, -(2**63), 5], [5, 2**62 + 1, 2**62]])
NONE = BIG[:0]
PADS = "p = Constant <value = int64[4] {1, 0, 2, 1}> ()"
UNIQUE = "(int64[N,M] x) => (int64[K] y, int64[K] i, int64[L] v, int64[K] c)"
# Signature, body, feeds.
CASES = {
    "Pad": ("(int64[N,M] x, int64[4] p) => (int64[A,B] y)", "y = Pad (x, p)", BIG, [1, 0, 2, 1]),
    "Pad that crops": (
        "(int64[N,M] x, int64[4] p) => (int64[A,B] y)",
        "y = Pad (x, p)",
        BIG,
        [0, -1, 1, 0],
    ),
    "Pad of uint64 with a value": (
        "(uint64[N,M] x, int64[4] p, uint64 v) => (uint64[A,B] y)",
        "y = Pad (x, p, v)",
        BIG.astype(np.uint64),
        [1, 0, 2, 1],
        np.uint64(2**64 - 1),
    ),
    "Pad of an axis": (
        "(int64[N,M] x, int64[2] p, int64[1] a) => (int64[A,B] y)",
        "y = Pad (x, p, , a)",
        BIG,
        [1, 2],
        [-1],
    ),
    "Pad by edges": (
        "(int64[N,M] x) => (int64[A,B] y)",
        PADS + 'y = Pad <mode="edge"> (x, p)',
        BIG,
    ),
    "Pad by reflection": (
        "(int64[N,M] x) => (int64[A,B] y)",
        "p = Constant <value = int64[4] {1, 0, 1, 2}> ()" + 'y = Pad <mode = "reflect"> (x, p)',
        BIG,
    ),
    "Pad of nothing": ("(int64[N,M] x) => (int64[A,B] y)", PADS + "y = Pad (x, p)", NONE),
    "CenterCropPad": (
        "(int64[N,M] x) => (int64[3,2] y)",
        "s = Constant <value = int64[2] {3, 2}> () y = CenterCropPad (x, s)",
        BIG,
    ),
    "ArgMax": ("(int64[N,M] x) => (int64[N,1] y)", "y = ArgMax <axis = -1> (x)", BIG),
    "ArgMin": ("(int64[N,M] x) => (int64[M] y)", "y = ArgMin <keepdims = 0> (x)", BIG),
    "ArgMax of a tie": ("(int64[N,M] x) => (int64[1,M] y)", "y = ArgMax (x)", BIG[[1, 1, 0]]),
    "ArgMax of no rows": ("(int64[N,M] x) => (int64[N,1] y)", "y = ArgMax <axis = 1> (x)", NONE),
    "Unique": (UNIQUE, "y, i, v, c = Unique (x)", BIG),
    "Unique of nothing": (UNIQUE, "y, i, v, c = Unique (x)", NONE),
    "Unique of one": (UNIQUE, "y, i, v, c = Unique (x)", BIG[:1, :1]),
    "Unique elements alone": (
        "(int64[N] x) => (int64[K] y)",
        "y = Unique (x)",
        np.array([3, -3, 3, 0]),
    ),
    "product of sizes in rows": (
        "(int64[N,3] x) => (int64[N] y)",
        "a = Constant <value = int64[1] {-1}> () y = ReduceProd <keepdims = 0> (x, a)",
        np.array([[2**40, 3, 5], [0, 1, 2]]),
    ),
    "product of columns": (
        "(int64[2,N] x) => (int64[1,N] y)",
        "a = Constant <value = int64[1] {0}> () y = ReduceProd (x, a)",
        np.array([[2**40, 3, 5], [0, 1, 2]]),
    ),
}


def parse(signature: str, body: str, opset: int = 18) -> onnx.ModelProto:
    text = f'<ir_version: 9, opset_import: ["" : {opset}]> g {signature} {{ {body} }}'
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize(
    ("signature", "body", "feeds"), [(a, b, c) for a, b, *c in CASES.values()], ids=CASES
)
def test_forms_compute_the_same(signature: str, body: str, feeds: list) -> None:
    before = parse(signature, body)
    model = ir.from_proto(before)
    forms = DeviceFormsPass(kernels_of("cuda", model))
    assert forms(model).modified
    check(model)
    named = dict(zip((v.name for v in before.graph.input), map(np.asarray, feeds), strict=True))
    expected, found = run(before, named), run(model, named)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)
    assert not forms(model).modified
    placement = place(model, find_target("cuda"))
    assert placement is not None
    assert [one for one in placement.host if not one.is_shapes] == []


@pytest.mark.parametrize(
    ("target", "opset", "signature", "body"),
    [
        ("webgpu", 18, "(int64[N,M] x) => (int64[N,1] y)", "y = ArgMax <axis = 1> (x)"),
        ("cuda", 11, "(int64[N,M] x) => (int64[A,B] y)", PADS + "y = Pad (x, p)"),
        ("cuda", 18, "(int64[N] x) => (int64[1] y)", "y = ArgMin <select_last_index = 1> (x)"),
        ("cuda", 18, "(float[N] x) => (float[K] y)", "y = Unique (x)"),
        ("cuda", 18, "(int64[N] x) => (int64[K] y)", "y = Unique <sorted = 0> (x)"),
        ("cuda", 18, "(int64[N,M] x) => (int64[K,M] y)", "y = Unique <axis = 0> (x)"),
        ("cuda", 18, "(int64[N] x) => (int64[1] y)", "y = ReduceProd (x)"),
        ("cuda", 18, "(int64[2,3] x) => (int64[1,1] y)", "y = ReduceProd (x)"),
    ],
    ids=[
        "no kernels for the form",
        "an old opset",
        "the last place",
        "NaNs",
        "in the order of the elements",
        "rows",
        "a product of many",
        "a product over two axes",
    ],
)
def test_what_has_no_exact_form_stays(target: str, opset: int, signature: str, body: str) -> None:
    model = ir.from_proto(parse(signature, body, opset))
    assert not DeviceFormsPass(kernels_of(target, model))(model).modified
