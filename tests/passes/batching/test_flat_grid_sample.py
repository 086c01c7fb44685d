"""GridSample of images of any size."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.images import FlatCase, prove_flat, prove_nothing

POINTS = (
    "a = Constant <value = float[5,1] {-1.3, -0.8, 0.0, 0.45, 1.1}> () "
    "c = Constant <value = float[1,4] {-1.0, -0.31, 0.3, 1.0}> () ka = Constant <value_ints = "
    "[0, 3]> () s = Constant <value_ints = [5, 4]> () a5 = Expand (a, s) c5 = Expand (c, s) "
    "a4 = Unsqueeze (a5, ka) c4 = Unsqueeze (c5, ka) g = Concat <axis = 3> (c4, a4) "
)
"""The same points for all images."""
OWN = (
    POINTS + "all = ReduceMean <keepdims = 0> (x) big = Constant <value_float = 0.1> () "
    "by = Mul (all, big) own = Add (g, by) "
)
"""Points that each image has of its own."""
ANY = (
    "sx = Shape (x) i2 = Constant <value_int = 2> () i3 = Constant <value_int = 3> () "
    "h = Gather (sx, i2) w = Gather (sx, i3) zero = Constant <value_int = 0> () "
    "one = Constant <value_int = 1> () ry = Range (zero, h, one) rx = Range (zero, w, one) "
    "fy = Cast <to = 1> (ry) fx = Cast <to = 1> (rx) part = Constant <value_float = 0.21> () "
    "py = Mul (fy, part) px = Mul (fx, part) off = Constant <value_float = 1.0> () "
    "oy = Sub (py, off) ox = Sub (px, off) e1 = Constant <value_ints = [1]> () "
    "uy = Unsqueeze (oy, e1) h1 = Shape <start = 2, end = 3> (x) w1 = Shape <start = 3, end = 4> "
    "(x) hw = Concat <axis = 0> (h1, w1) gy = Expand (uy, hw) gx = Expand (ox, hw) "
    "k03 = Constant <value_ints = [0, 3]> () gy4 = Unsqueeze (gy, k03) gx4 = Unsqueeze (gx, k03) "
    "any = Concat <axis = 3> (gx4, gy4) "
)
"""As many points as there are pixels."""
GIVEN = {"element": "float[1,3,H,W]", "low": -1.0, "high": 1.0, "most": 12}
FIXED = {"result": "float[1,3,5,4]", "stacked": True, **GIVEN}

CASES = [
    *(
        FlatCase(
            f"{mode}, {padding}, {'corners' if aligned else 'halves'}",
            POINTS + f'y = GridSample <mode = "{mode}", padding_mode = "{padding}", '
            f"align_corners = {aligned}> (x, g)",
            tolerance=2e-6,
            **FIXED,
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for aligned in (0, 1)
    ),
    FlatCase("linear of newer opsets", POINTS + 'y = GridSample <mode = "linear"> (x, g)',
             opset=20, tolerance=2e-6, **FIXED),
    FlatCase("cubic of newer opsets", POINTS + 'y = GridSample <mode = "cubic"> (x, g)',
             opset=20, tolerance=2e-6, **FIXED),
    FlatCase("points of each", OWN + "y = GridSample (x, own)", tolerance=2e-6, **FIXED),
    FlatCase("cubic, points of each", OWN + 'y = GridSample <mode = "bicubic"> (x, own)',
             tolerance=2e-6, **FIXED),
    FlatCase("as many points as pixels", ANY + "y = GridSample (x, any)", result="float[1,3,h,w]",
             tolerance=2e-6, **GIVEN),
    FlatCase("pixels in front", "t = Transpose <perm = [2, 0, 1]> (x) z = Constant <value_ints = "
             "[0]> () u = Unsqueeze (t, z) " + POINTS + "q = GridSample <align_corners = 1> (u, g)"
             " y = Squeeze (q, z)", result="float[3,5,4]", stacked=True, tolerance=2e-6, high=1.0),
    FlatCase("of a crop", "e0 = Constant <value_ints = [1]> () e9 = Constant <value_ints = [99]> "
             "() e2 = Constant <value_ints = [2]> () v = Slice (x, e0, e9, e2) " + POINTS
             + "y = GridSample (v, g)", tolerance=2e-6, least=2, **FIXED),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.sampled
def test_points_that_are_no_numbers(mode: str, padding: str) -> None:
    """Those of an image of one row or column are 0 / 0."""
    nodes = ANY.replace(
        "part = Constant <value_float = 0.21> ()",
        "lh = Sub (h, one) lw = Sub (w, one) lhf = Cast <to = 1> (lh) lwf = Cast <to = 1> (lw)",
    )
    nodes = nodes.replace("Mul (fy, part)", "Div (fy, lhf)").replace(
        "Mul (fx, part)", "Div (fx, lwf)"
    )
    nodes += (
        f'y = GridSample <mode = "{mode}", padding_mode = "{padding}", align_corners = 1> (x, any)'
    )
    case = FlatCase("no numbers", nodes, result="float[1,3,h,w]", tolerance=2e-6, **GIVEN)
    shapes = [(1, 4), (5, 1), (1, 1), (3, 2)]
    rng = np.random.default_rng(0)
    images = [rng.random((1, 3, *shape)).astype(np.float32) for shape in shapes]
    prove_flat(case, feeds=[images])


def test_as_many_nearest_pixels_as_there_are() -> None:
    nodes = ANY + 'y = GridSample <mode = "nearest"> (x, any)'
    prove_flat(FlatCase("nearest", nodes, result="float[1,3,h,w]", **GIVEN), counts=(3,))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_images_of_any_size(case: FlatCase) -> None:
    prove_flat(case, counts=(1, 6))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES[::5], ids=str)
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)
