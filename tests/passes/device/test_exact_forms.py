"""Forms that move integers of 64 bits on a device, or compare them, without a wider type."""

from __future__ import annotations

from typing import Any

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
FEATURES = np.array(
    [[1, 2, 3], [-4, 0.5, -0.0], [0, 0, 0], [np.nan, 1, 1], [np.inf, 1, 1], [1, -np.inf, 1]],
    np.float32,
)
PADS = "p = Constant <value = int64[4] {1, 0, 2, 1}> ()"
SUMMED_BEFORE = "a = Constant <value = int64 {0}> () y = CumSum (x, a)"
SUMMED = "a = Constant <value_int = 0> () y = CumSum (x, a)"
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
}
SEVERAL = {
    "an optional value": (
        "(int64[N,M] x) => (int64[A,M] y)",
        "o = Optional (x) h = OptionalHasElement (o) e = OptionalGetElement (o) "
        "c = Cast <to = 7> (h) y = Add (e, c)",
        BIG,
    ),
    "an optional value in a branch": (
        "(int64[N,M] x) => (int64[A,M] y)",
        "o = Optional (x) h = OptionalHasElement (o) y = If (h) <then_branch = t () => "
        "(int64[A,M] a) { a = OptionalGetElement (o) }, else_branch = e () => (int64[A,M] b) "
        "{ b = Neg (x) }>",
        BIG,
    ),
    "nothing is asked for": (
        "(int64[N,M] x) => (bool y, bool z)",
        "y = OptionalHasElement () z = OptionalHasElement (x)",
        BIG,
    ),
    "rows as a sequence": (
        "(int64[2,M] x) => (seq(int64[A]) y)",
        "y = SplitToSequence <keepdims = 0> (x)",
        BIG,
    ),
    "single rows as a sequence": (
        "(int64[2,M] x) => (seq(int64[A,B]) y)",
        "y = SplitToSequence (x)",
        BIG,
    ),
    "parts of one size and a rest as a sequence": (
        "(int64[N,3] x) => (seq(int64[N,A]) y)",
        "k = Constant <value = int64 {2}> () y = SplitToSequence <axis = -1> (x, k)",
        BIG,
    ),
    "parts of given sizes as a sequence": (
        "(int64[N,M] x) => (seq(int64[N,A]) y)",
        "k = Constant <value = int64[3] {2, 0, 1}> () y = SplitToSequence <axis = 1> (x, k)",
        BIG,
    ),
    "columns by number": (
        "(int64[N,M] x) => (int64[N,2] y)",
        "i = Constant <value = int64[2] {2, 0}> () y = ai.onnx.ml.ArrayFeatureExtractor (x, i)",
        BIG,
    ),
    **{
        f"features that are scaled, {name}": (
            f"(float[N,{size}] x) => (float[N,M] y)",
            f"y = ai.onnx.ml.Scaler <offset: floats = [{by}], scale: floats = [{times}]> (x)",
            FEATURES,
        )
        for name, size, by, times in (
            ("each", "3", "0.1, -2, 3", "1.5, 0.3, 7"),
            ("each of an unknown number", "F", "0.1, -2, 3", "1.5, 0.3, 7"),
            ("all alike", "F", "0.1", "0.3"),
        )
    },
    "linear functions": (
        "(float[N,3] x) => (float[N,2] y)",
        "y = ai.onnx.ml.LinearRegressor <coefficients: floats = [1, 2, 3, -1, 0.5, 0.25], "
        "intercepts: floats = [0.5, -1], targets = 2> (x)",
        FEATURES,
    ),
    **{
        f"linear scores, {name}": (
            "(float[N,F] x) => (int64[N] y, float[N,M] z)",
            f"y, z = ai.onnx.ml.LinearClassifier <classlabels_ints: ints = [{labels}], coefficients: "
            "floats = [1, 2, 3, -1, 0.5, 0.25, 0, -2, 1], intercepts: floats = [0.5, -1, 0], "
            f'post_transform: string = "{transform}"> (x)',
            FEATURES,
        )
        for name, labels, transform in (
            ("as they are", "0, 1, 2", "NONE"),
            ("with labels", "7, -3, 5", "SOFTMAX"),
            ("each for itself", "0, 1, 2", "LOGISTIC"),
        )
    },
    "product of the first sizes": (
        "(int64[N,M] x, int64[K] shape) => (int64[1] y)",
        "z = Reshape (x, shape) s = Shape <end = 2> (z) y = ReduceProd (s)",
        BIG,
        [3, 2, 1],
    ),
    "product of sizes that are fewer than asked for": (
        "(int64[N,M] x, int64[K] shape) => (int64 y)",
        "z = Reshape (x, shape) s = Shape <start = -2> (z) y = ReduceProd <keepdims = 0> (s)",
        BIG,
        [6],
    ),
    "product of sizes that are cut out": (
        "(int64[N,M] x, int64[K] shape) => (int64[1] y)",
        "z = Reshape (x, shape) s = Shape (z) a = Constant <value = int64[1] {1}> () "
        "b = Constant <value = int64[1] {3}> () t = Slice (s, a, b) y = ReduceProd (t)",
        BIG,
        [3, 2, 1],
    ),
    "product of sizes in rows": (
        "(int64[N,3] x) => (int64[N] y)",
        "a = Constant <value = int64[1] {-1}> () y = ReduceProd <keepdims = 0> (x, a)",
        np.array([[2**40, 3, 5], [0, 1, 2]]),
    ),
    "product of one size in each row": (
        "(int64[N,1] x) => (int64[N] y)",
        "a = Constant <value = int64[1] {-1}> () y = ReduceProd <keepdims = 0> (x, a)",
        np.array([[2**40], [0]]),
    ),
    "product of columns": (
        "(int64[2,N] x) => (int64[1,N] y)",
        "a = Constant <value = int64[1] {0}> () y = ReduceProd (x, a)",
        np.array([[2**40, 3, 5], [0, 1, 2]]),
    ),
}


