"""Backends of runtimes that pass tensors only; those that are not installed are skipped.

Each is an extra of the package by its own name; `test` holds those of openvino and tract only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import rewriter
from passes.promises import Ceiling
from rewriter.backends import BACKENDS, BackendError, messages, open_session, run
from rewriter.feeding.feeds import FeedMaker, read_expected, read_feeds
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare

ROOT = Path(__file__).parents[3]
HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
NAMES = [name for name in BACKENDS if name not in ("reference", "onnxruntime")]


# These run in every test here; of the others a refusal is as good as the right result.
THOROUGH = ("openvino", "tract")


def run_or_refuse(model: object, feeds: dict, backend: str) -> dict:
    try:
        return run(model, feeds, backend)
    except BackendError as error:
        if backend in THOROUGH or not error.is_limit:
            raise
        pytest.skip(str(error))


def usable(name: str) -> str:
    if reason := BACKENDS[name].missing():
        pytest.skip(reason)
    return name


@pytest.fixture(params=NAMES)
def backend(request: pytest.FixtureRequest) -> str:
    return usable(request.param)


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEADER} {text}")


DENSE = parse("""g (float[N,K] x, float[K,3] w, int64[N] l) =>
    (float[N,3] y, int64[N] z, bool[N,3] q, float s) {
    y = MatMul (x, w)  z = Neg (l)  n = Neg (y)  q = Less (n, y)
    s = ReduceSum <keepdims = 0> (y) }""")


@pytest.mark.parametrize("rows", [3, 1, 0])
def test_shapes_types_and_names(backend: str, rows: int) -> None:
    feeds = {
        "x": np.arange(4 * rows, dtype=np.float32).reshape(rows, 4),
        "w": np.ones((4, 3), np.float32),
        "l": np.arange(rows),
    }
    session = open_session(DENSE, backend)
    if backend == "tvm" and not rows:
        with pytest.raises(BackendError, match="inputs without elements"):
            session.run(feeds)
        return
    for _ in range(2):
        difference = compare(run(DENSE, feeds, "reference"), session.run(feeds))
        assert difference.equal, difference.message


def test_results_outlive_the_next_run(backend: str) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Neg (x) }")
    session = open_session(model, backend)
    first = session.run({"x": np.float32([1, 2])})["y"]
    session.run({"x": np.float32([5, 6])})
    assert first.tolist() == [-1, -2]


def test_an_input_that_nothing_reads(backend: str) -> None:
    model = parse("g (float[2] x, float[N] unread) => (float[2] y) { y = Neg (x) }")
    feeds = {"x": np.float32([1, 2]), "unread": np.float32([3])}
    assert run(model, feeds, backend)["y"].tolist() == [-1, -2]


def test_float32_is_not_rounded_further(backend: str) -> None:
    """Some CPUs have bfloat16, which OpenVINO takes unless it is told not to."""
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((64, 256)).astype(np.float32),
        "w": rng.standard_normal((256, 3)).astype(np.float32),
        "l": np.arange(64),
    }
    y = run(DENSE, feeds, backend)["y"]
    np.testing.assert_allclose(y, feeds["x"] @ feeds["w"], rtol=1e-4, atol=1e-4)


def test_an_input_of_unknown_rank(backend: str) -> None:
    model = parse("g (float[] x) => (float[] y) { y = Neg (x) }")
    session = open_session(model, backend)
    for shape in ((2,), (2, 3), (1, 2), ()):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(session.run({"x": x})["y"], -x)


def test_a_false_shape_of_an_output_does_no_harm(backend: str) -> None:
    """An exporter wrote the same symbol, or the first example's size."""
    model = parse("g (float[N] x) => (float[N] y) { y = Concat <axis = 0> (x, x) }")
    assert run(model, {"x": np.float32([1, 2])}, backend)["y"].tolist() == [1, 2, 1, 2]


def test_a_result_that_is_a_size(backend: str) -> None:
    model = parse("g (float[N,3] x) => (int64[2] s) { s = Shape (x) }")
    found = run(model, {"x": np.zeros((2, 3), np.float32)}, backend)["s"]
    assert (found.dtype, found.tolist()) == (np.int64, [2, 3])


