from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_graphs, constant_value
from passes.runtimes.old_forms import OldFormsPass
from rewriter.backends import run
from rewriter.model_files.checking import check
from rewriter.proof.validation import validate


def split(opset: int, dims: str, attributes: str, count: int) -> onnx.ModelProto:
    names = [f"y{i}" for i in range(count)]
    outputs = ", ".join(f"float[?, ?] {name}" for name in names)
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[{dims}] x) => ({outputs}) '
        f"{{ {', '.join(names)} = Split <{attributes}> (x) }}"
    )


@pytest.mark.parametrize(
    ("opset", "dims", "attributes", "count", "sizes"),
    [
        (18, "6,2", "num_outputs = 3", 3, [2, 2, 2]),
        (18, "7,2", "num_outputs = 3", 3, [3, 3, 1]),
        (21, "2,7", "axis = -1, num_outputs = 2", 2, [4, 3]),
        (13, "6,2", "axis = 0", 2, [3, 3]),
    ],
)
def test_sizes_are_given(
    opset: int, dims: str, attributes: str, count: int, sizes: list[int]
) -> None:
    before = split(opset, dims, attributes, count)
    model = ir.from_proto(before)
    assert OldFormsPass()(model).modified
    (node,) = [node for node in model.graph if node.op_type == "Split"]
    assert constant_value(node.inputs[1]).tolist() == sizes
    assert "num_outputs" not in node.attributes
    check(model)
    x = np.arange(np.prod(shape := [int(d) for d in dims.split(",")]), dtype=np.float32)
    expected = run(before, {"x": x.reshape(shape)})
    for name, value in run(model, {"x": x.reshape(shape)}).items():
        np.testing.assert_array_equal(value, expected[name])
    assert not OldFormsPass()(model).modified


@pytest.mark.parametrize(
    ("opset", "dims", "attributes"),
    [(18, "N,2", "num_outputs = 2"), (11, "6,2", "axis = 0, split = [3, 3]")],
    ids=["open dimension", "sizes as an attribute"],
)
def test_what_stays(opset: int, dims: str, attributes: str) -> None:
    model = ir.from_proto(split(opset, dims, attributes, 2))
    assert not OldFormsPass()(model).modified


def test_in_a_body() -> None:
    model = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[4] x, bool c) => (float[2] y) { y = If (c) <
            then_branch = a () => (float[2] p) { p, p1 = Split <num_outputs = 2> (x) },
            else_branch = b () => (float[2] q) { q1, q = Split <num_outputs = 2> (x) }> }""")
    assert OldFormsPass()(model).modified
    check(model)
    x = np.float32([1, 2, 3, 4])
    assert run(model, {"x": x, "c": np.array(False)})["y"].tolist() == [3, 4]


def rewritten(signature: str, body: str, opset: int = 18, domains: str = "") -> ir.Model:
    """Return the model in old forms; what it computes is compared on drawn inputs."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}{domains}]> g {signature} {{ {body} }}'
    )
    after = ir.from_proto(model)
    assert OldFormsPass()(after).modified
    check(after)
    found = validate(model, after)
    assert found.ok, found.summary
    assert not OldFormsPass()(after).modified
    return after


LINEAR = 'mode = "linear"'
NEAREST = 'mode = "nearest"'


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for graph in all_graphs(model) for node in graph]


@pytest.mark.parametrize(
    ("attribute", "dtype", "dims", "value"),
    [
        ("value_int = 3", "int64", "", 3),
        ("value_ints = [3, 0]", "int64", "2", [3, 0]),
        ("value_float = 0.5", "float", "", 0.5),
        ("value_floats = [1.5]", "float", "1", [1.5]),
        ('value_string = "a"', "string", "", "a"),
        ('value_strings = ["a", "b"]', "string", "2", ["a", "b"]),
    ],
)
def test_constants_are_tensors(attribute: str, dtype: str, dims: str, value: object) -> None:
    after = rewritten(f"() => ({dtype}[{dims}] y)", f"y = Constant <{attribute}> ()")
    (node,) = after.graph
    assert list(node.attributes) == ["value"]
    assert node.attributes["value"].as_tensor().numpy().tolist() in (
        value,
        np.array(value, "S").tolist(),
    )