def parse(signature: str, body: str, opset: int = 18) -> onnx.ModelProto:
    text = f'<ir_version: 9, opset_import: ["" : {opset}, "ai.onnx.ml" : 3]> g {signature} {{ {body} }}'
    return onnx.parser.parse_model(text)


def assert_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
        return
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def rows(cases: dict[str, Any]) -> Any:
    given = [(signature, body, feeds) for signature, body, *feeds in cases.values()]
    return pytest.mark.parametrize(("signature", "body", "feeds"), given, ids=cases)


@pytest.mark.quick
@rows(CASES)
def test_forms_compute_the_same(signature: str, body: str, feeds: list) -> None:
    prove_form(signature, body, feeds)


@rows(SEVERAL)
def test_forms_of_several_nodes_compute_the_same(signature: str, body: str, feeds: list) -> None:
    prove_form(signature, body, feeds)


def prove_form(signature: str, body: str, feeds: list) -> None:
    before = parse(signature, body)
    model = ir.from_proto(before)
    forms = DeviceFormsPass(kernels_of("cuda", model))
    assert forms(model).modified
    check(model)
    named = dict(zip((v.name for v in before.graph.input), map(np.asarray, feeds), strict=True))
    expected, found = run(before, named), run(model, named)
    for name, value in expected.items():
        assert_equal(found[name], value)
    assert not forms(model).modified
    placement = place(model, find_target("cuda"))
    assert placement is not None
    assert [one for one in placement.host if not one.is_shapes] == []


SUMS = {
    "rows": ("", "-2", BIG),
    "places of a row": ("", "1", BIG.astype(np.int32)),
    "from behind, without itself": ("<reverse = 1, exclusive = 1>", "-1", BIG),
    "without itself": ("<exclusive = 1>", "0", np.arange(300).reshape(100, 3)),
    "from behind": ("<reverse = 1>", "0", np.arange(300).reshape(100, 3)),
    "of nothing": ("", "0", NONE),
    "of empty rows": ("<exclusive = 1>", "1", BIG[:, :0]),
}


