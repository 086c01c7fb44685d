"""Predictor: results in order, and a bad sample never hides the others."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.model_files.protos import from_proto

EXPORTED = Path(__file__).parents[3] / "models" / "exported"
HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
RAGGED = """
agraph (seq(float[N, 3]) xs, float[3, 2] w) => (seq(float[N, 2]) ys) {
    ys = SequenceMap (xs, w) <body = body (float[N, 3] x, float[3, 2] v) => (float[N, 2] y) {
        p = MatMul (x, v)
        y = Relu (p)
    }>
}
"""
ROWS = "agraph (float[N, 3] x) => (float[N, 3] y) { y = Relu (x) }"
NORMALISED = """
agraph (float[N, 3] x) => (float[N, 3] y) {
    m = ReduceMean <axes = [0]> (x)
    y = Sub (x, m)
}
"""
TOTALS = """
agraph (float[N, 3] x) => (float[N, 3] y) {
    a = Constant <value = int64 {0}> ()
    y = CumSum (x, a)
}
"""
SCALED = """
agraph (seq(float[N]) xs, float[B] scale) => (seq(float[N]) ys) {
    scales = SplitToSequence <axis = 0, keepdims = 0> (scale)
    ys = SequenceMap (xs, scales) <body = body (float[N] x, float s) => (float[N] y) {
        y = Mul (x, s)
    }>
}
"""
SUMMED = "agraph (float[N, 3] x) => (float[A, B] y) { y = ReduceSum (x) }"
WEIGHTS = np.arange(6, dtype=np.float32).reshape(3, 2)


def _model(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f"{HEADER} {text}")
    onnx.checker.check_model(model, full_check=True)
    return model


def _samples(count: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 3)).astype(np.float32) for n in rng.integers(0, 9, count)]


def _expected(sample: np.ndarray) -> np.ndarray:
    return np.maximum(sample @ WEIGHTS, 0)


def _forms() -> dict[str, onnx.ModelProto]:
    given = _model(RAGGED)
    return {
        "as given": given,
        "rewritten": rewriter.optimize(given),
        "packed": rewriter.optimize(given, tensor_io=True),
    }


@pytest.mark.parametrize("form", ["as given", "rewritten", "packed"])
@pytest.mark.parametrize("batch_size", [1, 4, 256])
def test_results_come_in_order_and_bad_samples_alone_fail(form: str, batch_size: int) -> None:
    predictor = rewriter.Predictor(_forms()[form], batch_size=batch_size, shared={"w": WEIGHTS})
    samples = _samples(23)
    bad = {5: np.ones((2, 5), np.float32), 6: np.ones((2, 3), np.int64), 17: np.float32(1)}
    mixed = [bad.get(number, sample) for number, sample in enumerate(samples)]
    results = list(predictor(iter(mixed)))
    assert len(results) == len(samples)
    for number, (sample, result) in enumerate(zip(samples, results, strict=True)):
        if number in bad:
            assert result.outputs is None
            assert result.error
            continue
        assert result.error is None
        assert result.outputs is not None
        np.testing.assert_allclose(result.outputs["ys"], _expected(sample), rtol=1e-5, atol=1e-6)


def test_samples_without_rows_need_no_process_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = rewriter.optimize(_model(RAGGED))
    assert any(node.op_type == "Scan" for node in from_proto(model).graph.all_nodes())
    monkeypatch.setattr("rewriter.backends.isolated.run", lambda *_: pytest.fail("a process"))
    samples = [np.ones((rows, 3), np.float32) for rows in (0, 2, 0, 1)]
    results = rewriter.Predictor(model, shared={"w": WEIGHTS}).predict(samples)
    for sample, result in zip(samples, results, strict=True):
        assert result.outputs is not None
        np.testing.assert_allclose(result.outputs["ys"], _expected(sample), rtol=1e-5)


def test_no_samples_give_no_results() -> None:
    predictor = rewriter.Predictor(_model(RAGGED), shared={"w": WEIGHTS})
    assert list(predictor([])) == []
    assert predictor.predict([]) == []


def test_rows_of_a_tensor_are_samples_and_unequal_shapes_run_apart() -> None:
    text = "agraph (float[N, K] x) => (float[N, K] y) { y = Neg (x) }"
    samples = [np.full(1 + number % 3, number, np.float32) for number in range(20)]
    results = list(rewriter.Predictor(_model(text), batch_size=8)(samples))
    for sample, result in zip(samples, results, strict=True):
        assert result.outputs is not None
        np.testing.assert_array_equal(result.outputs["y"], -sample)


def test_a_promise_of_one_shape_is_kept_by_batches_of_one_shape() -> None:
    model = rewriter.optimize(_model(RAGGED), uniform=["xs"])
    samples = _samples(30)
    results = rewriter.Predictor(model, batch_size=16, shared={"w": WEIGHTS})(samples)
    for sample, result in zip(samples, results, strict=True):
        assert result.outputs is not None
        np.testing.assert_allclose(result.outputs["ys"], _expected(sample), rtol=1e-5, atol=1e-6)


def test_images_of_any_size_lie_in_one_batch_as_flat_rows() -> None:
    text = """
    agraph (seq(float[H, W, 3]) xs) => (seq(float[4, 4, 3]) ys)
    <int64[3] size = {4, 4, 3}> {
        ys = SequenceMap (xs) <body = body (float[H, W, 3] x) => (float[4, 4, 3] y) {
            y = Resize <mode = "nearest"> (x, , , size)
        }>
    }
    """
    given = _model(text)
    flat = rewriter.optimize(given, tensor_io=True, target="portable")
    rng = np.random.default_rng(0)
    images = [
        rng.normal(size=(*size, 3)).astype(np.float32) for size in rng.integers(1, 9, (9, 2))
    ]
    expected = rewriter.run(given, {"xs": images})["ys"]
    images[3] = np.ones((2, 2, 4), np.float32)
    for number, result in enumerate(rewriter.Predictor(flat, batch_size=4)(images)):
        if number == 3:
            assert result.error
        else:
            assert result.outputs is not None
            np.testing.assert_array_equal(result.outputs["ys"], expected[number])


def test_an_error_of_every_sample_of_the_first_batch_stops() -> None:
    predictor = rewriter.Predictor(_model(RAGGED), batch_size=4, shared={"w": WEIGHTS})
    with pytest.raises(rewriter.RewriteError, match="every sample of the first batch fails"):
        list(predictor([np.ones((1, 7), np.float32)] * 4))
    (alone,) = predictor([np.ones((1, 7), np.float32)])
    assert alone.error


def test_a_first_batch_of_errors_may_be_allowed() -> None:
    predictor = rewriter.Predictor(_model(RAGGED), shared={"w": WEIGHTS}, must_begin=False)
    results = list(predictor([np.ones((1, 7), np.float32)] * 3))
    assert all(result.error for result in results)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (RAGGED, {}, "input 'w' does not hold samples"),
        (RAGGED, {"shared": {"v": WEIGHTS}}, "has no input 'v'"),
        (
            "agraph (float[2, 3] x) => (float[2, 3] y) { y = Relu (x) }",
            {},
            "no input of the model",
        ),
    ],
)
def test_what_cannot_be_batched_is_said_at_once(text: str, options: dict, message: str) -> None:
    with pytest.raises(rewriter.RewriteError, match=message):
        rewriter.Predictor(_model(text), **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NORMALISED, "not independent"),
        (TOTALS, "not independent"),
        (SUMMED, "output 'y' has shape"),
    ],
)
def test_samples_that_act_on_each_other_are_refused(text: str, message: str) -> None:
    samples = list(np.arange(12, dtype=np.float32).reshape(4, 3))
    predictor = rewriter.Predictor(_model(text))
    for _ in range(2):
        with pytest.raises(rewriter.RewriteError, match=message):
            predictor.predict(samples)


@pytest.mark.parametrize("tensor_io", [False, True])
def test_a_tensor_beside_a_sequence_has_a_row_for_each_sample(tensor_io: bool) -> None:
    predictor = rewriter.Predictor(rewriter.optimize(_model(SCALED), tensor_io=tensor_io))
    rows = [np.ones(number % 4, np.float32) for number in range(9)]
    samples = [{"xs": row, "scale": np.float32(i)} for i, row in enumerate(rows)]
    for number, result in enumerate(predictor.predict(samples)):
        assert result.outputs is not None
        np.testing.assert_array_equal(result.outputs["ys"], rows[number] * number)


def test_a_sample_is_a_row_of_a_tensor() -> None:
    predictor = rewriter.Predictor(
        _model("agraph (float[N,3] x) => (float[N,3] y) { y = Abs (x) }")
    )
    right, wrong = predictor.predict([np.ones(3, np.float32), np.ones((4, 3), np.float32)])
    assert right.error is None
    assert wrong.error == (
        "the value for input 'x' has shape [4,3], and one sample has [3]: the first axis of the "
        "input counts the samples"
    )


def test_a_shared_value_that_has_rows_for_the_samples_is_noticed() -> None:
    scale = np.float32([1, 2])
    predictor = rewriter.Predictor(_model(SCALED), shared={"scale": scale})
    samples = [{"xs": np.ones(size, np.float32)} for size in (2, 0, 1, 2)]
    with pytest.raises(rewriter.RewriteError, match="not independent"):
        predictor.predict(samples)


TYPES = {"string": ["a", "b"], "float": [0.5, 1.5], "bool": [True, False]}


@pytest.mark.parametrize(("dtype", "bad"), [("string", 2.0), ("float", True), ("bool", 1)])
def test_a_value_of_another_kind_fails_alone(dtype: str, bad: object) -> None:
    text = f"agraph ({dtype}[N] x) => ({dtype}[N] y) {{ y = Identity (x) }}"
    first, wrong, last = rewriter.Predictor(_model(text))([TYPES[dtype][0], bad, TYPES[dtype][1]])
    assert [one.outputs and one.outputs["y"] for one in (first, last)] == TYPES[dtype]
    assert wrong.error is not None
    assert "is of type" in wrong.error


@pytest.mark.parametrize(
    ("dtype", "bad"),
    [
        ("string", ["a", None]),
        ("string", np.array(["a", float("nan")], object)),
        ("string", ["a", 1]),
        ("string", [b"a"]),
        ("string", np.array([b"a"])),
        ("float", [1.0, None]),
        ("float", [1e300]),
        ("float", ["1"]),
    ],
    ids=["None", "NaN", "number", "bytes", "array of bytes", "no number", "too large", "digits"],
)
def test_what_a_runtime_would_read_as_something_else_fails_alone(dtype: str, bad: object) -> None:
    text = f"agraph (seq({dtype}[N]) xs) => (seq({dtype}[N]) ys) {{ ys = Identity (xs) }}"
    first, wrong, last = rewriter.Predictor(_model(text))([TYPES[dtype], bad, TYPES[dtype]])
    assert first.error is last.error is None
    assert wrong.error is not None
    assert "is of type" in wrong.error


@pytest.mark.parametrize("dtype", ["string", "int64"])
def test_an_empty_list_is_of_the_type_that_is_wanted(dtype: str) -> None:
    text = f"agraph (seq({dtype}[N]) xs) => (seq({dtype}[N]) ys) {{ ys = Identity (xs) }}"
    (found,) = rewriter.Predictor(_model(text)).predict([[]])
    assert found.outputs is not None
    assert found.outputs["ys"].shape == (0,)


def test_a_list_of_whole_numbers_is_one_of_floats_where_none_is_rounded() -> None:
    text = "agraph (seq(float[N]) xs) => (seq(float[N]) ys) { ys = Identity (xs) }"
    given = [[1, 2], [2**24 + 1], np.array([1, 2]), [1, "2"], [-(2**24)]]
    first, *others, last = rewriter.Predictor(_model(text))(given)
    assert first.outputs is not None and last.outputs is not None
    np.testing.assert_array_equal(first.outputs["ys"], np.float32([1, 2]))
    np.testing.assert_array_equal(last.outputs["ys"], np.float32([-(2**24)]))
    assert all(one.error and "is of type" in one.error for one in others)


def test_masked_numbers_fail_alone() -> None:
    one = np.ones(3, np.float32)
    first, masked, whole = rewriter.Predictor(_model(ROWS)).predict(
        [one, np.ma.array(one, mask=[True, False, False]), np.ma.array(one)]
    )
    assert first.error is whole.error is None
    assert masked.error == "the value for input 'x' has masked numbers; fill them"


def test_another_process_opens_the_model_anew(tmp_path: Path) -> None:
    onnx.save(_model(ROWS), tmp_path / "model.onnx")
    predictor = rewriter.Predictor(tmp_path / "model.onnx", batch_size=2)
    sent = pickle.loads(pickle.dumps(predictor))
    one = np.float32([1, -1, 2])
    results = [list(each([one] * 3)) for each in (predictor, sent)]
    assert repr(results[0]) == repr(results[1])
    with pytest.raises(TypeError, match="by the path of its model"):
        pickle.dumps(rewriter.Predictor(_model(ROWS)))


def test_lists_that_are_no_tensor_fail_alone() -> None:
    predictor = rewriter.Predictor(_model(ROWS))
    one = np.ones(3, np.float32)
    first, ragged, last = predictor.predict([one, [[1.0, 2.0], [3.0]], one])
    assert first.outputs is not None
    assert last.outputs is not None
    assert ragged.error == "the value for input 'x' is no tensor: its rows differ in length"


def test_a_sample_of_several_inputs_is_a_mapping() -> None:
    text = "agraph (float[N, 3] a, float[N, 3] b) => (float[N, 3] y) { y = Sub (a, b) }"
    predictor = rewriter.Predictor(_model(text))
    assert predictor.inputs == ("a", "b")
    one = np.ones(3, np.float32)
    good, short, unknown, bare = predictor(
        [{"a": one, "b": 2 * one}, {"a": one}, {"a": one, "b": one, "c": one}, one]
    )
    assert good.outputs is not None
    np.testing.assert_array_equal(good.outputs["y"], -one)
    assert short.error is not None
    assert "input 'b'" in short.error
    assert unknown.error is not None
    assert "'c'" in unknown.error
    assert bare.error is not None
    assert "mapping" in bare.error


def test_numbers_of_another_width_are_converted_where_nothing_is_lost() -> None:
    text = "agraph (int8[N, 2] x) => (int8[N, 2] y) { y = Neg (x) }"
    wide = [np.array([1, 2]), np.array([1, 200]), np.array([3, 4])]
    first, lossy, last = rewriter.Predictor(_model(text))(wide)
    assert first.outputs is not None
    assert last.outputs is not None
    np.testing.assert_array_equal(first.outputs["y"], np.array([-1, -2], np.int8))
    assert lossy.error is not None
    assert "int64" in lossy.error
    text = "agraph (uint64[N, 2] x) => (uint64[N, 2] y) { y = Identity (x) }"
    signed = [[1, 2], [1, -2], [2**63, 2**64 - 1], np.array([0, 2**62])]
    first, negative, *rest = rewriter.Predictor(_model(text))(signed)
    assert [one.error for one in (first, *rest)] == [None] * 3
    assert negative.error is not None
    assert "int64" in negative.error
    text = "agraph (int64[N] x) => (int64[N] y) { y = Identity (x) }"
    small, large = rewriter.Predictor(_model(text))(list(np.array([1, 2**63], np.uint64)))
    assert small.error is None
    assert large.error is not None
    (double,) = rewriter.Predictor(_model(ROWS))([[0.5, -1.0, 2.0]])
    assert double.outputs is not None
    np.testing.assert_array_equal(double.outputs["y"], np.array([0.5, 0, 2], np.float32))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": 2.5}, "batch_size is 2.5"),
        ({"threads": -1}, "threads is -1"),
    ],
    ids=["batch size", "no whole number", "threads"],
)
def test_numbers_that_are_too_small_are_refused(option: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rewriter.Predictor(_model(ROWS), **option)  # type: ignore[arg-type]


def test_an_exporters_model_from_a_path() -> None:
    path = EXPORTED / "seqmap_mlp_ragged_rows.onnx"
    predictor = rewriter.Predictor(path)
    samples = _samples(9)
    for sample, result in zip(samples, predictor(samples), strict=True):
        assert result.outputs is not None
        expected = rewriter.run(path, {predictor.inputs[0]: [sample]})
        for name in predictor.outputs:
            np.testing.assert_allclose(result.outputs[name], expected[name][0], rtol=1e-5)
