"""Operators that ONNX's inference does not know: our types against what onnxruntime yields."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.typing import type_values
from rewriter.backends import run

HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3, "com.microsoft" : 1]> g '
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
ROW = "float[N,4] x"
TREE = (
    "nodes_falsenodeids = [0], nodes_featureids = [0], nodes_missing_value_tracks_true = [0],"
    'nodes_modes = ["LEAF"], nodes_nodeids = [0], nodes_treeids = [0], nodes_truenodeids = [0],'
    "nodes_values = [0.0], nodes_hitrates = [1.0]"
)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Scaler": (ROW, "ai.onnx.ml.Scaler <scale = [2.0], offset = [1.0]> (x)", {"x": X}),
    "Scaler of integers": (
        "int64[N,4] x",
        "ai.onnx.ml.Scaler <scale = [2.0], offset = [1.0]> (x)",
        {"x": X.astype(np.int64)},
    ),
    "Normalizer": (ROW, 'ai.onnx.ml.Normalizer <norm = "L2"> (x)', {"x": X}),
    "Imputer": (
        ROW,
        "ai.onnx.ml.Imputer <imputed_value_floats = [7.0], replaced_value_float = 0.0> (x)",
        {"x": X},
    ),
    "FeatureVectorizer": (
        "float[N,4] x, float[N,4] z",
        "ai.onnx.ml.FeatureVectorizer <inputdimensions = [4, 4]> (x, z)",
        {"x": X, "z": X},
    ),
    "LinearRegressor": (
        ROW,
        "ai.onnx.ml.LinearRegressor <coefficients = [1.0, 2.0, 3.0, 4.0], targets = 1> (x)",
        {"x": X},
    ),
    "LinearRegressor of a vector": (
        "float[4] x",
        "ai.onnx.ml.LinearRegressor <coefficients = [1.0, 2.0, 3.0, 4.0]> (x)",
        {"x": X[0]},
    ),
    "SVMRegressor": (
        ROW,
        'ai.onnx.ml.SVMRegressor <coefficients = [1.0, 2.0, 3.0, 4.0], kernel_type = "LINEAR", '
        'n_supports = 0, kernel_params = [0.0, 0.0, 0.0], post_transform = "NONE", rho = [0.5]> (x)',
        {"x": X},
    ),
    "TreeEnsembleRegressor": (
        ROW,
        f"ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, target_ids = [0], "
        f"target_nodeids = [0], target_treeids = [0], target_weights = [3.0], {TREE}> (x)",
        {"x": X},
    ),
    "TreeEnsembleClassifier": (
        ROW,
        "ai.onnx.ml.TreeEnsembleClassifier <class_ids = [0], class_nodeids = [0], "
        'class_treeids = [0], class_weights = [3.0], classlabels_strings = ["a", "b", "c"], '
        f"{TREE}> (x)",
        {"x": X},
    ),
    "CDist": (
        "float[N,4] x, float[M,4] z",
        'com.microsoft.CDist <metric = "euclidean"> (x, z)',
        {"x": X, "z": X[:2]},
    ),
    "FusedMatMul": (
        "float[B,N,4] x, float[B,M,4] z",
        "com.microsoft.FusedMatMul <transB = 1> (x, z)",
        {"x": X[None], "z": X[None, :2]},
    ),
    "Gelu": (ROW, "com.microsoft.Gelu (x)", {"x": X}),
    "QuickGelu": (ROW, "com.microsoft.QuickGelu (x)", {"x": X}),
    "BiasGelu": (f"{ROW}, float[4] b", "com.microsoft.BiasGelu (x, b)", {"x": X, "b": X[0]}),
    "FastGelu": (ROW, "com.microsoft.FastGelu (x)", {"x": X}),
    "Inverse": ("float[N,N] x", "com.microsoft.Inverse (x)", {"x": np.eye(3, dtype=np.float32)}),
}


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_a_type_agrees_with_what_onnxruntime_yields(name: str) -> None:
    inputs, call, feed = CASES[name]
    results = "r, scores" if name == "TreeEnsembleClassifier" else "r"
    text = f"{HEAD} ({inputs}) => (y) {{ {results} = {call}  y = Identity (r) }}"
    model = ir.from_proto(onnx.parser.parse_model(text))
    typing = type_values(model)
    known = typing[model.graph.node(0).outputs[0]]
    assert known.type is not None and known.dims is not None
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.elem_type = int(known.type.dtype)
    found = run(proto, feed)["y"]
    wanted = known.type.dtype.numpy()
    assert found.dtype in (wanted, np.dtype(object))
    assert len(known.dims) == found.ndim
    pairs = zip(known.dims, found.shape, strict=True)
    assert all(not isinstance(dim, int) or dim == size for dim, size in pairs)


def test_a_scan_behind_a_scaler_is_fused() -> None:
    """A StandardScaler in front of nearest neighbours, as scikit-learn's exporter writes it."""
    text = f"""{HEAD} (float[N,4] x, float[M,4] train) => (float[N,M] y) {{
        s = ai.onnx.ml.Scaler <offset = [0.0, 1.0, 2.0, 3.0], scale = [1.0, 2.0, 3.0, 4.0]> (x)
        y = Scan <num_scan_inputs = 1, body = step (float[4] row) => (float[M] d) {{
            e = Sub (train, row)
            d = ReduceSumSquare <axes = [1], keepdims = 0> (e)
        }}> (s)
    }}"""
    before = onnx.parser.parse_model(text)
    result = rewriter.rewrite(before)
    assert result.report.after.loops == 0
    feed = {"x": X, "train": X[:2]}
    np.testing.assert_allclose(run(result.model, feed)["y"], run(before, feed)["y"], rtol=1e-5)


