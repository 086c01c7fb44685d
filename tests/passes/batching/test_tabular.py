"""Operators of ``ai.onnx.ml`` in maps over rows of features, single ones and ragged lists."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest

from passes.batching import table
from rewriter.backends import run
from rewriter.pipeline import rewrite

TREE = """nodes_treeids = [0,0,0], nodes_nodeids = [0,1,2], nodes_featureids = [0,0,0],
  nodes_values = [0.5,0.0,0.0], nodes_modes = ["BRANCH_LEQ","LEAF","LEAF"],
  nodes_truenodeids = [1,0,0], nodes_falsenodeids = [2,0,0]"""
LABELS = (
    "class_treeids = [0,0], class_nodeids = [1,2], class_ids = [0,1], class_weights = [1.0,1.0]"
)
SVM = """support_vectors = [1.0,2.0,3.0,-4.0,-5.0,-6.0], rho = [0.1], kernel_type = "LINEAR",
  kernel_params = [0.0,0.0,0.0]"""
COLUMNS = "k = Constant <value = int64[2] {2, 0}> ()"


@dataclasses.dataclass(frozen=True)
class Ml:
    """An operator on samples of three features.

    Attributes:
        nodes: Computes ``y`` (and ``z``) of ``x``.
        dtype: The type of ``x``.
        result: The type of ``y``.
        also: The type of ``z``, empty if there is none.
        one_row: Whether onnxruntime takes samples of one row.
        takes_none: Whether onnxruntime takes samples of no rows.
        version: Of ``ai.onnx.ml``.
    """

    nodes: str
    dtype: str = "float"
    result: str = "float"
    also: str = ""
    one_row: bool = True
    takes_none: bool = True
    version: int = 3


CASES = {
    "LabelEncoder": Ml(
        'y = ai.onnx.ml.LabelEncoder <keys_strings = ["a","b"], values_int64s = [5,6]> (x)',
        "string",
        "int64",
    ),
    "CategoryMapper": Ml(
        'y = ai.onnx.ml.CategoryMapper <cats_int64s = [0,1], cats_strings = ["a","b"]> (x)',
        "int64",
        "string",
    ),
    "Binarizer": Ml("y = ai.onnx.ml.Binarizer <threshold = 0.5> (x)"),
    "OneHotEncoder": Ml(
        'y = ai.onnx.ml.OneHotEncoder <cats_strings = ["a","b"], zeros = 1> (x)', "string"
    ),
    "Scaler": Ml("y = ai.onnx.ml.Scaler <offset = [1.0,2.0,3.0], scale = [0.5,2.0,3.0]> (x)"),
    "Normalizer": Ml('y = ai.onnx.ml.Normalizer <norm = "L2"> (x)'),
    "Imputer": Ml(
        """c = Constant <value = float {1}> () g = Greater (x, c) n = Log (c) q = Div (n, n)
        w = Where (g, q, x)
        y = ai.onnx.ml.Imputer <imputed_value_floats = [7.0,8.0,9.0]> (x)"""
    ),
    "ArrayFeatureExtractor": Ml(f"{COLUMNS} y = ai.onnx.ml.ArrayFeatureExtractor (x, k)"),
    "FeatureVectorizer": Ml(
        "n = Neg (x) y = ai.onnx.ml.FeatureVectorizer <inputdimensions = [3,3]> (x, n)",
        takes_none=False,
    ),
    "LinearRegressor": Ml(
        "y = ai.onnx.ml.LinearRegressor <coefficients = [1.0,2.0,3.0], intercepts = [0.5]> (x)"
    ),
    "LinearClassifier": Ml(
        """y, z = ai.onnx.ml.LinearClassifier <coefficients = [1.0,2.0,3.0,-1.0,-2.0,-3.0],
        intercepts = [0.5,-0.5], classlabels_ints = [4,5], post_transform = "SOFTMAX"> (x)""",
        result="int64",
        also="float",
    ),
    "SVMRegressor": Ml(
        f"y = ai.onnx.ml.SVMRegressor <coefficients = [1.0,0.5], n_supports = 2, {SVM}> (x)"
    ),
    "SVMClassifier": Ml(
        f"""y, z = ai.onnx.ml.SVMClassifier <coefficients = [1.0,0.5], classlabels_ints = [4,5],
        vectors_per_class = [1,1], {SVM}> (x)""",
        result="int64",
        also="float",
    ),
    "TreeEnsembleRegressor": Ml(
        f"""y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, target_treeids = [0,0],
        target_nodeids = [1,2], target_ids = [0,0], target_weights = [1.0,2.0], {TREE}> (x)""",
        one_row=False,
    ),
    "TreeEnsembleClassifier": Ml(
        f"""y, z = ai.onnx.ml.TreeEnsembleClassifier <{LABELS}, classlabels_int64s = [4,5],
        {TREE}> (x)""",
        result="int64",
        also="float",
        one_row=False,
    ),
    "TreeEnsemble": Ml(
        """y = ai.onnx.ml.TreeEnsemble <n_targets = 1, aggregate_function = 1, post_transform = 0,
        tree_roots = [0], nodes_featureids = [0], nodes_splits = float[1] {0.5},
        nodes_modes = uint8[1] {0}, nodes_truenodeids = [0], nodes_trueleafs = [1],
        nodes_falsenodeids = [1], nodes_falseleafs = [1], leaf_targetids = [0,0],
        leaf_weights = float[2] {1.0,2.0}> (x)""",
        one_row=False,
        version=5,
    ),
}

FORMS = {
    "one row": ("[N,3]", "s = SplitToSequence <axis = 0, keepdims = 0> (x)", "stacked"),
    "rows": ("[N,2,3]", "s = SplitToSequence <axis = 0, keepdims = 0> (x)", "stacked"),
    "ragged": ("[T,3]", "s = SplitToSequence <axis = 0> (x, lengths)", "joined"),
}
JOINED = {"stacked": "<axis = 0, new_axis = 1>", "joined": "<axis = 0>"}


def model(case: Ml, form: str) -> onnx.ModelProto:
    shape, cut, result = FORMS[form]
    names = ["y", "z"] if case.also else ["y"]
    types = [case.result, case.also][: len(names)]
    outputs = ", ".join(f"{t}[] {n}_all" for t, n in zip(types, names, strict=True))
    inner = ", ".join(f"{t}[] {n}" for t, n in zip(types, names, strict=True))
    joins = " ".join(f"{n}_all = ConcatFromSequence {JOINED[result]} ({n}_seq)" for n in names)
    text = f"""<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : {case.version}]>
    g ({case.dtype}{shape} x, int64[B] lengths) => ({outputs}) {{
      {cut}
      {", ".join(f"{n}_seq" for n in names)} = SequenceMap (s)
        <body = b ({case.dtype}[] x) => ({inner}) {{ {case.nodes} }}>
      {joins} }}"""
    proto = onnx.parser.parse_model(text)
    body = next(n for n in proto.graph.node if n.op_type == "SequenceMap").attribute[0].g
    for value in (*body.input, *body.output, *proto.graph.output):
        value.type.tensor_type.ClearField("shape")
    return proto


def feeds(case: Ml, form: str, lengths: list[int]) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    shape = (sum(lengths), 3) if form == "ragged" else (len(lengths), 2, 3)
    shape = (len(lengths), 3) if form == "one row" else shape
    drawn = {
        "float": rng.standard_normal(shape).astype(np.float32),
        "int64": rng.integers(0, 3, shape),
        "string": rng.choice(np.array(["a", "b", "c"], object), shape),
    }
    return {"x": drawn[case.dtype], "lengths": np.array(lengths, np.int64)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_a_map_of_it_ends_without_a_loop(name: str, form: str) -> None:
    case = CASES[name]
    if form == "one row" and not case.one_row:
        pytest.skip("ONNX's inference refuses it")
    given = model(case, form)
    after = rewrite(given, target="portable").model
    for lengths in ([2, 0 if case.takes_none else 1, 3], [1], [4, 4]):
        fed = feeds(case, form, lengths)
        expected, got = (run(one, fed) for one in (given, after))
        for key, value in expected.items():
            assert got[key].shape == value.shape
            if value.dtype.kind == "f":
                np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(got[key], value)


@pytest.mark.quick
@pytest.mark.parametrize("name", CASES)
def test_no_samples_have_no_results(name: str) -> None:
    after = rewrite(model(CASES[name], "rows"), target="portable").model
    fed = feeds(CASES[name], "rows", [])
    assert run(after, fed)["y_all"].shape[:2] == (0, 2)


def test_every_rule_has_a_case() -> None:
    known = {row.op_type for row in table.rows() if row.domain == "ai.onnx.ml"}
    assert known == set(CASES)