@pytest.mark.parametrize(
    ("signature", "body", "left"),
    [
        pytest.param(
            "(float[N,4] x) => (float[M,2] y)",
            "s = Constant <value = int64[2] {-1, 2}> () y = Reshape <allowzero = 1> (x, s)",
            ["Constant", "Reshape"],
            id="no zero is asked for",
        ),
        pytest.param(
            "(float[N,3,4] x) => (int64 y)",
            "s = Shape <end = 2> (x) y = ReduceProd <keepdims = 0> (s)",
            ["Shape", "Constant", "Constant", "Gather", "Gather", "Mul"],
            id="product of two sizes",
        ),
        pytest.param(
            "(float[N,3,4] x) => (int64[1] y)",
            "s = Shape (x) a = Constant <value = int64[1] {-1}> () y = ReduceProd (s, a)",
            ["Shape", *["Constant"] * 3, *["Gather"] * 3, "Mul", "Mul"],
            id="product of three sizes as a vector",
        ),
        pytest.param(
            "(float[N,2] x) => (float[M,2] y)",
            "s = ReduceSum <keepdims = 0> (x, a) z = Constant <value = float {0}> ()"
            "c = Greater (s, z) y = Compress <axis = 0> (x, c)",
            None,
            id="Compress along an axis",
        ),
        pytest.param(
            "(float[2,2] x, bool[K] c) => (float[M] y)",
            "y = Compress (x, c)",
            ["Constant", "Reshape", "NonZero", "Reshape", "Gather"],
            id="Compress of all numbers",
        ),
        pytest.param(
            "(float[N,2] x, float[2] y) => (bool[N,2] z)",
            "z = Greater (x, y)",
            ["Less"],
            id="Greater",
        ),
        pytest.param(
            "(int64[2] x, int64[N,2] y) => (bool[N,2] z)",
            "z = GreaterOrEqual (x, y)",
            ["LessOrEqual"],
            id="GreaterOrEqual",
        ),
        pytest.param(
            "(float[A,B,C] x) => (int64[1] y)",
            "s = Shape (x) k = Constant <value = int64[1] {0}> () "
            "e = Constant <value = int64[1] {2}> () c = Slice (s, k, e, k) y = ReduceProd (c)",
            [*["Constant"] * 4, *["Gather"] * 2, "Mul", "Shape", "Slice"],
            id="sizes that are cut along an axis",
        ),
        pytest.param(
            "(int64[3] s, int64[1] k) => (int64[1] y)",
            "e = Constant <value = int64[1] {3}> () c = Slice (s, k, e) y = ReduceProd (c)",
            ["Concat", *["Constant"] * 5, *["Gather"] * 3, "Mul", "Mul", "Slice"],
            id="sizes that are cut somewhere",
        ),
        pytest.param(
            "(int64[6] s) => (int64 y)",
            "k = Constant <value = int64[1] {1}> () e = Constant <value = int64[1] {3}> () "
            "d = Constant <value = int64[1] {-1}> () c = Slice (s, k, e) u = Unsqueeze (c, d) "
            "y = ReduceProd <keepdims = 0> (u)",
            None,
            id="sizes that are cut out of many, as a column",
        ),
        pytest.param(
            "(int64[3,1] s, int64[1] k) => (int64[1,1] y)",
            "e = Constant <value = int64[1] {3}> () c = Slice (s, k, e) y = ReduceProd (c)",
            None,
            id="sizes of a column that are cut somewhere",
        ),
        pytest.param(
            "(int64[2,1,2] s) => (int64[1,1,1] y)",
            "y = ReduceProd (s)",
            ["Reshape", "Reshape", *["Constant"] * 6, *["Gather"] * 4, *["Mul"] * 3],
            id="sizes along several axes",
        ),
        pytest.param(
            "(float[N,2] x) => (float y)",
            "y = ReduceSumSquare <keepdims = 0> (x)",
            ["Mul", "ReduceSum"],
            id="sum of all squares",
        ),
        pytest.param(
            "(float[N,2] x) => (float[N,1] y)",
            "k = Constant <value = int64[1] {-1}> () y = ReduceSumSquare (x, k)",
            ["Constant", "Mul", "ReduceSum"],
            id="sum of squares along an axis",
        ),
    ],
)
def test_plain_forms(signature: str, body: str, left: list[str] | None) -> None:
    if "(x, a)" in body:
        body = f"a = Constant <value = int64[1] {{1}}> () {body}"
    after = rewritten(signature, body)
    assert left is None or sorted(operators(after)) == sorted(left)
    assert not {"ReduceProd", "Compress"} & set(operators(after))
    assert not [node for node in after.graph if "allowzero" in node.attributes]