PRODUCT, DISTANCE = "com.microsoft.FusedMatMul", 'com.microsoft.CDist <metric = "euclidean">'
PARTLY: dict[str, tuple[str, str, tuple[int | str | None, ...] | None]] = {
    "a product": ("float[N,4] x, float[4,M] z", f"{PRODUCT} (x, z)", ("N", "M")),
    "a product, turned": (
        "float[4,N] x, float[M,4] z",
        f"{PRODUCT} <transA = 1, transB = 1> (x, z)",
        ("N", "M"),
    ),
    "a product of batches": (
        "float[A,B,N,4] x, float[A,C,4,M] z",
        f"{PRODUCT} (x, z)",
        ("A", None, "N", "M"),
    ),
    "a product of other ranks": ("float[B,N,4] x, float[4,M] z", f"{PRODUCT} (x, z)", None),
    "a product of vectors": ("float[4] x, float[4] z", f"{PRODUCT} (x, z)", None),
    "a product by anything": ("float[N,4] x, float[] z", f"{PRODUCT} (x, z)", None),
    "a product of anything": ("float[] x, float[4,M] z", f"{PRODUCT} (x, z)", None),
    "distances": ("float[N,4] x, float[M,4] z", f"{DISTANCE} (x, z)", ("N", "M")),
    "distances from anything": ("float[N,4] x, float[] z", f"{DISTANCE} (x, z)", ("N", None)),
    "distances of anything": ("float[] x, float[M,4] z", f"{DISTANCE} (x, z)", (None, "M")),
    "distances of a number": ("float x, float[M,4] z", f"{DISTANCE} (x, z)", (None, "M")),
    "distances from a number": ("float[N,4] x, float z", f"{DISTANCE} (x, z)", ("N", None)),
    "like anything": ("float[] x", "com.microsoft.Gelu (x)", None),
    "like a number": ("float x", "com.microsoft.Gelu (x)", ()),
    **{
        f"{op_type} {more} of {kind}": (
            f"float{dims} x",
            f"ai.onnx.ml.{op_type} {more} (x)",
            (first, last),
        )
        for op_type, more, last in (
            ("LinearRegressor", "<targets = 2>", 2),
            ("LinearRegressor", "", 1),
            ("SVMRegressor", "", 1),
            ("TreeEnsembleRegressor", "<n_targets = 3>", 3),
            ("TreeEnsembleRegressor", "", None),
            ("FeatureVectorizer", "<inputdimensions = [2, 3]>", 5),
            ("FeatureVectorizer", "", None),
        )
        for kind, dims, first in (
            ("a number", "", None),
            ("a vector", "[N]", 1),
            ("rows", "[N,4]", "N"),
            ("anything", "[]", None),
        )
    },
    **{
        f"labels of {kind}": (f"float{dims} x", "ai.onnx.ml.SVMClassifier (x)", (first,))
        for kind, dims, first in (
            ("a number", "", None),
            ("a vector", "[N]", 1),
            ("rows", "[N,4]", "N"),
        )
    },
}


@pytest.mark.quick
@pytest.mark.parametrize("name", PARTLY)
def test_what_is_known_of_dimensions(name: str) -> None:
    inputs, call, expected = PARTLY[name]
    text = f"{HEAD} ({inputs}) => (float[] y) {{ r = {call}  y = Identity (r) }}"
    model = ir.from_onnx_text(text)
    assert _named(type_values(model)[model.graph.node(0).outputs[0]].dims) == expected


def _named(dims: tuple[int | str | None, ...] | None) -> tuple[int | str | None, ...] | None:
    """Return dimensions, None for each that inference has named."""
    if dims is None:
        return None
    return tuple(None if str(dim).startswith("unk__") else dim for dim in dims)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ('classlabels_strings = ["a", "b"]', ir.DataType.STRING),
        ("classlabels_int64s = [1, 2]", ir.DataType.INT64),
    ],
)
def test_labels(labels: str, dtype: ir.DataType) -> None:
    text = f"""{HEAD} (float[N,4] x) => (float[] z) {{
        y, s = ai.onnx.ml.TreeEnsembleClassifier <class_ids = [0], class_nodeids = [0],
            class_treeids = [0], class_weights = [3.0], {labels}, {TREE}> (x)
        z = Identity (x) }}"""
    model = ir.from_onnx_text(text)
    labelled, scores = model.graph.node(0).outputs
    typing = type_values(model)
    assert typing.dtype(labelled) == dtype
    dims = [_named(typing.dims(labelled)), _named(typing.dims(scores))]
    assert dims == [("N",), ("N", None)]
