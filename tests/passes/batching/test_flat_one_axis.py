"""Resize of one axis of images of any size: onnxruntime sums along the axes beside it, too."""

from __future__ import annotations

import pytest

from tests.passes.batching.images import FlatCase, prove_flat, prove_nothing

MODES = {
    "nearest": 'mode = "nearest"',
    "linear": 'mode = "linear"',
    "corners": 'mode = "linear", coordinate_transformation_mode = "align_corners"',
    "antialias": 'mode = "linear", antialias = 1',
    "cubic": 'mode = "cubic"',
}
IMAGES = ("H,W", "H,W,3", "3,H,W", "1,3,H,W", "1,H,W,3")


def one_axis(mode: str, kind: str, image: str, letter: str, amount: str) -> FlatCase:
    """Make a case of a Resize of one axis, to a size or by a scale."""
    axis = image.split(",").index(letter)
    given = f"value_ints = [{amount}]" if "." not in amount else f"value_floats = [{amount}]"
    inputs = "x,,,s" if "." not in amount else "x,,s"
    result = image.replace(letter, "9" if amount == "9" else letter.lower())
    return FlatCase(
        f"{mode} of {kind}[{image}] along {letter} by {amount}",
        f"s = Constant <{given}> () y = Resize <{MODES[mode]}, axes = [{axis}]> ({inputs})",
        f"{kind}[{image}]",
        f"{kind}[{result}]",
        tolerance=1e-6 if mode == "antialias" and kind == "float" else 0.0,
        most=14,
    )


CASES = [
    one_axis(mode, kind, image, letter, amount)
    for mode in MODES
    for kind in ("float", "uint8")
    for image in IMAGES
    for letter in "HW"
    for amount in ("9", "1.6")
    if mode != "cubic" or (kind == "float" and image in ("H,W", "1,3,H,W"))
]
BESIDE = FlatCase(
    "what an image keeps is as large as before",
    f"s = Constant <value_ints = [9]> () y0 = Resize <{MODES['linear']}, axes = [1]> (x,,,s) "
    f"k = Constant <value_ints = [1]> () q = ReduceMax (x, k) y = Sub (y0, q)",
    "float[H,W,3]",
    "float[H,9,3]",
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_axis(case: FlatCase) -> None:
    prove_flat(case)


def test_rows_that_stay() -> None:
    prove_flat(BESIDE)


@pytest.mark.parametrize("case", CASES[::12], ids=str)
@pytest.mark.long
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)
