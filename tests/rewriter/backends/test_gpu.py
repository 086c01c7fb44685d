"""Sessions on a device: the provider asked for runs, and says what it left to the host.

WebGPU runs on a software adapter; without one its tests are skipped, which .ci/run forbids once it has one.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from benchmarks import results
from rewriter.backends import BackendError, open_session, placement
from rewriter.backends.binding import can_bind
from rewriter.backends.onnxruntime import OnnxruntimeSession
from rewriter.backends.profiling import Placement, read_profile
from rewriter.backends.providers import load_libraries, provider_of, require_provider
from rewriter.model_files.protos import to_proto
from tests import software_gpu
from tests.rewriter.cli_models import seqmap

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
RELU = "g (float[N] x) => (float[N] y) { y = Relu (x) }"


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEADER} {text}")


@pytest.fixture(params=["webgpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "webgpu":
        if reason := software_gpu.why_not():
            pytest.skip(reason)
        software_gpu.start()
        return name
    try:
        open_session(parse(RELU), device=name)
    except BackendError as error:
        pytest.skip(str(error))
    return name


def over_rows(body: str, weights: str, tensor: str = "float[B,4,8] x") -> str:
    """A body over the rows of a tensor, tensor in and out."""
    return f"""g ({tensor}, {weights}) => (float[] y) {{
        xs = SplitToSequence <axis = 0, keepdims = 0> (x)
        [map] ys = SequenceMap (xs) <body = b (float[] p) => (float[] q) {{ {body} }}>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (ys) }}"""


MODELS = {
    "perceptron": over_rows(
        "h = Gemm (p, w1, b1)  a = Relu (h)  o = Gemm (a, w2, b2)  q = Tanh (o)",
        "float[8,16] w1, float[16] b1, float[16,4] w2, float[4] b2",
    ),
    "attention": over_rows(
        """k = MatMul (p, wk)  kt = Transpose <perm = [1, 0]> (k)  v = MatMul (p, wv)
        r = MatMul (p, wq)  s = MatMul (r, kt)  t = Softmax <axis = -1> (s)  q = MatMul (t, v)""",
        "float[8,8] wq, float[8,8] wk, float[8,8] wv",
    ),
    "convolution net": over_rows(
        """zero = Constant <value_ints = [0]> ()  one = Unsqueeze (p, zero)
        c = Conv <pads = [1, 1, 1, 1]> (one, k1)  a = Relu (c)
        d = Conv <strides = [2, 2]> (a, k2)  e = Sigmoid (d)  q = Squeeze (e, zero)""",
        "float[4,3,3,3] k1, float[2,4,3,3] k2",
        "float[B,3,8,8] x",
    ),
}
SIZES = {"B": 3}


def feeds_for(model: onnx.ModelProto) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {
        value.name: [SIZES.get(d.dim_param, d.dim_value) for d in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    return {k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_fused_model_runs_on_the_device_as_a_whole(device: str, name: str) -> None:
    """Every node is on the device; as given, most are not, with copies for each sample."""
    given = parse(MODELS[name])
    fused = rewriter.optimize(given, strategy="fuse", require=["loop-free", "sequence-free"])
    feeds = feeds_for(given)
    session = OnnxruntimeSession(fused, None, device, whole=True)
    expected = rewriter.run(given, feeds, "reference")["y"]
    np.testing.assert_allclose(session.run(feeds)["y"], expected, rtol=1e-3, atol=1e-4)
    placed = session.placement(feeds)
    assert set(placed.nodes) == {provider_of(device)}
    assert (placed.to_host, placed.to_device) == (0, 0)
    expanded = rewriter.optimize(given, strategy="expand")
    before = placement(open_session(expanded, device=device), feeds)
    assert before is not None
    assert "Loop" in before.nodes["CPUExecutionProvider"]


def test_a_model_as_given_is_refused_as_a_whole(device: str) -> None:
    given = parse(MODELS["perceptron"])
    with pytest.raises(BackendError, match="fallback to CPU EP has been explicitly disabled"):
        OnnxruntimeSession(given, None, device, whole=True)
    placed = placement(open_session(given, device=device), feeds_for(given))
    assert placed is not None
    on_cpu = placed.nodes["CPUExecutionProvider"]
    assert on_cpu["Loop"] == 1
    if device == "webgpu":
        assert placed.to_host == placed.to_device == SIZES["B"]


def test_a_provider_that_takes_no_node_is_an_error(device: str) -> None:
    model = parse("g (string[N] x) => (string[N] y) { y = Identity (x) }")
    with pytest.raises(BackendError, match="takes no node of this model"):
        open_session(model, device=device)


def test_sequences_and_empty_tensors_are_not_bound(device: str) -> None:
    model = parse("""g (seq(float[N]) xs, float[M] w) => (seq(float[N]) ys, float[M] v) {
        v = Relu (w)
        ys = SequenceMap (xs) <body = b (float[N] x) => (float[N] y) { y = Relu (x) }> }""")
    session = open_session(model, device=device)
    feeds = {"xs": [np.float32([-1, 2])], "w": np.float32([-3])}
    assert session.run(feeds)["ys"][0].tolist() == [0, 2]
    assert open_session(parse(RELU), device=device).run({"x": np.zeros(0, np.float32)})[
        "y"
    ].shape == (0,)


def test_the_command_line_says_where_nodes_ran(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(parse(MODELS["perceptron"]), path)
    assert seqmap("run", path, "--device", device, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["providers"][provider_of(device)]["operators"]
    assert set(record["copies"]) == {"to_host", "to_device"}


@pytest.mark.parametrize(
    ("provider", "is_installed", "is_called"),
    [
        ("CUDAExecutionProvider", True, True),
        ("TensorrtExecutionProvider", True, True),
        ("CUDAExecutionProvider", False, False),
        ("WebGpuExecutionProvider", True, False),
    ],
)
def test_libraries_of_cuda_that_are_packages_are_loaded(
    provider: str,
    is_installed: bool,
    is_called: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = object() if is_installed else None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    calls: list[bool] = []

    def preload() -> None:
        sys.stdout.write("Failed to load libcudnn.so.9")
        calls.append(True)

    load_libraries(types.SimpleNamespace(preload_dlls=preload), provider)
    assert (bool(calls), capsys.readouterr().out) == (is_called, "")


def test_what_brings_the_libraries_of_cuda_is_said() -> None:
    session = types.SimpleNamespace(get_providers=lambda: ["CPUExecutionProvider"])
    with pytest.raises(BackendError, match=r"pip install 'onnxruntime-gpu\[cuda,cudnn\]'"):
        require_provider(session, "CUDAExecutionProvider")
    with pytest.raises(BackendError, match="install them, or ask for that device"):
        require_provider(session, "TensorrtExecutionProvider")


def test_each_table_of_figures_leaves_the_other_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "RESULTS.md"
    monkeypatch.setattr(results, "RESULTS", page)
    results.write(["# Benchmarks", "", "old"])
    results.write_gpu(["on a device", "", "| a |"])
    results.write(["# Benchmarks", "", "new"])
    assert page.read_text() == "# Benchmarks\n\nnew\n## On a GPU\n\non a device\n\n| a |\n"


EVENTS = [
    ("Node", "a_kernel_time", {"provider": "GPU", "op_name": "MatMul"}),
    ("Node", "a_kernel_time", {"provider": "GPU", "op_name": "MatMul"}),
    ("Node", "a_fence_before", {"provider": "GPU", "op_name": "MatMul"}),
    ("Node", "b_kernel_time", {"provider": "GPU", "op_name": "MatMul"}),
    ("Node", "c_kernel_time", {"provider": "CPU", "op_name": "Loop"}),
    ("Node", "d_kernel_time", {"provider": "GPU", "op_name": "MemcpyToHost"}),
    ("Node", "e_kernel_time", {"provider": "GPU", "op_name": "MemcpyFromHost"}),
    ("Node", "e_kernel_time", {"provider": "GPU", "op_name": "MemcpyFromHost"}),
    ("Session", "model_run", {}),
]


def test_what_a_profile_says(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    keys = ("cat", "name", "args")
    path.write_text(json.dumps([dict(zip(keys, event, strict=True)) for event in EVENTS]))
    placed = read_profile(path)
    assert placed == Placement(
        {"GPU": {"MatMul": 2}, "CPU": {"Loop": 1}}, {"GPU": 3, "CPU": 1}, 1, 2
    )
    assert placed.to_dict() == {
        "providers": {
            "CPU": {"nodes": 1, "runs": 1, "operators": {"Loop": 1}},
            "GPU": {"nodes": 2, "runs": 3, "operators": {"MatMul": 2}},
        },
        "copies": {"to_host": 1, "to_device": 2},
    }


def test_the_placement_of_a_model_that_takes_lists() -> None:
    """The provider's full name stands for a device, here the host itself."""
    model = parse("""g (seq(float[N]) xs) => (seq(float[N]) ys) { ys = SequenceMap (xs)
        <body = b (float[N] x) => (float[N] y) { y = Relu (x) }> }""")
    after = rewriter.optimize(model, tensor_io=True, uniform=["xs"])
    session = open_session(after, device="CPUExecutionProvider")
    placed = placement(session, {"xs": [np.float32([1])] * 2})
    assert placed is not None
    assert placed.nodes == {"CPUExecutionProvider": {"Relu": 1}}
    assert placement(open_session(after, "reference"), {"xs": []}) is None


@pytest.mark.parametrize(
    ("provider", "text", "feed", "expected"),
    [
        ("WebGpuExecutionProvider", RELU, np.zeros(2, np.float32), True),
        ("CUDAExecutionProvider", RELU, np.zeros(2, np.float32), True),
        ("CPUExecutionProvider", RELU, np.zeros(2, np.float32), False),
        ("WebGpuExecutionProvider", RELU, np.zeros(0, np.float32), False),
        (
            "WebGpuExecutionProvider",
            "g (string[N] x) => (string[N] y) { y = Identity (x) }",
            np.array(["a"], object),
            False,
        ),
        (
            "WebGpuExecutionProvider",
            "g (float[N] x) => (seq(float[N]) y) { y = SequenceConstruct (x) }",
            np.zeros(2, np.float32),
            False,
        ),
    ],
)
def test_what_can_be_bound(provider: str, text: str, feed: Any, expected: bool) -> None:
    import onnxruntime

    data = to_proto(rewriter.model_files.models.take(parse(text)).model).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    assert can_bind(session, provider, {"x": feed}) is expected
