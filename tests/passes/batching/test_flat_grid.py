"""Whether samples along several axes are known to have the same dimensions."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.batching.flat.grid import Grid
from passes.graph.builder import Builder

HEIGHTS, WIDTHS = ir.Value(name="heights"), ir.Value(name="widths")


def grid(*dims: int | ir.Value, is_shared: bool = False) -> Grid:
    return Grid(Builder("map"), dims, is_shared=is_shared)


@pytest.mark.parametrize("is_shared", [False, True])
def test_grids_of_the_same_dimensions_are_equal(is_shared: bool) -> None:
    one = grid(3, HEIGHTS, is_shared=is_shared)
    assert one.equal(one)
    assert one.equal(grid(3, HEIGHTS, is_shared=is_shared))


@pytest.mark.parametrize(
    "other",
    [
        grid(3, WIDTHS),
        grid(2, HEIGHTS),
        grid(HEIGHTS, 3),
        grid(HEIGHTS),
        grid(3, HEIGHTS, is_shared=True),
    ],
)
def test_other_grids_are_not(other: Grid) -> None:
    assert not grid(3, HEIGHTS).equal(other)
    assert not other.equal(grid(3, HEIGHTS))