def test_weights_in_another_file(backend: str, tmp_path: Path) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Mul (x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([3, 4]), "w"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert run(path, {"x": np.float32([1, 2])}, backend)["y"].tolist() == [3, 8]
    (tmp_path / "w.bin").unlink()
    with pytest.raises(BackendError, match="cannot be read"):
        open_session(path, backend)


@pytest.mark.parametrize(
    "text",
    [
        "g (seq(float[N]) xs) => (int64 n) { n = SequenceLength (xs) }",
        "g (float[N] x) => (seq(float[N]) ys) { ys = SequenceConstruct (x, x) }",
        "g (optional(float[N]) x) => (bool b) { b = OptionalHasElement (x) }",
    ],
    ids=["input", "output", "optional"],
)
def test_sequences_at_the_boundary_are_refused(backend: str, text: str) -> None:
    with pytest.raises(BackendError, match=r"passes tensors only, and .*tensor_io") as caught:
        open_session(parse(text), backend)
    assert caught.value.is_limit


def test_a_refusal_says_why(backend: str) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.example" : 1]>'
        "g (float[2] x) => (float[2] y) { y = com.example.Unheard (x) }"
    )
    with pytest.raises(
        BackendError, match=r"refuses the model: .*(Unheard|com\.example)"
    ) as caught:
        open_session(model, backend).run({"x": np.float32([1, 2])})
    assert caught.value.is_limit
    assert "src/" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_in_a_range_are_long(backend: str) -> None:
    """tinygrad makes them int32, and then refuses to scatter them among others."""
    model = parse("""g (int64[N] order) => (int64[N] y) { s = Shape (order) n = Squeeze (s)
        zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
        r = Range (zero, n, one) y = ScatterElements <axis = 0> (order, order, r) }""")
    found = run_or_refuse(model, {"order": np.int64([2, 0, 1])}, backend)["y"]
    assert (found.dtype, found.tolist()) == (np.int64, [1, 2, 0])


def test_iree_is_not_asked_to_scatter_what_is_counted() -> None:
    """It loses numbers, not the same ones each time."""
    usable("iree")
    model = parse("""g (bool[N] c, int64[N] x) => (int64[N] y) { p = NonZero (c)
        i = Squeeze (p) y = ScatterElements <axis = 0> (x, i, i) }""")
    with pytest.raises(BackendError, match="ScatterElements of computed size"):
        run(model, {"c": np.array([True, False, True]), "x": np.int64([5, 6, 7])}, "iree")


