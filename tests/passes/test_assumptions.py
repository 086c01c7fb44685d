"""What a fused map relies on: declared numbers, but only where a sample that breaks them fails."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter import RewriteError, explain, optimize, run

MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
agraph (seq(float[H,W,3]) images) => (float[B,4,4,C] batch)
{
  crops = SequenceMap (images) <body = b (float[H,W,3] image) => (float[4,4,C] other) {
    size = Constant <value_ints = [4, 4]> ()
    crop = CenterCropPad <axes = [0, 1]> (image, size)
    other = Tanh (crop)
  }>
  batch = ConcatFromSequence <axis = 0, new_axis = 1> (crops)
}
"""
PROVEN = MODEL.replace("[4, 4]", "[4, 4, 3]").replace("axes = [0, 1]", "axes = [0, 1, 2]")


def assumptions(text: str, **options: object) -> tuple[str, ...]:
    return explain(onnx.parser.parse_model(text), strategy="fuse", **options).assumptions


def test_a_declared_number_of_what_a_loop_collects_is_one() -> None:
    (assumption,) = assumptions(MODEL)
    assert "declared element types hold for 'crop'" in assumption
    assert assumption.endswith("is an error when the model runs")


def test_a_number_that_follows_from_the_operators_is_none() -> None:
    assert assumptions(PROVEN) == ()


def test_a_promise_is_named_instead() -> None:
    (assumption,) = assumptions(MODEL, uniform=["images"])
    assert assumption.endswith("'images' have one shape (promised)")


def test_a_sample_that_breaks_it_is_an_error() -> None:
    model = optimize(onnx.parser.parse_model(MODEL), strategy="fuse")
    images = [np.ones((5, 6, 3), np.float32), np.ones((7, 3, 3), np.float32)]
    assert run(model, {"images": images})["batch"].shape == (2, 4, 4, 3)
    images[1] = images[1][:, :, :2]
    with pytest.raises(RewriteError):
        run(model, {"images": images})
