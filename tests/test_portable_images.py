"""Models over images of any size for the target ``portable``, without a promise."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import onnx
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.feeding.feeds import read_expected, read_feeds
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models, on_disk
from rewriter.proof.compare import compare
from rewriter.proof.engines import plain_expansion
from tests.test_portable_zoo import assert_is_portable

MODELS = pathlib.Path(__file__).parents[1] / "models"
IMAGES = {
    "demo/pad_to_largest.onnxtxt": 3,
    "demo/resize_crop.onnxtxt": 3,
    "demo/resnet50_preprocessing.onnxtxt": 3,
    "exported/seqmap_resize_crop.onnx": 3,
    "exported/seqmap_resnet50_preproc_function.onnx": 3,
    "exported/spox_seqmap_images.onnx": 3,
    "pipelines/seqmap_imagenet_tutorial_classifier.onnx": 3,
}
OF_ANY_CHANNELS = ["demo/resize_crop.onnxtxt", "text/pad_behind.onnxtxt"]
CASES = [*IMAGES.items(), *((name, None) for name in OF_ANY_CHANNELS)]
"""Models, and the number of channels; None where each image has its own."""
WITH_A_NETWORK = ["pipelines/seqmap_imagenet_tutorial_classifier.onnx"]
"""Products sum in another order for a batch than for one image, on some processors."""


def as_given(name: str, channels: int | None) -> onnx.ModelProto:
    if not name.endswith("txt"):
        return onnx.load(MODELS / name)
    text = (MODELS / name).read_text("utf-8")
    if channels is None:
        text = re.sub(r"(uint8\[\w+, \w+, )3", r"\1C", text)
    return onnx.parser.parse_model(text)


def drawn(count: int, channels: int | None, most: int, dtype: type) -> list[np.ndarray]:
    rng = np.random.default_rng(count)
    shapes = rng.integers(1, [most, most, 5], (count, 3))
    shapes[:, 2] = channels or shapes[:, 2]
    return [rng.integers(0, 256, shape).astype(dtype) for shape in shapes]


def assert_same_image(name: str, wanted: np.ndarray, found: np.ndarray) -> None:
    """Equal to the last bit, where nothing but the image itself is computed."""
    rtol = 1e-5 if name in WITH_A_NETWORK else 0
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=0)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "channels"), CASES, ids=str)
def test_images_of_any_size_are_portable(
    name: str, channels: int | None, tmp_path: pathlib.Path
) -> None:
    given = as_given(name, channels)
    before = models.take(given).model
    after = rewriter.optimize(given, target="portable", tensor_io=True)
    out = tmp_path / "out.onnx"
    rewriter.save(after, out)
    assert_is_portable(out)
    io = TensorIo.read(on_disk.load(out))
    old = backends.open_session(plain_expansion(given), "onnxruntime")
    new = backends.open_session(after, "onnxruntime")
    dtype = before.graph.inputs[0].dtype
    assert dtype is not None
    for count, most in [(1, 40), (2, 300), (16, 60)]:
        feeds = {before.graph.inputs[0].name: drawn(count, channels, most, dtype.numpy())}
        wanted, found = old.run(feeds), outputs_as_lists(io, new.run(feeds))
        assert wanted.keys() == found.keys()
        for key, values in wanted.items():
            for one, other in zip(values, found[key], strict=True):
                assert_same_image(name, one, other)
    nothing = new.run({before.graph.inputs[0].name: drawn(0, channels or 1, 9, dtype.numpy())})
    assert all(len(value) == 0 for value in outputs_as_lists(io, nothing).values())


def test_sizes_are_counts() -> None:
    """No way around large numbers is taken for the largest size of a batch."""
    after = rewriter.optimize(
        as_given("demo/pad_to_largest.onnxtxt", 3), target="portable", tensor_io=True
    )
    assert "TopK" not in {node.op_type for node in after.graph.node}


PIPELINES = [
    "exported/ts_images_normalized",
    "exported/ts_images_pyramid",
    "exported/ts_images_soft_argmax",
    "exported/ts_images_statistics",
    "exported/ts_semseg_postprocess",
    "pipelines/tf_od_preprocess_ssd",
    "pipelines/ts_crop_classify",
]


@pytest.mark.sampled
@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_of_images_are_portable_and_right(name: str, tmp_path: pathlib.Path) -> None:
    path = MODELS / f"{name}.onnx"
    after = rewriter.optimize(path, target="portable", tensor_io=True)
    rewriter.save(after, tmp_path / "out.onnx")
    assert_is_portable(tmp_path / "out.onnx")
    io = TensorIo.read(models.take(after).model)
    session = backends.open_session(after, "onnxruntime")
    for vector in sorted(path.parent.glob(f"{path.stem}*.npz")):
        expected = read_expected(vector, path)
        assert expected is not None
        found = outputs_as_lists(io, session.run(read_feeds(vector, path)))
        difference = compare(expected, found, rtol=2e-3, atol=2e-4)
        assert difference.equal, f"{vector.name}: {difference.message}"


def test_images_joined_along_an_axis_that_none_differs_along() -> None:
    """The sizes are computed, so that they are found equal when the model runs."""
    given = as_given("text/letterbox.onnxtxt", 3)
    after = rewriter.optimize(given, target="portable", tensor_io=True)
    io = TensorIo.read(models.take(after).model)
    old = backends.open_session(plain_expansion(given), "onnxruntime")
    new = backends.open_session(after, "onnxruntime")
    rng = np.random.default_rng(0)
    for count in (1, 2, 7):
        sizes = rng.integers(1, 150, (count, 2))
        feeds = {"images": [rng.random((3, *size), np.float32) for size in sizes]}
        found = outputs_as_lists(io, new.run(feeds))
        np.testing.assert_array_equal(found["batch"], old.run(feeds)["batch"])


@pytest.mark.full
@pytest.mark.parametrize(("name", "channels"), CASES, ids=str)
def test_images_of_very_different_sizes(name: str, channels: int | None) -> None:
    """From one pixel to 900 x 700, one batch of 50."""
    given = as_given(name, channels)
    before = models.take(given).model
    after = rewriter.optimize(given, target="portable", tensor_io=True)
    io = TensorIo.read(models.take(after).model)
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(0, np.log([900, 700]), (50, 2))).astype(int)
    sizes[0], sizes[1] = (1, 1), (900, 700)
    (value,) = before.graph.inputs
    assert value.dtype is not None
    shapes = [(*size, channels or int(rng.integers(1, 4))) for size in sizes]
    images = [rng.integers(0, 256, shape).astype(value.dtype.numpy()) for shape in shapes]
    wanted = backends.open_session(plain_expansion(given), "onnxruntime").run({value.name: images})
    session = backends.open_session(after, "onnxruntime")
    # Images that are that different are fed in parts, so that padding takes no gigabytes.
    for key, values in wanted.items():
        is_of_batch = name.endswith(("pad_to_largest.onnxtxt", "pad_behind.onnxtxt"))
        part = 50 if is_of_batch else 10
        for start in range(0, 50, part):
            found = outputs_as_lists(io, session.run({value.name: images[start : start + part]}))
            for one, other in zip(values[start : start + part], found[key], strict=True):
                assert_same_image(name, one, other)