@pytest.mark.parametrize("sizes", ["4, 6", "5, 17"])
@pytest.mark.parametrize(
    "attributes",
    [
        'antialias = 1, mode = "linear"',
        'exclude_outside = 1, mode = "cubic"',
        'mode = "cubic", cubic_coeff_a = -0.5',
        'mode = "linear"',
        'mode = "nearest"',
        'mode = "nearest", nearest_mode = "ceil"',
        'mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"',
        'mode = "linear", coordinate_transformation_mode = "asymmetric"',
        'mode = "linear", axes = [2, 3]',
    ],
)
def test_resize_is_right_or_refused(backend: str, attributes: str, sizes: str) -> None:
    every = sizes if "axes" in attributes else f"1, 2, {sizes}"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 18]> g (float[N,2,8,12] x) => (float[N,2,P,Q] y) {{
        s = Constant <value = int64[{every.count(",") + 1}] {{{every}}}> ()
        y = Resize <{attributes}> (x, , , s) }}"""
    )
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((1, 2, 8, 12)).astype(np.float32)}
    try:
        found = run(model, feeds, backend)
    except BackendError as error:
        assert error.is_limit
        return
    difference = compare(run(model, feeds, "onnxruntime"), found, 1e-3, 1e-4)
    assert difference.equal, difference.message


def test_a_device_that_is_not_there(backend: str) -> None:
    with pytest.raises(BackendError, match="'abacus'"):
        open_session(DENSE, backend, "abacus")


def test_a_failing_run(backend: str) -> None:
    if backend == "iree":
        pytest.skip("IREE does not notice that sizes of inputs do not fit")
    feeds = {"x": np.ones((2, 4), np.float32), "w": np.ones((5, 3), np.float32), "l": np.arange(2)}
    with pytest.raises(BackendError, match="fails: "):
        run(DENSE, feeds, backend)


def test_tract_does_not_hang_on_a_scan_with_a_matmul() -> None:
    usable("tract")
    model = parse("""g (float[N,2,2] x, float[2,2] s) => (float[2,2] t) { t = Scan
        <num_scan_inputs = 1, body = b (float[2,2] a, float[2,2] r) => (float[2,2] o)
            { o = MatMul (a, r) }> (s, x) }""")
    with pytest.raises(BackendError, match="does not return from optimising a Scan"):
        open_session(model, "tract")


def test_openvino_may_end_a_process_of_its_own_only() -> None:
    """A Loop that appends slices of open size to a sequence corrupts the memory of OpenVINO."""
    usable("openvino")
    model = parse("""g (float[N] x, int64 n, bool c) => (float[M] y) {
        e = SequenceEmpty ()
        s = Loop (n, c, e) <body = b (int64 i, bool ci, seq(float[K]) a) =>
            (bool co, seq(float[K]) o) { co = Identity (ci)  one = Constant <value_ints = [1]> ()
            z = Constant <value_ints = [0]> ()  at = Unsqueeze (i, z)  to = Add (at, one)
            p = Slice (x, at, to, z)  o = SequenceInsert (a, p) }>
        y = ConcatFromSequence <axis = 0> (s) }""")
    feeds = {"x": np.float32([1, 2]), "n": np.int64(2), "c": np.array(True)}
    try:
        assert run(model, feeds, "openvino")["y"].tolist() == [1, 2]
    except BackendError as error:
        assert "OpenVINO" in str(error)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_installed_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages.importlib.util, "find_spec", lambda _: None)
    assert BACKENDS[name].missing() == f"{name} is not installed; install seqmap[{name}]"
    with pytest.raises(BackendError, match="cannot be used: "):
        open_session(DENSE, name)


def test_a_module_that_breaks_on_look_up_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> None:
        raise ValueError

    monkeypatch.setattr(messages.importlib.util, "find_spec", broken)
    assert not messages.has_module("openvino")


VECTORS = ["dy_hstack", "dy_atleast_1d", "dy_unbind_dyn", "dy_split_dynamic", "ts_split_map_cat"]


@pytest.mark.parametrize("name", VECTORS)
def test_exported_models_equal_their_vectors(backend: str, name: str) -> None:
    path = ROOT / "models" / "exported" / f"{name}.onnx"
    model = rewriter.optimize(path, require=["sequence-free"])
    outputs = run_or_refuse(model, read_feeds(path.with_suffix(".npz"), model), backend)
    difference = compare(read_expected(path.with_suffix(".npz"), path), outputs, 1e-4, 1e-5)
    assert difference.equal, difference.message


UNIFORM = [
    "captured_two_depths",
    "chain",
    "function_in_body",
    "further_inputs",
    "map_in_function",
    "name_collisions",
    "opset_17",
    "opset_26",
    "passthrough_outputs",
    "ragged_two_axes",
    "scalar_elements",
    "several_outputs",
    "split_map_concat",
    "split_map_stack",
    "uint8_elements",
]


@pytest.mark.parametrize("name", UNIFORM)
def test_portable_models_run(backend: str, name: str) -> None:
    before = rewriter.load(ROOT / "models" / "text" / f"{name}.onnxtxt")
    sequences = [v.name for v in before.graph.inputs if type(v.type).__name__ == "SequenceType"]
    after = rewriter.optimize(before, target="portable", tensor_io=True, uniform=sequences)
    maker = FeedMaker(after)
    kind = maker.kinds(1)[0]
    reference = open_session(after, "reference")
    feeds = maker.draw(kind, 0).values
    difference = compare(reference.run(feeds), run_or_refuse(after, feeds, backend), 1e-4, 1e-5)
    assert difference.equal, difference.message


PIECES = """g (float[N,2] x, int64[B] sizes) => (float[M,2] y) {
    s = SplitToSequence <axis = 0> (x, sizes)
    m = SequenceMap (s) <body = b (float[L,2] e) => (float[K,2] o) {
        o = Neg (e) }>
    y = ConcatFromSequence <axis = 0> (m) }"""


@pytest.mark.parametrize("sizes", [[2, 0, 4], [6], [0, 6]])
def test_pieces_that_stay_in_a_loop_are_joined_on_openvino(sizes: list[int]) -> None:
    """From no rows on, and without lengths that nothing reads."""
    x = np.array([[1, 2], [1, 2], [3, 4], [5, 6], [3, 4], [5, 6]], np.float32)
    feeds = {"x": x, "sizes": np.array(sizes)}
    given = parse(PIECES)
    stays = {"SequenceMap_1": Ceiling.EXPANDED}
    model = rewrite(given, target="openvino", tensor_io=True, ceilings=stays).model
    assert isinstance(model, onnx.ModelProto)
    assert "Loop" in {node.op_type for node in model.graph.node}
    expected = run(given, feeds, "reference")["y"]
    np.testing.assert_array_equal(run(model, feeds, usable("openvino"))["y"], expected)