def test_axes_of_squares_that_are_an_attribute() -> None:
    after = rewritten(
        "(float[N,2] x) => (float[N] y)",
        "y = ReduceSumSquare <axes = [1], keepdims = 0> (x)",
        opset=17,
    )
    assert sorted(operators(after)) == ["Constant", "Mul", "ReduceSum"]


@pytest.mark.parametrize("dtype", ["string", ""])
def test_strings_are_not_gathered_in_rows(dtype: str) -> None:
    """onnxruntime gathers only the first string of each row right."""
    model = ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["" : 18, "local" : 1]> '
        f"g ({dtype or 'float'}[3,2] x, bool[3] c) => ({dtype or 'float'}[M,2] y) "
        f"{{ {'z = Identity (x)' if dtype else 'z = local.Unheard (x)'} "
        "y = Compress <axis = 0> (z, c) }"
    )
    OldFormsPass()(model)
    assert "Compress" in operators(model)


def resize(signature: str, numbers: str, places: str, attributes: str) -> str:
    return f"{numbers} y = Resize <axes = {places}, {attributes}> (x, , {signature})"


@pytest.mark.parametrize(
    ("dims", "body"),
    [
        ("N,3,H,W", resize(", n", "n = Constant <value = int64[2] {4, 6}> ()", "[2, 3]", LINEAR)),
        ("2,3,5", resize(", n", "n = Constant <value = int64[1] {7}> ()", "[-1]", LINEAR)),
        ("5,2,3", resize("n", "n = Constant <value = float[1] {1.5}> ()", "[0]", NEAREST)),
    ],
    ids=["sizes of open axes", "a negative axis", "scales"],
)
def test_resize_of_all_axes(dims: str, body: str) -> None:
    after = rewritten(f"(float[{dims}] x) => (float[{'?,' * dims.count(',')}?] y)", body)
    (node,) = [node for node in after.graph if node.op_type == "Resize"]
    assert "axes" not in node.attributes


@pytest.mark.parametrize(
    ("opset", "attributes"),
    [(18, f'{LINEAR}, keep_aspect_ratio_policy = "not_larger"')],
    ids=["axes that follow others"],
)
def test_resize_that_needs_its_axes(opset: int, attributes: str) -> None:
    body = resize(", n", "n = Constant <value = int64[2] {4, 6}> ()", "[1, 0]", attributes)
    model = ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[3,5] x) => (float[?,?] y) '
        f"{{ {body} }}"
    )
    assert not OldFormsPass()(model).modified


@pytest.mark.parametrize("dims", ["5", "3,5", "2,3,5"])
def test_features_are_gathered(dims: str) -> None:
    rank = dims.count(",") + 1
    out = ",".join(["?"] * max(2, rank))
    after = rewritten(
        f"(float[{dims}] x) => (float[{out}] y)",
        "i = Constant <value = int64[2] {4, 0}> () y = ai.onnx.ml.ArrayFeatureExtractor (x, i)",
        domains=', "ai.onnx.ml" : 3',
    )
    assert "ArrayFeatureExtractor" not in operators(after)
    assert list(after.opset_imports) == [""]


@pytest.mark.parametrize(
    ("signature", "body", "opset", "gone"),
    [
        (
            "(float[N,4] x, float[4] g) => (float[N,4] y)",
            "y = RMSNormalization <axis = -1> (x, g)",
            23,
            "RMSNormalization",
        ),
        ("(float[N] x) => (float[N] y)", "y = Mish (x)", 18, "Mish"),
        ("(float[N] x) => (float[N] y)", "y = HardSwish (x)", 14, "HardSwish"),
        ("(float[N] x) => (float[N] y)", "y = HardSwish (x)", 22, "HardSigmoid"),
        ("(float[N] x) => (float[N] y)", "y = HardSigmoid <alpha = 0.4> (x)", 17, "HardSigmoid"),
        (
            "(float[5,6] x) => (float[3,7] y)",
            "s = Constant <value = int64[2] {3, 7}> () y = CenterCropPad (x, s)",
            18,
            "CenterCropPad",
        ),
        ("(float[N] x) => (float[N] y)", "y = local.f (x)", 18, "f"),
    ],
)
def test_new_functions_are_opened(signature: str, body: str, opset: int, gone: str) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "local" : 1]> g {signature} {{ {body} }}'
        f'<domain: "local", opset_import: ["" : {opset}]> f (a) => (b) {{ b = Abs (a) }}'
    )
    after = ir.from_proto(model)
    assert OldFormsPass()(after).modified
    check(after)
    assert gone not in operators(after)
    assert [v.name for v in after.graph.outputs] == ["y"]
    found = validate(model, after)
    assert found.ok, found.summary


