"""Operators that fail in onnx's own evaluator on numbers without axes, or on no rows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter.backends import BackendError, open_session
from rewriter.evaluator.reference import ReferenceEvaluator
from rewriter.evaluator.reference_operator import EvaluationError
from tests.rewriter.evaluator.evaluating import assert_close, f32

HEAD = '<ir_version: 10, opset_import: ["": 22, "ai.onnx.ml": 3]>\n'
X = f32([1, -2, 3], [0, 0, 0], [-1, 1, 0])
IMAGES = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
BOXES = f32([[0, 0, 2, 2], [0, 0, 2, 1.9], [3, 3, 4, 4], [0, 0, 1, 1]])
SCORES = f32([[0.5, 0.9, 0.3, 0.05]])
LIMITS = (
    "m = Constant <value = int64{dim} {{{most}}}> () o = Constant <value = float{dim} {{0.4}}> ()"
)
KEPT = "g (float[1,N,4] b, float[1,1,N] s) => (int64[K,3] y) {{ {limits} y = NonMaxSuppression ({reads}) }}"


def _agree(text: str, feeds: dict[str, np.ndarray]) -> None:
    model = onnx.parser.parse_model(HEAD + text)
    found = ReferenceEvaluator(model).run(None, feeds)
    assert_close(found, list(open_session(model).run(feeds).values()), text)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("p", [1, 2])
def test_vectors_of_length_one(p: int, axis: int) -> None:
    call = f"LpNormalization <p = {p}, axis = {axis}> (x)"
    for x in (X, X[:0] if axis else X[:, :0]):
        _agree(f"g (float[N,M] x) => (float[N,M] y) {{ y = {call} }}", {"x": x})


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_rows_of_length_one(norm: str) -> None:
    text = (
        f'g (float[N,3] x) => (float[N,3] y) {{ y = ai.onnx.ml.Normalizer <norm = "{norm}"> (x) }}'
    )
    for x in (X, X[:0]):
        _agree(text, {"x": x})


def test_means_of_images() -> None:
    text = "g (float[N,3,H,W] x) => (float[N,3,1,1] y) { y = GlobalAveragePool (x) }"
    for x in (IMAGES, IMAGES[:0]):
        _agree(text, {"x": x})
    model = onnx.parser.parse_model(HEAD + text)
    for nothing in (IMAGES[..., :0], IMAGES[:, :, :0]):
        with pytest.raises(EvaluationError, match="has no pixels"):
            ReferenceEvaluator(model).run(None, {"x": nothing})
        with pytest.raises(BackendError, match="GlobalAveragePool"):
            open_session(model).run({"x": nothing})


def test_points_of_images() -> None:
    text = "g (float[N,3,H,W] x, float[N,P,Q,2] g) => (float[N,3,P,Q] y) { y = GridSample (x, g) }"
    grid = np.random.default_rng(1).uniform(-1, 1, (2, 5, 6, 2)).astype(np.float32)
    for count, points in ((2, 5), (0, 5), (2, 0)):
        _agree(text, {"x": IMAGES[:count], "g": grid[:count, :points]})
    model = onnx.parser.parse_model(HEAD + text)
    with pytest.raises(EvaluationError, match=r"an image of shape \(3, 0, 5\) has no pixels"):
        ReferenceEvaluator(model).run(None, {"x": IMAGES[:, :, :0], "g": grid})


@pytest.mark.parametrize("dim", ["", "[1]"], ids=["number", "vector"])
@pytest.mark.parametrize("most", [2, 0])
@pytest.mark.parametrize(
    "reads", ["b, s", "b, s, m", "b, s, m, o", "b, s, m, o, o", "b, s, m, , o"]
)
def test_boxes_that_are_kept(reads: str, most: int, dim: str) -> None:
    text = KEPT.format(limits=LIMITS.format(dim=dim, most=most), reads=reads)
    for count in (4, 0):
        _agree(text, {"b": BOXES[:, :count], "s": SCORES[..., :count]})


def test_each_box_has_a_score() -> None:
    text = KEPT.format(limits=LIMITS.format(dim="", most=2), reads="b, s, m")
    model = onnx.parser.parse_model(HEAD + text)
    with pytest.raises(
        EvaluationError, match="NonMaxSuppression 'y': there are 3 boxes and 4 sco"
    ):
        ReferenceEvaluator(model).run(None, {"b": BOXES[:, :3], "s": SCORES})
