"""Functions, single operators, element types and opsets on the evaluator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from rewriter.backends import open_session
from rewriter.evaluator.reference import ReferenceEvaluator
from rewriter.evaluator.reference_operator import EvaluationError
from tests.rewriter.evaluator.evaluating import (
    A,
    assert_same,
    f32,
    i64,
    parse,
)
from tests.rewriter.evaluator.reference_cases import CASES

FUNCTION = "g (float[2] x) => (float[2] y) {{ y = local.{call}(x) }}\n{functions}"
HEAD = '<domain: "local", opset_import: ["": 22, "local": 1]{more}>'
PLAIN, OTHER = HEAD.format(more=""), HEAD.format(more=', overload: "b"')
FUNCTIONS = {
    "called-before-it-is-defined": (
        "f", f"{PLAIN} f (x) => (y) {{ y = local.h(x) }} {PLAIN} h (x) => (y) {{ y = Neg(x) }}",
        -A,
    ),
    "default-of-an-attribute": (
        "f", f"{PLAIN} f <k: int = 6>(x) => (y) {{ y = Cast<to = @k>(x) }}",
        A.astype(np.int32),
    ),
    "default-overridden": (
        "f <k = 7>", f"{PLAIN} f <k: int = 6>(x) => (y) {{ y = Cast<to = @k>(x) }}",
        i64([1, 2]),
    ),
    "attribute-left-out": (
        "f", f"{PLAIN} f <a>(x) => (y) {{ z = Neg(x) y = Elu<alpha = @a>(z) }}",
        np.expm1(-A),
    ),
    "attribute-handed-on-into-a-body": (
        "f <k = 7>",
        f"""{PLAIN} f <k>(x) => (y) {{ y = local.h<n = @k>(x) }}
        {PLAIN} h <n>(x) => (y) {{
            s = SequenceConstruct(x)
            r = SequenceMap <body = b (z) => (w) {{ w = Cast<to = @n>(z) }}> (s)
            y = ConcatFromSequence<axis = 0>(r) }}""",
        i64([1, 2]),
    ),
    "input-left-out": ("f", f"{PLAIN} f (x, z) => (y) {{ y = Clip(x, z) }}", A),
    "overload": (
        "f:b", f"{PLAIN} f (x) => (y) {{ y = Abs(x) }} {OTHER} f (x) => (y) {{ y = Neg(x) }}",
        -A,
    ),
    "named-like-an-operator": ("Pad", f"{PLAIN} Pad (x) => (y) {{ y = Neg(x) }}", -A),
    "holds-an-operator-that-depends-on-types": (
        "f", f"{PLAIN} f (x) => (y) {{ z = Neg(x) w = Abs(z) y = Gelu(w) }}",
        f32(0.8413447, 1.9544997),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "functions", "expected"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions(call, functions, expected):
    model = parse(FUNCTION.format(call=call, functions=functions))
    (y,) = ReferenceEvaluator(model).run(None, {"x": A})
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_a_result_left_out_is_not_an_input_left_out():
    model = parse(
        """g (float[T, 1, 1] x, float[1, 4, 1] w, float[1, 4, 1] r, float[1] top) => (float[] y) {
            "", h = LSTM <hidden_size = 1>(x, w, r)
            y = Clip(x, "", top) }"""
    )
    x = f32([[-9]], [[9]])
    feeds = {"x": x, "w": f32([[1], [1], [1], [1]]), "r": f32([[1], [1], [1], [1]]), "top": f32(2)}
    assert_same(ReferenceEvaluator(model).run(None, feeds), [f32([[-9]], [[2]])])


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("axes", "shape"),
    [([0], (0, 3)), ([1], (2, 0)), ([-1], (2, 3)), ([0, 1], (2, 3)), (None, (2, 3))],
)
def test_means(axes: list[int] | None, shape: tuple[int, ...], keepdims: int, opset: int) -> None:
    attribute = f"axes = {axes}, " if axes and opset < 18 else ""
    given = "" if axes is None or opset < 18 else ", k"
    model = parse(
        f"""g (float[N, M] x) => (float[] y) {{
            k = Constant<value_ints = {axes or [0]}>()
            y = ReduceMean<{attribute}keepdims = {keepdims}>(x{given}) }}""",
        opset,
    )
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (actual,) = ReferenceEvaluator(model).run(None, {"x": x})
    (expected,) = open_session(model).run({"x": x}).values()
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("axis", [-3, -1, 0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 3, 0), (2, 3, 4)])
def test_flatten_without_elements(shape, axis):
    model = parse(f"g (float[A,B,C] x) => (float[D,E] y) {{ y = Flatten<axis = {axis}>(x) }}")
    x = np.zeros(shape, np.float32)
    (actual,) = ReferenceEvaluator(model).run(None, {"x": x})
    (expected,) = open_session(model).run({"x": x}).values()
    assert actual.shape == expected.shape


@pytest.mark.parametrize(
    ("shape", "dims"), [((1, 2), (2, 3, 1)), ((), ()), ((), (2,)), ((2, 1), (0,)), ((0,), (3, 1))]
)
def test_strings_expand(shape, dims):
    model = parse("g (string[] x, int64[R] s) => (string[] y) { y = Expand(x, s) }")
    x = np.full(shape, "a")  # a type of numpy's own
    (found,) = ReferenceEvaluator(model).run(None, {"x": x, "s": np.array(dims, np.int64)})
    assert_same([found], [np.full(np.broadcast_shapes(shape, dims), "a", object)])


def test_one_string_of_several_is_a_tensor():
    model = parse("g (string[N] x, int64[1] i) => (string y) { y = GatherND(x, i) }")
    feeds = {"x": np.array(["a", "b"], object), "i": np.array([1], np.int64)}
    assert_same(ReferenceEvaluator(model).run(None, feeds), [np.array("b", object)])


def test_strings_of_both_kinds_are_compared():
    model = parse(
        'g (string[N] x) => (bool[N] y) { s = Constant<value_string = "a">() y = Equal(x, s) }'
    )
    feeds = {"x": np.array(["a", "b"], object)}
    assert_same(ReferenceEvaluator(model).run(None, feeds), [np.array([True, False])])


TYPES = {
    **{name: np.dtype(name) for name in (
        "float16", "double", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
        "uint64", "bool", "complex64", "complex128",
    )},
    "float": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "string": np.dtype(object),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_element_types(name):
    model = parse(
        f"""g ({name}[N] x, int64 m, int64 at) => ({name}[N] y, {name}[] z, {name} e) {{
            s = SplitToSequence<keepdims = 0>(x)
            r = SequenceMap <body = b ({name} a) => ({name} c) {{ c = Identity(a) }}> (s)
            y = ConcatFromSequence<axis = 0, new_axis = 1>(r)
            z = Loop (m, "") <body = l (int64 i, bool c) => (bool d, {name}[] o)
                {{ d = Identity(c) o = SequenceAt(r, i) }}>
            q = SequenceErase(r, at) u = SequenceInsert(q, e, at) e = SequenceAt(r, at) }}"""
    )
    model.graph.node[-1].name, model.graph.node[-2].name = "at", "insert"
    x = np.array(["a", "bc", "a"] if name == "string" else [1, 0, 1]).astype(TYPES[name])
    nodes = list(model.graph.node)
    nodes[-1], nodes[-2] = nodes[-2], nodes[-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for steps in (3, 0):
        y, z, e = ReferenceEvaluator(model).run(None, {"x": x, "m": i64(steps), "at": i64(1)})
        assert_same(y, x)
        assert_same(z, x[:steps])
        assert_same(e, x[1, ...])


@pytest.mark.parametrize("opset", [17, onnx.defs.onnx_opset_version()])
def test_opsets(opset):
    case = CASES["map-captures"]
    outputs = ReferenceEvaluator(parse(case.text, opset)).run(None, case.feeds)
    assert_same(outputs, case.expected)


def test_the_default_domain_has_two_names():
    model = parse(CASES["map-captures"].text)
    model.opset_import[0].domain = "ai.onnx"
    for node in model.graph.node:
        node.domain = "ai.onnx"
    outputs = ReferenceEvaluator(model).run(None, CASES["map-captures"].feeds)
    assert_same(outputs, CASES["map-captures"].expected)


def test_outputs_by_name_and_numbers_as_feeds():
    model = parse("g (float x) => (float y, float z) { y = Neg(x) z = Identity(x) }")
    outputs = ReferenceEvaluator(model).run(["z", "y"], {"x": np.float32(2)})
    assert_same(outputs, [np.array(2, np.float32), np.array(-2, np.float32)])


@pytest.mark.parametrize(
    ("opset", "body"),
    [
        (10, 'y = Pad <mode = "{mode}", pads = [0, {low}, 0, {high}]> (x)'),
        (
            13,
            'p = Constant <value_ints = [0, {low}, 0, {high}]> () y = Pad <mode = "{mode}"> (x, p)',
        ),
        (
            18,
            "p = Constant <value_ints = [{low}, {high}]> () a = Constant <value_ints = [-1]> ()"
            ' y = Pad <mode = "{mode}"> (x, p, , a)',
        ),
    ],
)
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("pads", [(-1, 2), (2, -2), (-1, -1), (1, 1)])
def test_pads_below_0_take_away(opset: int, body: str, mode: str, pads: tuple[int, int]) -> None:
    told = body.format(mode=mode, low=pads[0], high=pads[1])
    model = parse(f"g (float[?,?] x) => (float[?,?] y) {{ {told} }}", opset)
    x = f32([1, 2, 3, 4, 5], [3, 2, 1, 0, 9])
    (expected,) = open_session(model).run({"x": x}).values()
    (got,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert_same([got], [expected])


def test_pads_that_take_more_away_than_there_is_are_an_error() -> None:
    body = "p = Constant <value_ints = [-2, -2]> () y = Pad (x, p)"
    model = parse(f"g (float[?] x) => (float[?] y) {{ {body} }}")
    with pytest.raises(EvaluationError, match=r"pads \[-2, -2\] take more away than \(3,\) has"):
        ReferenceEvaluator(model).run(None, {"x": f32(1, 2, 3)})


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("attributes", ["", "keepdims = 0,", "select_last_index = 1,"])
def test_the_best_of_nothing_is_asked_for_no_one(name: str, attributes: str) -> None:
    model = parse(f"g (float[?,?] x) => (int64[] y) {{ y = {name} <{attributes} axis = -2> (x) }}")
    x = f32([1, 2, 3], [3, 2, 1], [1, 2, 3], [3, 2, 1])
    for given in (x, x[:0, :0], x[:, :0]):
        (expected,) = open_session(model).run({"x": given}).values()
        (got,) = ReferenceEvaluator(model).run(None, {"x": given})
        assert_same(got, expected)
    with pytest.raises(EvaluationError, match=r"axis -2 of shape .0, 3. has no position"):
        ReferenceEvaluator(model).run(None, {"x": x[:0]})


@pytest.mark.parametrize(
    ("data", "indices", "batch_dims"),
    [
        ((0, 4), (0, 1), 1),
        ((0, 4, 2), (0, 3, 1), 1),
        ((3, 4, 2), (3, 0, 1), 1),
        ((2, 3, 4), (2, 3, 1), 2),
        ((2, 3, 4), (2, 5, 2), 1),
        ((3, 4), (6, 1), 0),
        ((3, 4, 2), (2,), 0),
        ((3, 4), (2, 0), 0),
        ((3, 4), (3, 2, 0), 1),
        ((3,), (1,), 0),
    ],
)
def test_gather_nd(data: tuple[int, ...], indices: tuple[int, ...], batch_dims: int) -> None:
    model = parse(
        "g (float[a] x, int64[b] i) => (float[c] y) "
        f"{{ y = GatherND <batch_dims = {batch_dims}> (x, i) }}"
    )
    for value in model.graph.input:
        value.type.tensor_type.ClearField("shape")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    x = np.arange(np.prod(data), dtype=np.float32).reshape(data)
    feed = {"x": x, "i": np.random.default_rng(0).integers(-2, 2, indices)}
    expected = open_session(model).run(feed)["y"]
    (found,) = ReferenceEvaluator(model).run(None, feed)
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape


@pytest.mark.parametrize("length", [4, 5, 11])
@pytest.mark.parametrize(
    ("parts", "call", "inputs"),
    [
        ("", "STFT (x, s, w)", "float[4] w"),
        (", 1", "STFT (x, s, w)", "float[4] w"),
        ("", "STFT (x, s, , n)", "int64 n"),
        (", 1", "STFT <onesided = 0> (x, s, , n)", "int64 n"),
        (", 2", "STFT <onesided = 0> (x, s, w)", "float[4] w"),
    ],
)
def test_frames_of_signals_are_transformed_as_onnxruntime_does(
    parts: str, call: str, inputs: str, length: int
) -> None:
    model = parse(
        f"g (float[N, S{parts}] x, {inputs}) => (float[A, B, C, D] y) "
        f"{{ s = Constant <value_int = 3> () y = {call} }}"
    )
    rng = np.random.default_rng(length)
    dims = (2, length, *([int(parts[1:])] if parts else []))
    given = {"w": f32(0.5, 1, 2, 0.25)} if "w" in inputs else {"n": np.array(4)}
    feeds = {"x": rng.uniform(-1, 1, dims).astype(np.float32), **given}
    expected = open_session(model).run(feeds)["y"]
    found = ReferenceEvaluator(model).run(None, feeds)[0]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_signal_is_one_frame_where_nothing_says_how_long_they_are() -> None:
    model = parse("g (float[2, 6] x, int64 s) => (float[A, B, C, D] y) { y = STFT (x, s) }")
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    (found,) = ReferenceEvaluator(model).run(None, {"x": x, "s": np.array(2)})
    expected = np.fft.rfft(x)
    assert found.shape == (2, 1, 4, 2)
    np.testing.assert_allclose(found[:, 0, :, 0] + 1j * found[:, 0, :, 1], expected, atol=1e-5)


def test_a_signal_shorter_than_a_frame_is_an_error() -> None:
    model = parse(
        "g (float[1, 3] x, float[4] w, int64 s) => (float[A, B, C, D] y) { y = STFT (x, s, w) }"
    )
    feeds = {"x": np.ones((1, 3), np.float32), "w": np.ones(4, np.float32), "s": np.array(1)}
    with pytest.raises(EvaluationError, match="no frame of 4"):
        ReferenceEvaluator(model).run(None, feeds)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("name", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_operators_read_the_lengths_of_samples(
    name: str, gates: int, direction: str
) -> None:
    ways = 2 if direction == "bidirectional" else 1
    state = f"float[{ways}, 3, 2]"
    is_lstm = name == "LSTM"
    model = parse(f"""g (float[4, 3, 2] x, float[{ways}, {gates * 2}, 2] w,
        float[{ways}, {gates * 2}, 2] r, int32[3] lengths, {state} h{f", {state} c" * is_lstm})
        => (float[4, {ways}, 3, 2] y, {state} yh{f", {state} yc" * is_lstm})
        {{ y, yh{", yc" * is_lstm} = {name} <hidden_size = 2, direction = "{direction}">
            (x, w, r, "", lengths, h{", c" * is_lstm}) }}""")
    rng = np.random.default_rng(0)
    feeds = {
        value.name: rng.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim])
        for value in model.graph.input
    }
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    feeds["lengths"] = np.array([1, 4, 2], np.int32)
    expected = open_session(model).run(feeds)
    for output, value in open_session(model, backend="reference").run(feeds).items():
        assert np.allclose(value, expected[output], atol=1e-6), output