@pytest.mark.parametrize(
    "body",
    [
        "s = Constant <value = int64[2] {0, 4}> () y = Reshape <allowzero = 1> (x, s)",
        "y = LeakyRelu (x)",
        "y = ReduceSumSquare <noop_with_empty_axes = 1> (x)",
        "y = Less (x, x)",
        "z = Constant <value = int64[2] {3, 4}> () y = Resize (x, , , z)",
        "a = Constant <value = int64[1] {1}> () y = ReduceProd <keepdims = 1> (x, a)",
    ],
)
def test_what_is_old_stays(body: str) -> None:
    model = ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["" : 18]> g (float[N,4] x) => (float[M,K] y) {{ {body} }}'
    )
    assert not OldFormsPass()(model).modified


ALONG_1 = "a = Constant <value = int64[1] {1}> () y = ReduceProd (x, a)"
ALL = "y = ReduceProd (x)"


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        pytest.param("float[N,2] x", ALONG_1, id="floats"),
        pytest.param("int32[N,2] x", ALONG_1, id="int32"),
        pytest.param("int64[N,M] x", ALONG_1, id="any number"),
        pytest.param("int64[N,0] x", ALONG_1, id="none"),
        pytest.param("int64[N,9] x", ALONG_1, id="many"),
        pytest.param(
            "int64[9] x, int64[1] k",
            f"e = Constant <value = int64[1] {{3}}> () c = Slice (x, k, e) {ALL}".replace(
                "(x)", "(c)"
            ),
            id="a part of many",
        ),
        pytest.param("int64 x", ALL, id="one number"),
        pytest.param("int64[N] x", ALL, id="any vector"),
        pytest.param("int64[2,3] x", ALL, id="two axes"),
        pytest.param("int64[N,2] x", ALL, id="two axes of any size"),
        pytest.param(
            "int64[N,M] x",
            "k = Constant <value = int64[1] {0}> () e = Constant <value = int64[1] {2}> () "
            "c = Slice (x, k, e) y = ReduceProd (c)",
            id="some rows",
        ),
        pytest.param("int64[2] x", "y = ReduceProd <noop_with_empty_axes = 1> (x)", id="no axis"),
        pytest.param("int64[2] x, int64[1] a", "y = ReduceProd (x, a)", id="an axis that is fed"),
        pytest.param(
            "int64[3] x, int64[1] k, int64[1] e",
            "c = Slice (x, k, e) y = ReduceProd <noop_with_empty_axes = 1> (c)",
            id="no axis of a part",
        ),
        pytest.param(
            "int64[3] x, int64[1] k, int64[1] e, int64[K] a",
            "c = Slice (x, k, e) y = ReduceProd <noop_with_empty_axes = 1> (c, a)",
            id="an axis of a part that is fed",
        ),
        pytest.param(
            "int64[2,2] x",
            "a = Constant <value = int64[2] {0, 1}> () y = ReduceProd (x, a)",
            id="two axes by name",
        ),
    ],
)
def test_other_products_stay(signature: str, body: str) -> None:
    dtype = signature.partition("[")[0].partition(" ")[0]
    model = ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["" : 18]> g ({signature}) => ({dtype}[?] y) {{ {body} }}'
    )
    model.graph.outputs[0].shape = None
    assert not OldFormsPass()(model).modified


def test_a_product_of_no_known_rank_stays() -> None:
    model = ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["" : 18]> g (int64[2] x) => (int64[?] y) {{ {ALL} }}'
    )
    model.graph.inputs[0].shape = model.graph.outputs[0].shape = None
    assert not OldFormsPass()(model).modified


@pytest.mark.parametrize("dims", ["", None], ids=["one number", "any rank"])
def test_features_of_no_known_rank_stay(dims: str | None) -> None:
    before = features(dims or "")
    model = ir.from_proto(before)
    model.graph.inputs[0].shape = None if dims is None else ir.Shape([])
    assert not OldFormsPass()(model).modified


def features(dims: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]> '
        f"g (float[{dims}] x, int64[2] places) => (float[?,?] y) "
        "{ y = ai.onnx.ml.ArrayFeatureExtractor (x, places) }"
    )
