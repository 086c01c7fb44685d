"""Resizing images and sampling them at other points."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.harness import (
    BATCHES,
    Case,
    constant,
    decline_of,
    ints,
    mapped,
    prove,
    shared,
)
from tests.passes.loops import model, read


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def pixels(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 255, shape).astype(np.uint8)


CHW, HWC, HW = mapped((3, 4, 6)), mapped((4, 6, 3)), mapped((4, 6))
NCHW, NDHW = mapped((2, 3, 4, 6)), mapped((1, 2, 3, 4, 5))
BYTES = mapped(pixels(5, 7, 3), pixels(5, 7, 3) // 2, 255 - pixels(5, 7, 3))


def scaled(
    mode: str, x: object, scales: object, opset: int = 18, attributes: str = "", **more: object
) -> Case:
    name = f"{mode} rank {len(x.samples[0].shape)} by {scales.kind} scales, opset {opset} {attributes}"
    text = f'y = Resize<mode="{mode}"{attributes}>(x, "", s)'
    return Case(name.strip(), text, {"x": x, "s": scales}, opset=opset, **more)


def sized(
    mode: str, x: object, sizes: object, opset: int = 18, attributes: str = "", **more: object
) -> Case:
    name = (
        f"{mode} rank {len(x.samples[0].shape)} to {sizes.kind} sizes, opset {opset} {attributes}"
    )
    text = f'y = Resize<mode="{mode}"{attributes}>(x, "", "", s)'
    return Case(name.strip(), text, {"x": x, "s": sizes}, opset=opset, **more)


SHRINK = "not_larger"
CROP = ', coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0'
CASES = [
    # To the nearest element: any rank, exact.
    scaled("nearest", mapped((5,)), constant(floats(2)), rtol=0, atol=0),
    scaled("nearest", CHW, constant(floats(1, 2, 1.5)), 17, rtol=0, atol=0),
    scaled("nearest", CHW, shared(floats(1, 2, 1.5)), 18, symbolic=True),
    scaled("nearest", NCHW, shared(floats(2, 1, 2, 0.5)), 19),
    scaled("nearest", NDHW, shared(floats(1, 1, 2, 2, 2)), 17),
    sized("nearest", CHW, constant(ints(3, 7, 5)), 17),
    sized("nearest", NCHW, shared(ints(2, 3, 9, 5)), 17),
    sized("nearest", HWC, shared(ints(7, 5)), 18, ", axes=[0, 1]"),
    sized("nearest", CHW, shared(ints(5, 7)), 19, ", axes=[-1, 1]"),
    sized(
        "nearest",
        CHW,
        constant(ints(3, 7, 7)),
        18,
        f', keep_aspect_ratio_policy="{SHRINK}", axes=[0, 1, 2]',
    ),
    sized("nearest", HW, constant(ints(8, 8)), 18, ', keep_aspect_ratio_policy="not_smaller"'),
    scaled(
        "nearest",
        BYTES,
        constant(floats(2, 2, 1)),
        18,
        ', nearest_mode="floor", coordinate_transformation_mode="asymmetric"',
    ),
    # Two axes.
    scaled("linear", HW, constant(floats(2, 0.5)), 17),
    scaled("linear", HW, shared(floats(2, 0.5)), 18, symbolic=True),
    sized("cubic", HW, shared(ints(7, 9)), 19),
    scaled("cubic", HW, constant(floats(0.5, 0.5)), 18, ", antialias=1"),
    # Two axes beside the channels, and three axes.
    scaled("linear", CHW, constant(floats(1, 2, 2)), 17),
    scaled("linear", CHW, shared(floats(1, 2, 2)), 17, symbolic=True),
    scaled("linear", CHW, constant(floats(2, 2, 2)), 18),
    scaled("linear", HWC, constant(floats(2, 1.5, 1)), 18),
    scaled("linear", HWC, constant(floats(0.5, 0.5)), 18, ", axes=[0, 1], antialias=1"),
    sized("linear", CHW, constant(ints(8, 5)), 18, ", axes=[1, 2]"),
    sized("linear", CHW, constant(ints(8, 5)), 18, ", axes=[-2, -1]", symbolic=True),
    sized(
        "linear",
        CHW,
        shared(ints(3, 8, 5)),
        19,
        ', coordinate_transformation_mode="align_corners"',
    ),
    sized(
        "linear",
        CHW,
        shared(ints(8, 8)),
        19,
        f', axes=[1, 2], keep_aspect_ratio_policy="{SHRINK}"',
    ),
    sized("linear", BYTES, constant(ints(9, 4)), 18, ", axes=[0, 1]", rtol=0, atol=0),
    sized("linear", BYTES, constant(ints(9, 4, 3)), 17, rtol=0, atol=0),
    scaled("linear", mapped((3, 8, 6)), constant(floats(1, 0.5, 0.5)), 19, ", antialias=1"),
    # A first axis that stays as it is.
    scaled("linear", NCHW, constant(floats(1, 1, 2, 2)), 17),
    scaled("linear", NCHW, shared(floats(1, 1, 2, 2)), 18, symbolic=True),
    sized("linear", NCHW, constant(ints(2, 3, 7, 5)), 17),
    sized("linear", NCHW, shared(ints(2, 3, 7, 5)), 18),
    sized("linear", NCHW, shared(ints(7, 5)), 18, ", axes=[2, 3]"),
    sized("linear", NCHW, shared(ints(7, 2, 5)), 19, ", axes=[2, 0, 3]"),
    sized(
        "linear",
        NCHW,
        shared(ints(7, 5)),
        18,
        f', axes=[2, 3], keep_aspect_ratio_policy="{SHRINK}"',
    ),
    sized("cubic", NCHW, constant(ints(2, 3, 7, 5)), 17, symbolic=True),
    scaled(
        "cubic", NCHW, constant(floats(1, 1, 0.5, 0.5)), 18, ", antialias=1, cubic_coeff_a=-0.5"
    ),
    scaled("linear", NDHW, constant(floats(1, 1, 2, 2, 2)), 18),
    scaled("linear", mapped((2, 4, 6, 3)), constant(floats(1, 2, 2, 1)), 18),
    # Crops.
    Case(
        "crop, opset 17",
        f'y = Resize<mode="linear"{CROP}>(x, r, "", s)',
        {"x": HW, "r": shared(floats(0.2, 0.1, 0.8, 1.2)), "s": constant(ints(3, 3))},
        opset=17,
    ),
    Case(
        "crop of axes, opset 18",
        f'y = Resize<mode="linear", axes=[2, 3]{CROP}>(x, r, "", s)',
        {"x": NCHW, "r": constant(floats(0.2, 0.1, 0.8, 1.2)), "s": shared(ints(3, 3))},
    ),
    Case(
        "crop to the nearest, opset 17",
        f'y = Resize<mode="nearest"{CROP}>(x, r, s)',
        {"x": CHW, "r": constant(floats(0, 0.2, 0.1, 1, 0.8, 1.2)), "s": shared(floats(1, 2, 2))},
        opset=17,
    ),
    Case(
        "a region that does not count",
        'y = Resize<mode="linear">(x, r, s)',
        {"x": CHW, "r": shared(floats()), "s": constant(floats(1, 2, 2))},
        opset=17,
    ),
    # Other operators on images.
    Case(
        "grid sample, all mapped",
        "y = GridSample(x, g)",
        {"x": NCHW, "g": mapped((2, 3, 5, 2), seed=1)},
    ),
    Case(
        "grid sample of a shared grid, symbolic",
        'y = GridSample<mode="linear", padding_mode="border", align_corners=1>(x, g)',
        {"x": NCHW, "g": shared(np.random.default_rng(3).random((2, 3, 5, 2)).astype(np.float32))},
        opset=20,
        symbolic=True,
    ),
    Case(
        "grid sample of a shared image, opset 17",
        'y = GridSample<mode="nearest", padding_mode="reflection">(x, g)',
        {"x": constant(NCHW.of(0)), "g": mapped((2, 3, 5, 2), seed=1)},
        opset=17,
    ),
    Case(
        "grid sample 3-d, opset 22",
        "y = GridSample(x, g)",
        {"x": NDHW, "g": mapped((1, 2, 3, 2, 3), seed=1)},
        opset=22,
    ),
    Case(
        "affine grid",
        "y = AffineGrid(t, s)",
        {"t": mapped((2, 2, 3)), "s": constant(ints(2, 3, 4, 5))},
        opset=20,
    ),
    Case(
        "affine grid 3-d, symbolic",
        "y = AffineGrid<align_corners=1>(t, s)",
        {"t": mapped((1, 3, 4)), "s": shared(ints(1, 3, 4, 5, 2))},
        opset=20,
        symbolic=True,
    ),
]


@BATCHES
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


DECLINES = [
    (
        Case(
            "affine grid of mapped sizes",
            "y = AffineGrid(t, s)",
            {"t": mapped((2, 2, 3)), "s": mapped(*[ints(2, 3, 4, 5)] * 3)},
            opset=20,
        ),
        ("AffineGrid", "batched-operand"),
    ),
    (
        Case("decoding", "y = ImageDecoder(x)", {"x": mapped((8,), dtype=np.uint8)}, opset=20),
        ("ImageDecoder", "data-dependent-shape"),
    ),
]


@pytest.mark.parametrize(
    ("case", "wanted"), DECLINES, ids=lambda x: str(x) if isinstance(x, Case) else ""
)
def test_rule_declines(case: Case, wanted: tuple[str, str]) -> None:
    assert wanted in decline_of(case)


def test_a_first_axis_that_is_resized_after_all_is_an_error() -> None:
    case = scaled("linear", NCHW, shared(floats(2, 1, 2, 2)))
    with pytest.raises(Exception, match="Resize"):
        prove(case, 3)


@pytest.mark.parametrize("inputs", ['x, "", "", z', 'x, "", s'], ids=["sizes", "scales"])
def test_channels_that_stay_as_they_are_stand_in_front_of_two_axes(inputs: str) -> None:
    found = read(
        model(
            f"""g (float[B,3,4,4] x0) => (float[B,3,8,8] y) {{
            t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
            shape = Shape (x0)  n = Gather (shape, zero)
            y = Loop (n, t) <body = b (int64 i, bool c) => (bool d, float[3,8,8] o) {{
                z = Constant <value = int64[3] {{3, 8, 8}}> ()
                s = Constant <value = float[3] {{1.0, 2.0, 2.0}}> ()
                d = Identity (c)  x = Gather (x0, i)
                o = Resize <mode = "linear"> ({inputs}) }}> }}""",
            18,
        )
    )
    assert found.operators["Resize"] == 1
    assert not {"Loop", "Reshape", "Squeeze", "Unsqueeze"} & found.operators.keys()
