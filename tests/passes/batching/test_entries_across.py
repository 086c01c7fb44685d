"""Entries of samples that differ along one axis behind the first are read and written by places."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.images import FlatCase, drawn, prove_flat, prove_nothing

READ = (
    "k = Constant <value_float = {bound}> () b = Greater (v, k) f = NonZero (b) "
    "p = Transpose <perm = [1, 0]> (f) g = GatherND (v, p) {end} = Neg (g) "
)
WRITTEN = READ.replace("{end}", "m") + "y = ScatterND (v, p, m)"
SHAPES = {
    "two rows of images": ("Gather <axis = 0> (x, i)", "float[H,W]"),
    "two columns of images": ("Gather <axis = 1> (x, i)", "float[H,W]"),
    "two rows of channels": ("Gather <axis = 1> (x, i)", "float[3,H,W]"),
    "two columns of channels": ("Gather <axis = 2> (x, i)", "float[3,H,W]"),
    "two rows of pixels": ("Gather <axis = 0> (x, i)", "float[H,W,3]"),
    "columns of any number": ("Identity (x)", "float[2,W]"),
}
BOUNDS = {"some": 100.0, "none": 999.0, "all": -1.0}


def case(shape: str, bound: str, nodes: str, result: str | None = None) -> FlatCase:
    picked, element = SHAPES[shape]
    before = f"i = Constant <value_ints = [0, -1]> () v = {picked} "
    text = before + nodes.format(bound=BOUNDS[bound], end="y")
    like = f"float[{', '.join('abc'[: element.count(',') + 1])}]"
    return FlatCase(shape, text, element, result or like)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_entries_are_read(shape: str, bound: str) -> None:
    one = case(shape, bound, READ, "float[n]")
    prove_flat(one, feeds=[drawn(one, count, count) for count in (1, 3)])


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_entries_are_written(shape: str, bound: str) -> None:
    one = case(shape, bound, WRITTEN)
    prove_flat(one, feeds=[drawn(one, count, count) for count in (1, 3)])
    if bound == "some":
        prove_nothing(one)


def test_images_of_one_pixel() -> None:
    one = case("two rows of images", "some", WRITTEN)
    prove_flat(one, feeds=[[np.full((1, 1), 120, np.float32), np.zeros((2, 1), np.float32)]])
