"""Models of exporters, rewritten for a device, are right there on every vector.

On CUDA one matrix product is not another's to the last bit; NVIDIA_TF32_OVERRIDE=0 keeps 24 bits.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter.backends import BackendError, PlacementError, open_session
from rewriter.backends.onnxruntime import OnnxruntimeSession
from rewriter.backends.session import has_nothing
from rewriter.errors import ModelError
from rewriter.feeding.feeds import read_expected, read_feeds
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files.models import take
from rewriter.proof.compare import compare
from rewriter.proof.engines import plain_expansion
from rewriter.targets import TargetError
from tests import software_gpu
from tests.test_pipelines import PIPELINES
from tests.test_portable_images import IMAGES, as_given, drawn
from tests.test_portable_images import MODELS as MODELS_OF_IMAGES
from tests.test_zoo import BAD_SHAPES, EXPORTED, by_name

# Shapes that the exporter declared, and that the vectors do not have.
UNLIKE = {BAD_SHAPES, "ts_filter_negative", "ts_listcomp_relu"}
MODELS = [path for path in (*EXPORTED, *PIPELINES) if path.stem not in UNLIKE]


@pytest.fixture(
    params=[
        pytest.param("webgpu", marks=pytest.mark.full),
        pytest.param("webgpu-int64", marks=pytest.mark.full),
        pytest.param("cuda", marks=pytest.mark.cuda),
    ]
)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if name.startswith("webgpu"):
        if reason := software_gpu.why_not():
            pytest.skip(reason)
        software_gpu.start()
    elif os.environ.get("NVIDIA_TF32_OVERRIDE") != "0":
        pytest.skip("cuBLAS reads NVIDIA_TF32_OVERRIDE=0 when the process begins")
    return name


@pytest.mark.quick
@pytest.mark.parametrize("tensor_io", [False, True], ids=["given ends", "tensors"])
@pytest.mark.parametrize("path", MODELS, ids=by_name)
def test_a_rewritten_model_is_right_on_the_device(
    path: Path, tensor_io: bool, device: str
) -> None:
    target = f"onnxruntime-{device}"
    try:
        result = rewriter.rewrite(path, target=target, tensor_io=tensor_io)
    except (TargetError, ModelError) as error:
        pytest.skip(str(error))
    passed = TensorIo.read(take(result.model).model)
    try:
        session = open_session(result.model, device=device)
    except PlacementError as error:
        pytest.skip(str(error))
    for vector in sorted(path.parent.glob(f"{path.stem}.*npz")):
        expected = read_expected(vector, path)
        assert expected is not None
        feeds = read_feeds(vector, path)
        if device.startswith("webgpu") and has_nothing(feeds):
            continue  # some of its kernels fail on tensors without elements: docs/guide/limits.md
        found = outputs_as_lists(passed, session.run(feeds))
        difference = compare(expected, found, rtol=2e-3, atol=2e-4)
        assert difference.equal, f"{vector.name}: {difference.message}"


@pytest.mark.parametrize(("name", "channels"), IMAGES.items(), ids=str)
def test_images_of_any_size_are_right_on_the_device(name: str, channels: int, device: str) -> None:
    given = as_given(name, channels)
    after = rewriter.optimize(given, target=f"onnxruntime-{device}", tensor_io=True)  # type: ignore[arg-type]
    new, passed = take(after).model, open_session(after, device=device)
    old = open_session(plain_expansion(given), "onnxruntime")
    (value,) = take(given).model.graph.inputs
    assert value.dtype is not None
    # All of it on a software adapter takes minutes for larger ones.
    sizes = [(1, 12), (2, 9)] if device == "webgpu-int64" else [(1, 40), (2, 90), (7, 20)]
    for count, most in sizes:
        feeds = {value.name: drawn(count, channels, most, value.dtype.numpy())}
        found = outputs_as_lists(TensorIo.read(new), passed.run(feeds))
        difference = compare(old.run(feeds), found, rtol=1e-5, atol=1e-6)
        assert difference.equal, f"{count} images: {difference.message}"


@pytest.mark.long
@pytest.mark.parametrize(("name", "channels"), IMAGES.items(), ids=str)
def test_images_of_any_size_leave_no_node_on_the_host(name: str, channels: int) -> None:
    """With `session.disable_cpu_ep_fallback`."""
    if reason := software_gpu.why_not():
        pytest.skip(reason)
    software_gpu.start()
    after = rewriter.optimize(
        as_given(name, channels), target="onnxruntime-webgpu-int64", tensor_io=True
    )
    assert OnnxruntimeSession(after, None, "webgpu-int64", whole=True)


LISTS = [
    *(f"exported/ts_images_{kind}" for kind in ("normalized", "pyramid", "soft_argmax")),
    "exported/ts_images_statistics",
    *(
        pytest.param(name, marks=pytest.mark.full)
        for name in (
            "exported/ts_semseg_postprocess",
            "pipelines/tf_od_preprocess_ssd",
            "pipelines/ts_crop_classify",
        )
    ),
]
"""Lists of images that TorchScript maps, and images that ``tf.map_fn`` resizes."""


@pytest.mark.long
@pytest.mark.parametrize("name", LISTS)
def test_lists_of_images_leave_no_node_on_the_host(name: str) -> None:
    """With `session.disable_cpu_ep_fallback`; what they compute is right there."""
    if reason := software_gpu.why_not():
        pytest.skip(reason)
    software_gpu.start()
    path = MODELS_OF_IMAGES / f"{name}.onnx"
    after = rewriter.optimize(path, target="onnxruntime-webgpu-int64", tensor_io=True)
    session = open_session(after, device="webgpu-int64", whole=True)
    for vector in sorted(path.parent.glob(f"{path.stem}.*npz")):
        feeds, expected = read_feeds(vector, path), read_expected(vector, path)
        assert expected is not None
        if has_nothing(feeds):
            continue
        found = outputs_as_lists(TensorIo.read(take(after).model), session.run(feeds))
        difference = compare(expected, found, rtol=2e-3, atol=2e-4)
        assert difference.equal, f"{vector.name}: {difference.message}"


def test_webgpu_spreads_no_scalar_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a row of the fill is spread from a vector."""
    if reason := software_gpu.why_not():
        pytest.skip(reason)
    software_gpu.start()
    text = """<ir_version: 9, opset_import: ["" : 18]>
        g (uint8%s x, int64[2] to) => (uint8[P,C] y) { y = Expand (x, to) }"""
    feeds = {"to": np.array([1, 3])}
    vector = open_session(onnx.parser.parse_model(text % "[1]"), device="webgpu")
    assert vector.run({"x": np.full(1, 7, np.uint8), **feeds})["y"].tolist() == [[7, 7, 7]]
    scalar = open_session(onnx.parser.parse_model(text % ""), device="webgpu")
    with pytest.raises(BackendError, match="while running Expand node"):
        scalar.run({"x": np.uint8(7), **feeds})
