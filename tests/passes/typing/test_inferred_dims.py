"""Dimensions that our inference functions tell, and those that they do not."""

from __future__ import annotations

import re

import onnx
import pytest

from passes.typing.shape_functions import has_shape_function, stand_in_typed

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3, "com.microsoft" : 1,
 "seqmap.types" : 1]>
g (float[N,4] x, float[M,4] z, float[5] v, float[2,3,4,5] w, float[2,3,5,4] t, float[2,3,N,9] i,
   float[7,3,4,5] o, float[] u, int64[2] k, int64[K] any, float[3,40,1] f, float[3,N] fs, float s)
  => (float r) {{ {} r = Identity (s) }}"""
CUT, SHAPED, COUNTED = (f"y = seqmap.types.{name} " for name in ("Cut", "Shaped", "Counted"))
POOLED, RESIZED, FRAMED = (f"y = seqmap.types.{name} " for name in ("Pooled", "Resized", "Framed"))
SHAPE = "<sizes = [{}], tensors = [{}], axes = [{}]> (x, z, w)"
SVM = "y, l = ai.onnx.ml.SVMClassifier {} ({})"
CASES = {
    "a regression of rows": ("y = ai.onnx.ml.LinearRegressor <targets = 3> (x)", "N,3"),
    "a regression of a vector": ("y = ai.onnx.ml.LinearRegressor (v)", "1,1"),
    "a regression of what is not known": ("y = ai.onnx.ml.LinearRegressor (u)", "?,1"),
    "trees": ("y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 2> (x)", "N,2"),
    "trees of no number": ("y = ai.onnx.ml.TreeEnsembleRegressor (x)", "N,?"),
    "a support vector machine": ("y = ai.onnx.ml.SVMRegressor (x)", "N,1"),
    "classes": (SVM.format("", "x"), "N"),
    "classes of a vector": (SVM.format("", "v"), "1"),
    "classes of what is not known": (SVM.format("", "u"), "?"),
    "features": ("y = ai.onnx.ml.FeatureVectorizer <inputdimensions = [4, 2]> (x, z)", "N,6"),
    "features of no number": ("y = ai.onnx.ml.FeatureVectorizer (x, z)", "N,?"),
    "distances": ("y = com.microsoft.CDist (x, z)", "N,M"),
    "distances to what is not known": ("y = com.microsoft.CDist (x, u)", "N,?"),
    "distances of what is not known": ("y = com.microsoft.CDist (u, z)", "?,M"),
    "a product": ("y = com.microsoft.FusedMatMul (w, t)", "2,3,4,4"),
    "a product, transposed on the left": (
        "y = com.microsoft.FusedMatMul <transA = 1> (w, w)",
        "2,3,5,5",
    ),
    "a product, transposed on the right": (
        "y = com.microsoft.FusedMatMul <transB = 1> (w, w)",
        "2,3,4,4",
    ),
    "a product of other batches": ("y = com.microsoft.FusedMatMul <transB = 1> (w, o)", "?,3,4,4"),
    "a product of a vector": ("y = com.microsoft.FusedMatMul (v, v)", None),
    "a product of matrices": ("y = com.microsoft.FusedMatMul <transB = 1> (x, z)", "N,M"),
    "a product of other ranks": ("y = com.microsoft.FusedMatMul (w, z)", None),
    "a product of what is not known": ("y = com.microsoft.FusedMatMul (u, z)", None),
    "a product by what is not known": ("y = com.microsoft.FusedMatMul (z, u)", None),
    "cut along axes": (CUT + "<axes = [-1, 1]> (w)", "2,?,4,?"),
    "cut along the first": (CUT + "(w, k)", "?,?,4,5"),
    "cut along all": (CUT + "(w, any)", "?,?,?,?"),
    "cut, of any rank": (CUT + "<axes = [0]> (u)", None),
    "a shape": (SHAPED + SHAPE.format("7, -1, -1", "0, 1, 2", "0, 0, 3"), "7,M,5"),
    "a shape of no size": (SHAPED + SHAPE.format("0", "1", "0"), "0"),
    "a size of no tensor": (SHAPED + SHAPE.format("-1, -1", "0, 2", "0, 0"), "?,2"),
    "a size of no axis": (SHAPED + SHAPE.format("-1, -1", "1, 1", "2, 1"), "?,4"),
    "a size of what is not known": (
        SHAPED + "<sizes = [-1], tensors = [1], axes = [0]> (x, u)",
        "?",
    ),
    "the first of a number": ("y, l = seqmap.types.Sorted <axis = 1> (w)", "2,?,4,5"),
    "the first of a number, of the last axis": ("y, l = seqmap.types.Sorted (w)", "2,3,4,?"),
    "the first of a number, of any rank": ("y, l = seqmap.types.Sorted (u)", None),
    "windows": (POOLED + "<kernel_shape = [2, 2]> (w)", "2,3,3,4"),
    "windows by steps": (POOLED + "<kernel_shape = [2, 2], strides = [2, 3]> (w)", "2,3,2,2"),
    "windows with gaps": (POOLED + "<kernel_shape = [2, 2], dilations = [3, 2]> (w)", "2,3,1,3"),
    "windows of what is padded": (
        POOLED + "<kernel_shape = [2, 2], pads = [1, 0, 1, 1]> (w)",
        "2,3,5,5",
    ),
    "windows of any number of rows": (POOLED + "<kernel_shape = [2, 3]> (i)", "2,3,?,7"),
    "windows, of any rank": (POOLED + "<kernel_shape = [2, 2]> (u)", None),
    "twice as large": (RESIZED + "<scales = [1.0, 1.0, 2.0, 2.0]> (w)", "2,3,8,10"),
    "twice as large along axes": (RESIZED + "<scales = [2.0], axes = [-2]> (w)", "2,3,8,5"),
    "twice as large, of any number of rows": (
        RESIZED + "<scales = [2.0, 2.0], axes = [2, 3]> (i)",
        "2,3,?,18",
    ),
    "twice as large along an axis that is not there": (
        RESIZED + "<scales = [2.0], axes = [4]> (w)",
        None,
    ),
    "twice as large along an axis before the first": (
        RESIZED + "<scales = [2.0], axes = [-5]> (w)",
        None,
    ),
    "scales of other axes": (RESIZED + "<scales = [2.0]> (w)", None),
    "no scales": (RESIZED + "(w)", None),
    "frames": (FRAMED + "<step = 8, size = 16> (f)", "3,4,9,2"),
    "one frame": (FRAMED + "<step = 8, size = 40> (f)", "3,1,21,2"),
    "frames longer than the signal": (FRAMED + "<step = 8, size = 41> (f)", "3,?,21,2"),
    "frames of both halves": (FRAMED + "<step = 8, size = 16, onesided = 0> (f)", "3,4,16,2"),
    "frames of no step": (FRAMED + "<size = 16> (f)", "3,?,9,2"),
    "frames of no size": (FRAMED + "<step = 8> (f)", "3,?,?,2"),
    "frames of nothing": (FRAMED + "<step = 8, size = 0> (f)", "3,6,1,2"),
    "frames of a signal of any length": (FRAMED + "<step = 8, size = 16> (fs)", "3,?,9,2"),
    "frames of a vector": (FRAMED + "<step = 1, size = 2> (v)", None),
    "frames of what is not known": (FRAMED + "<step = 1, size = 2> (u)", None),
    "counted": (COUNTED + "<axis = 1> (s, w)", "3"),
    "counted from the end": (COUNTED + "<axis = -4> (s, w)", "2"),
    "counted along the first": (COUNTED + "(s, z)", "M"),
    "counted along no axis": (COUNTED + "<axis = 4> (s, w)", "?"),
    "counted along no axis, from the end": (COUNTED + "<axis = -5> (s, w)", "?"),
    "counted along what is not known": (COUNTED + "(s, u)", "?"),
    "a Gelu": ("y = com.microsoft.Gelu (x)", "N,4"),
}


def inferred(lines: str) -> dict[str, onnx.TypeProto.Tensor]:
    """Return the types that are inferred."""
    proto = onnx.parser.parse_model(TEXT.format(lines))
    proto.graph.input[7].type.tensor_type.ClearField("shape")
    for node in proto.graph.node:
        if has_shape_function(node):
            stand_in_typed(node)
    found = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    return {info.name: info.type.tensor_type for info in found.graph.value_info}


@pytest.mark.parametrize("name", CASES)
def test_dimensions(name: str) -> None:
    lines, expected = CASES[name]
    found = inferred(lines)["y"]
    if expected is None:
        assert not found.HasField("shape")
        return
    assert found.HasField("shape")
    said = [
        dim.dim_value if dim.HasField("dim_value") else re.sub(r"unk__\d+", "?", dim.dim_param)
        for dim in found.shape.dim
    ]
    assert ",".join(map(str, said)) == expected


@pytest.mark.parametrize(
    ("lines", "elem_types"),
    [
        (SVM.format("", "x"), [7, 1]),
        (SVM.format('<classlabels_strings = ["a", "b"]>', "x"), [8, 1]),
        (SVM.format("<classlabels_ints = [1, 2]>", "x"), [7, 1]),
        ("y, l = seqmap.types.Sorted (w)", [1, 7]),
        ("y = ai.onnx.ml.Scaler (k) l = ai.onnx.ml.Imputer (k)", [1, 7]),
        ("y, , , l = com.microsoft.SkipLayerNormalization (w)", [1, 1]),
        (SHAPED + "<elem_types = [7]> (x) l = seqmap.types.Shaped (x)", [7, 1]),
    ],
)
def test_element_types(lines: str, elem_types: list[int]) -> None:
    found = inferred(lines)
    assert [found[name].elem_type for name in "yl"] == elem_types
