"""Models for inputs of certain shapes: what is left of them, and that they compute the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter.backends import run
from rewriter.backends.fixed_shapes import with_fixed_shapes
from rewriter.proof.compare import compare


def parse(text: str, opset: int = 18, domains: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}{domains}]> {text}'
    )


def fixed(before: onnx.ModelProto, feeds: dict) -> onnx.ModelProto:
    """Return the model for these inputs; it computes the same and keeps what is outside."""
    data = before.SerializeToString()
    after = with_fixed_shapes(before, {name: array.shape for name, array in feeds.items()})
    assert before.SerializeToString() == data
    for side in ("input", "output"):
        names = [[v.name for v in getattr(m.graph, side)] for m in (before, after)]
        assert names[0] == names[1]
    onnx.checker.check_model(after)
    for backend in ("onnxruntime", "reference"):
        difference = compare(run(before, feeds, backend), run(after, feeds, backend))
        assert difference.equal, difference.message
    return after


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

HEADS = """g (float[N,K,M] x) => (float[A,B] y) { s = Shape (x)
    two = Constant <value = int64[1] {2}> () zero = Constant <value = int64[1] {0}> ()
    rest = Constant <value = int64[1] {-1}> () n = Gather (s, zero) m = Gather (s, two)
    rows = Mul (n, m) sizes = Concat <axis = 0> (rows, rest) y = Reshape (x, sizes) }"""
BRANCH = """g (float[N,K,M] x) => (float[A,B,C] y) { s = Shape <end = 1> (x)
    one = Constant <value = int64[1] {1}> () c1 = Less (one, s) c = Squeeze (c1)
    y = If (c) <then_branch = t () => (float[A,B,C] p) { p = Neg (x) },
        else_branch = e () => (float[A,B,C] q) { q = Abs (x) }> }"""
FILLED = """g (float[N,K,M] x) => (float[A,B,C] y) { s = Shape (x)
    z = ConstantOfShape <value = float[1] {2}> (s) y = Mul (x, z) }"""
REDUCED = """g (float[N,K,M] x) => (float[N,K] y) { a = Constant <value = int64[1] {2}> ()
    y = ReduceMax <keepdims = 0> (x, a) }"""
PARTED = """g (float[N,K,M] x) => (float[N,K,M] y, float[N,K,M] z) {
    s = Constant <value = int64[2] {1, 3}> () y, z = Split <axis = 2> (x, s) }"""
HALVED = """g (float[N,K,M] x) => (float[N,K,M] y, float[N,K,M] z) {
    y, z = Split <axis = 2, num_outputs = 2> (x) }"""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param(HEADS, ["Reshape"], id="sizes"),
        pytest.param(BRANCH, ["Neg"], id="a branch"),
        pytest.param(FILLED, ["Mul"], id="filled with a number"),
        pytest.param(REDUCED, ["ReduceMax"], id="axes as an attribute"),
        pytest.param(PARTED, ["Split"], id="sizes of parts"),
        pytest.param(HALVED, ["Split"], id="number of parts"),
    ],
)
def test_what_is_left(text: str, left: list[str]) -> None:
    after = fixed(parse(text), {"x": X})
    assert operators(after) == left
    assert [(opset.domain, opset.version) for opset in after.opset_import] == [("", 17)]
    assert [dim.dim_value for dim in after.graph.input[0].type.tensor_type.shape.dim] == [2, 3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "g (float[N,K,M] x, float[U] unread) => (float[N,K,M] y) { y = Neg (x) }",
        "g (float[N,K,M] x) => (float[N,K,M] y, float[N,K,M] z) { y = Neg (x) z = Identity (y) }",
        "g (float[N,K,M] x) => (float[N,K,M] y) { y = Identity (x) }",
        "g (float[N,K,M] x) => (int64[3] y, float[N,K,M] z) { y = Shape (x) z = Neg (x) }",
        "g (float[N,K,M] x) => (int64[3] y, int64[3] z) { y = Shape (x) z = Shape (x) }",
    ],
    ids=["an unread input", "one value twice", "an input", "a size", "sizes only"],
)
def test_inputs_and_outputs_stay(text: str) -> None:
    feeds = {"x": X, "unread": np.float32([1])} if "unread" in text else {"x": X}
    fixed(parse(text), feeds)


@pytest.mark.parametrize("shape", [(0, 3, 4), (1, 1, 1)])
def test_other_shapes(shape: tuple[int, ...]) -> None:
    fixed(parse(FILLED), {"x": np.ones(shape, np.float32)})


def test_numbers_of_the_inputs_are_not_fixed() -> None:
    model = parse("g (float[N] x, int64[K] s) => (float[A,B] y) { y = Reshape (x, s) }")
    after = fixed(model, {"x": np.float32([1, 2, 3, 4]), "s": np.int64([2, 2])})
    feeds = {"x": np.float32([1, 2, 3, 4]), "s": np.int64([4, 1])}
    assert run(after, feeds)["y"].shape == (4, 1)


def test_a_default_that_an_input_has_is_not_fixed() -> None:
    model = parse(
        "g (float[2] x, int64[1] s) => (float[2] y) { f = Cast <to = 1> (s) y = Mul (x, f) }"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.int64([3]), "s"))
    after = with_fixed_shapes(model, {"x": (2,)})
    assert run(after, {"x": np.float32([1, 2]), "s": np.int64([5])})["y"].tolist() == [5, 10]


def test_false_claims_are_not_believed() -> None:
    """Exporters write the first example's size; a runtime does not enforce it."""
    model = parse(
        """g (float[N] x) => (int64[1] y) <float[7] z> { z = Concat <axis = 0> (x, x)
        y = Shape (z) }"""
    )
    after = with_fixed_shapes(model, {"x": (2,)})
    assert run(after, {"x": np.float32([1, 2])})["y"].tolist() == [4]


@pytest.mark.parametrize(
    ("text", "opset", "domains"),
    [
        ("g (float[N,K,M] x) => (float[N,K,M] y) { y = LeakyRelu (x) }", 14, ""),
        (
            """g (float[N,K,M] x, bool c) => (float[N,K,M] y) {
            y = If (c) <then_branch = t () => (float[A,B,C] p) { p = Neg (x) },
                else_branch = e () => (float[A,B,C] q) { q = Abs (x) }> }""",
            18,
            "",
        ),
        (
            "g (float[N,K,M] x) => (float[N,K,M] y) { y = com.microsoft.Gelu (x) }",
            18,
            ', "com.microsoft" : 1',
        ),
    ],
    ids=["older already", "an If that is left", "another domain"],
)
def test_the_opset_stays(text: str, opset: int, domains: str) -> None:
    model = parse(text, opset, domains)
    shapes = {value.name: (2, 3, 4) if value.name == "x" else () for value in model.graph.input}
    after = with_fixed_shapes(model, shapes)
    assert after.opset_import[0].version == opset
    feeds = {"x": X, "c": np.array(True)} if "c" in shapes else {"x": X}
    assert compare(run(model, feeds), run(after, feeds)).equal
