"""CenterCropPad along an axis that all samples have in one size, while they differ along others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.images import FlatCase, drawn, prove_flat, prove_nothing

pytestmark = pytest.mark.quick


def crops(name: str, *sizes: int, axis: int, element: str, before: str = "", **others: object
          ) -> FlatCase:  # fmt: skip
    """Return crops and pads, one behind the other, of ``x``, or of ``r`` that nodes before make."""
    value, text = "r" if before else "x", before
    for at, size in enumerate(sizes):
        text += (
            f"t{at} = Constant <value_ints = [{size}]> () "
            f"v{at} = CenterCropPad <axes = [{axis}]> ({value}, t{at}) "
        )
        value = f"v{at}"
    result = f"float[{', '.join('abcd'[: element.count(',') + 1])}]"
    return FlatCase(name, text + f"y = Neg ({value})", element, result, **others)  # type: ignore[arg-type]


RESIZED = (
    'f = Constant <value_floats = [2.0, 1.5]> () r = Resize <axes = [0, 1], mode = "{}"> (x,,f) '
)
CASES = [
    crops("rows, padded", 18, axis=1, element="float[H,3]"),
    crops("rows, cropped", 2, axis=1, element="float[H,3]"),
    crops("rows, padded, then cropped", 18, 5, axis=1, element="float[H,3]"),
    crops("rows, cropped, then padded", 1, 6, axis=-1, element="float[H,3]"),
    crops("rows, cropped to what they have", 3, axis=1, element="float[H,3]"),
    crops("images, padded", 5, axis=2, element="float[H,W,3]"),
    crops("images, padded, then cropped", 5, 2, axis=2, element="float[H,W,3]"),
    crops("images, channels in front", 5, axis=0, element="float[3,H,W]"),
    crops("images, channels between", 2, 4, axis=1, element="float[H,3,W]"),
    crops("vectors of each pixel, padded, then cropped", 7, 2, axis=3, element="float[H,W,2,5]"),
    crops("images of double size", 5, axis=2, element="float[H,W,3]",
        before=RESIZED.format("nearest")),
    crops("images of double size, linear", 2, axis=2, element="float[H,W,3]",
        before=RESIZED.format("linear"), tolerance=2e-6),
    FlatCase("one ragged axis and the channels", "t = Constant <value_ints = [5, 4]> () "
        "y = CenterCropPad <axes = [0, 2]> (x, t)"),
    FlatCase("all axes, to sizes of each image", "h = Shape <end = 1> (x) "
        "t = Concat <axis = 0> (h, h) y = CenterCropPad <axes = [1, 2]> (x, t)",
        result="float[a,b,c]"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.long
def test_crops_beside_the_ragged_axes(case: FlatCase) -> None:
    prove_flat(case, feeds=[drawn(case, count, count) for count in (1, 3)])
    prove_nothing(case)


@pytest.mark.parametrize(("case", "shapes"), [
    (CASES[6], [(1, 1, 3), (2, 1, 3)]),
    (CASES[7], [(3, 1, 1), (3, 2, 1)]),
    (CASES[8], [(1, 3, 1), (2, 3, 1)]),
], ids=str)  # fmt: skip
def test_images_of_one_pixel(case: FlatCase, shapes: list[tuple[int, ...]]) -> None:
    prove_flat(case, feeds=[[np.ones(shape, np.float32) for shape in shapes]])