@pytest.mark.parametrize(("attributes", "axis", "x"), SUMS.values(), ids=SUMS)
def test_integers_are_summed_where_only_floats_have_a_kernel(
    attributes: str, axis: str, x: np.ndarray
) -> None:
    kind = x.dtype.name
    text = f"a = Constant <value_int = {axis}> () y = CumSum {attributes} (x, a)"
    for target, opset in (("tensorrt", 18), ("tensorrt-8.5", 13)):
        before = parse(f"({kind}[N,M] x) => ({kind}[N,M] y)", text, opset)
        model = ir.from_proto(before)
        forms = DeviceFormsPass(kernels_of(target, model))
        assert forms(model).modified
        check(model)
        assert_equal(run(model, {"x": x})["y"], run(before, {"x": x})["y"])
        assert not forms(model).modified
        placement = place(model, find_target(target))
        assert placement is not None
        assert not placement.host


@pytest.mark.parametrize(
    ("target", "opset", "signature", "body"),
    [
        ("trt", 18, "(int64[N] x, int64 a) => (int64[N] y)", "y = CumSum (x, a)"),
        ("trt", 18, "(double[N] x) => (double[N] y)", SUMMED),
        ("webgpu", 18, "(int64[N] x) => (int64[N] y)", SUMMED),
        ("trt", 11, "(int64[N] x) => (int64[N] y)", SUMMED_BEFORE),
        ("webgpu", 18, "(int64[N,M] x) => (int64[N,1] y)", "y = ArgMax <axis = 1> (x)"),
        ("cuda", 11, "(int64[N,M] x) => (int64[A,B] y)", PADS + "y = Pad (x, p)"),
        ("cuda", 18, "(int64[N] x) => (int64[1] y)", "y = ArgMin <select_last_index = 1> (x)"),
        ("cuda", 18, "(float[N] x) => (float[K] y)", "y = Unique (x)"),
        ("cuda", 18, "(int64[N] x) => (int64[K] y)", "y = Unique <sorted = 0> (x)"),
        ("cuda", 18, "(int64[N,M] x) => (int64[K,M] y)", "y = Unique <axis = 0> (x)"),
        (
            "cuda",
            18,
            "(optional(float[N]) x) => (float[N] y)",
            "h = OptionalHasElement (x) y = OptionalGetElement (x)",
        ),
        ("cuda", 18, "(float[N] x) => (seq(float[1]) y)", "y = SplitToSequence (x)"),
        ("cuda", 18, "(float[0] x) => (seq(float[1]) y)", "y = SplitToSequence (x)"),
        ("trt", 18, "(float[2] x) => (seq(float[1]) y)", "y = SplitToSequence (x)"),
        ("cuda", 18, "(int64[N] x) => (int64[1] y)", "y = ReduceProd (x)"),
        ("cuda", 18, "(int64[2,3] x) => (int64[1,1] y)", "y = ReduceProd (x)"),
    ],
    ids=[
        "a sum along an open axis",
        "a sum of doubles",
        "a sum where integers have no kernel",
        "a sum of an old opset",
        "no kernels for the form",
        "an old opset",
        "the last place",
        "NaNs",
        "in the order of the elements",
        "rows",
        "an optional input",
        "any number of parts",
        "no part",
        "a target without sequences",
        "a product of many",
        "a product over two axes",
    ],
)
def test_what_has_no_exact_form_stays(target: str, opset: int, signature: str, body: str) -> None:
    model = ir.from_proto(parse(signature, body, opset))
    assert not DeviceFormsPass(kernels_of(find_target(target).kernels, model))(model).modified


