"""Models over images: as many as 0, 1, 2, 16, from one pixel to 900 x 700."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.errors import BackendError
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from rewriter.proof.compare import compare
from rewriter.proof.engines import plain_expansion
from tests.test_portable_images import CASES, MODELS, as_given

_BATCHES = [
    (count, n) for count, several in ((0, 1), (1, 4), (2, 3), (16, 3)) for n in range(several)
]
"""How many images each batch has, and its number among those: 58 sizes in all."""

_HIGHEST, _WIDEST = 900, 700

Drawn = Callable[[int, np.random.Generator], dict[str, Any]]


def _sizes(count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw sizes of images; of 16, the first is the smallest and the second the largest."""
    sizes = np.exp(rng.uniform(0, np.log([_HIGHEST, _WIDEST]), (count, 2))).astype(np.int64)
    if count > 2:
        sizes[:2] = (1, 1), (_HIGHEST, _WIDEST)
    return sizes


def _lists(*names: str, dtype: type = np.float32) -> Drawn:
    def draw(count: int, rng: np.random.Generator) -> dict[str, Any]:
        return {
            name: [rng.integers(0, 256, (3, *size)).astype(dtype) for size in _sizes(count, rng)]
            for name in names
        }

    return draw


def _maps(count: int, rng: np.random.Generator) -> dict[str, Any]:
    return {"x": rng.random((count, 4, 12, 12), np.float32), "sizes": _sizes(count, rng)}


def _batch(count: int, rng: np.random.Generator) -> dict[str, Any]:
    ((height, width),) = _sizes(1, rng)
    return {"images": rng.integers(0, 256, (count, height, width, 3)).astype(np.uint8)}


def _boxes(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Draw boxes, from one pixel to all of an image."""
    sizes = _sizes(count, rng)
    first = rng.integers(0, np.array([_HIGHEST, _WIDEST]) - sizes + 1)
    return {
        "image": rng.random((3, _HIGHEST, _WIDEST), np.float32),
        "boxes": np.concatenate([first[:, ::-1], (first + sizes)[:, ::-1]], axis=1),
    }


PIPELINES: dict[str, tuple[Drawn, float]] = {
    "exported/ts_images_normalized": (_lists("images", dtype=np.uint8), 0.0),
    "exported/ts_images_pyramid": (_lists("small", "large"), 1e-5),
    "exported/ts_images_soft_argmax": (_lists("images"), 1e-5),
    "exported/ts_images_statistics": (_lists("images"), 1e-5),
    "exported/ts_semseg_postprocess": (_maps, 0.0),
    "pipelines/tf_od_preprocess_ssd": (_batch, 1e-5),
    "pipelines/ts_crop_classify": (_boxes, 1e-5),
}
"""What each is fed, and how far results may differ: sums are rounded otherwise."""


@pytest.mark.full
@pytest.mark.parametrize(("count", "batch"), _BATCHES)
@pytest.mark.parametrize(("name", "channels"), CASES, ids=str)
def test_lists_of_images(name: str, channels: int | None, count: int, batch: int) -> None:
    given = as_given(name, channels)
    (value,) = models.take(given).model.graph.inputs
    assert value.dtype is not None
    rng = np.random.default_rng([count, batch])
    shapes = [(*size, channels or int(rng.integers(1, 4))) for size in _sizes(count, rng)]
    images = [rng.integers(0, 256, shape).astype(value.dtype.numpy()) for shape in shapes]
    _assert_equal(given, {value.name: images}, 0.0, is_empty=not count)


@pytest.mark.full
@pytest.mark.parametrize(("count", "batch"), _BATCHES)
@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_of_images(name: str, count: int, batch: int) -> None:
    draw, tolerance = PIPELINES[name]
    feeds = draw(count, np.random.default_rng([count, batch]))
    _assert_equal(MODELS / f"{name}.onnx", feeds, tolerance, is_empty=not count)


def _assert_equal(given: Any, feeds: dict[str, Any], tolerance: float, *, is_empty: bool) -> None:
    after = rewriter.optimize(given, target="portable", tensor_io=True)
    found = backends.open_session(after, "onnxruntime").run(feeds)
    lists = outputs_as_lists(TensorIo.read(models.take(after).model), found)
    try:
        wanted = backends.open_session(plain_expansion(given), "onnxruntime").run(feeds)
    except BackendError:
        # It joins or stacks no images, which is an error of operators on sequences.
        assert is_empty
        assert all(len(value) == 0 for value in lists.values())
        return
    difference = compare(wanted, lists, rtol=tolerance, atol=tolerance)
    assert difference.equal, difference.message
