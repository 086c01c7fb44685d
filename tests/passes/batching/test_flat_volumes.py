"""Volumes of any size: three axes along which samples differ."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.images import FlatCase, prove_flat, prove_nothing

VOLUME, CHANNELS = "float[D,H,W]", "float[1,2,D,H,W]"
COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
KEPT = "s = Constant <value_ints = [4, 5, 6]> () "


def case(name: str, nodes: str, element: str = VOLUME, result: str = "float[d,h,w]") -> FlatCase:
    """Make a case of volumes."""
    return FlatCase(name, nodes, element, result, most=9)


def sized(attributes: str, element: str, result: str) -> FlatCase:
    """Make a case of a Resize of three axes to one size."""
    nodes = f'{KEPT} y = Resize <mode = "linear", {attributes}> (x,,,s)'
    return FlatCase(
        f"{attributes} of {element}".replace('"', ""), nodes, element, result, stacked=True, most=9
    )


def scaled(scales: str, axes: str, element: str = CHANNELS) -> FlatCase:
    """Make a case of a Resize by scales, linear."""
    nodes = f"s = Constant <value_floats = [{scales}]> () "
    nodes += f'y = Resize <mode = "linear", axes = [{axes}]> (x,,s)'
    result = "float[1,2,d,h,w]" if element == CHANNELS else "float[d,h,w]"
    return case(f"{axes} of {element} by {scales}", nodes, element, result)


CASES = [
    *(
        sized(f'coordinate_transformation_mode = "{c}", {axes}', element, result)
        for c in COORDINATES
        for element, axes, result in (
            (VOLUME, "axes = [0, 1, 2]", "float[4,5,6]"),
            (CHANNELS, "axes = [2, 3, 4]", "float[1,2,4,5,6]"),
        )
    ),
    scaled("0.7, 1.4, 1.2", "0, 1, 2", VOLUME),
    scaled("0.7, 1.4, 1.2", "2, 3, 4"),
    scaled("0.7, 1.4", "2, 3"),
    scaled("0.7, 1.4", "2, 4"),
    scaled("0.7, 1.4", "4, 3"),
    scaled("0.7", "2"),
    scaled("1.3", "3"),
    scaled("1.3", "4"),
    case(
        "nearest",
        "s = Constant <value_floats = [0.5, 2.0, 0.7]> () y = Resize (x,,s)",
    ),
]


@pytest.mark.parametrize("one", CASES, ids=str)
def test_volumes_of_any_size(one: FlatCase) -> None:
    prove_flat(one)


@pytest.mark.parametrize("one", CASES[::5], ids=str)
def test_no_volume(one: FlatCase) -> None:
    prove_nothing(one)


@pytest.mark.parametrize("one", CASES[:2], ids=str)
def test_volumes_of_that_size_are_copied(one: FlatCase) -> None:
    """The sum of eight parts of a number may round."""
    rng = np.random.default_rng(0)
    shapes = [(4, 5, 6), (3, 2, 7)]
    before = (1, 2) if one.element == CHANNELS else ()
    prove_flat(one, feeds=[[rng.random((*before, *s)).astype(np.float32) for s in shapes]])