SCORED = (
    "classlabels_ints: ints = [0, 1], coefficients: floats = [1, 2, 3, -1], intercepts: floats"
)
OF_TABLES = {
    "a number for each of other features": (
        "(float[N,2] x) => (float[N,2] y)",
        "y = ai.onnx.ml.Scaler <offset: floats = [1, 2, 3], scale: floats = [1, 2, 3]> (x)",
    ),
    "features that are doubles": (
        "(double[N,2] x) => (float[N,2] y)",
        "y = ai.onnx.ml.Scaler <offset: floats = [1], scale: floats = [2]> (x)",
    ),
    "one row": (
        "(float[F] x) => (float[F] y)",
        "y = ai.onnx.ml.Scaler <offset: floats = [1], scale: floats = [2]> (x)",
    ),
    "labels that are texts": (
        "(float[N,2] x) => (string[N] y, float[N,2] z)",
        "y, z = ai.onnx.ml.LinearClassifier <"
        + SCORED.replace("_ints: ints = [0, 1]", '_strings: strings = ["a", "b"]')
        + " = [0, 1]> (x)",
    ),
    "two labels of one score": (
        "(float[N,4] x) => (int64[N] y, float[N,2] z)",
        f"y, z = ai.onnx.ml.LinearClassifier <{SCORED} = [0]> (x)",
    ),
    "scores made probabilities in another way": (
        "(float[N,2] x) => (int64[N] y, float[N,2] z)",
        f'y, z = ai.onnx.ml.LinearClassifier <{SCORED} = [0, 1], post_transform: string = "PROBIT"> (x)',
    ),
    "functions that are transformed": (
        "(float[N,2] x) => (float[N,1] y)",
        "y = ai.onnx.ml.LinearRegressor <coefficients: floats = [1, 2], intercepts: floats = [1], "
        'post_transform: string = "LOGISTIC"> (x)',
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize(("signature", "body"), OF_TABLES.values(), ids=OF_TABLES)
def test_what_of_a_table_stays(signature: str, body: str) -> None:
    model = ir.from_proto(parse(signature, body))
    assert not DeviceFormsPass(kernels_of("cuda", model))(model).modified


def test_whether_an_optional_that_is_left_out_holds_something_is_known() -> None:
    model = ir.from_proto(parse("(int64[N] x) => (bool y)", "y = OptionalHasElement ()", 18))
    assert DeviceFormsPass(kernels_of(find_target("cuda").kernels, model))(model).modified
    assert [node.op_type for node in model.graph] == ["Constant"]


FILLED = {
    "int64": ("value = int64[1] {-7}", "tensorrt"),
    "int32 of an old release": ("value = int32[1] {3}", "tensorrt-8.6"),
    "float": ("value = float[1] {0.5}", "webgpu"),
    "nothing said": ("", "webgpu"),
}


@pytest.mark.parametrize(("value", "target"), FILLED.values(), ids=FILLED)
def test_a_tensor_of_one_number_is_expanded(value: str, target: str) -> None:
    dtype = value.partition(" = ")[2].partition("[")[0] or "float"
    filled = f"y = ConstantOfShape <{value}> (s)" if value else "y = ConstantOfShape (s)"
    text = (
        f'<ir_version: 9, opset_import: ["" : 18]> g (int64[K] s) => ({dtype}[] y) {{ {filled} }}'
    )
    before = onnx.parser.parse_model(text.replace("[] y", "[A,B] y"))
    model, row = ir.from_proto(before), find_target(target)  # type: ignore[arg-type]
    assert DeviceFormsPass(kernels_of(row.kernels, model))(model).modified
    check(model)
    assert [node.op_type for node in model.graph] == ["Constant", "Expand"]
    for shape in ([2, 3], [0, 3]):
        feeds = {"s": np.array(shape)}
        expected, found = run(before, feeds)["y"], run(model, feeds)["y"]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", ["cuda", "dml", "migraphx"])
def test_a_tensor_of_one_number_stays_where_there_is_a_kernel(target: str) -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]> g (int64[1] s) => (int64[A] y) {
        y = ConstantOfShape <value = int64[1] {1}> (s) }"""
    model, row = ir.from_onnx_text(text), find_target(target)  # type: ignore[arg-type]
    assert not DeviceFormsPass(kernels_of(row.kernels, model))(model).modified
