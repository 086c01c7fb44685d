"""Products of lengths: one object, so that what follows from them is recorded once."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.batching.flat.grid import Grid
from passes.batching.lengths import Lengths, multiplied
from passes.graph.builder import Builder, tensor_value

pytestmark = pytest.mark.quick


def lengths(builder: Builder, name: str) -> Lengths:
    """Return lengths that nothing is known of."""
    return Lengths(builder, tensor_value(name, ir.DataType.INT64, ["B"]))


@pytest.fixture
def builder() -> Builder:
    """Return where nodes are recorded."""
    return Builder("map", 18)


def test_products_of_both_orders_are_one(builder: Builder) -> None:
    high, wide = lengths(builder, "h"), lengths(builder, "w")
    assert high.by(builder, wide) is wide.by(builder, high)
    assert multiplied(builder, [wide, high]) is high.by(builder, wide)
    assert len(builder.nodes) == 1


def test_another_builder_records_its_own(builder: Builder) -> None:
    """What stands in front may be written already."""
    other = Builder("map", 18)
    high, wide = lengths(builder, "h"), lengths(builder, "w")
    assert high.by(builder, wide) is not high.by(other, wide)
    assert len(builder.nodes) == len(other.nodes) == 1
    again = multiplied(other, [high])
    assert again is high.on(other) is not high
    assert again.equal(high)
    assert high.on(builder) is high


def test_grids_of_the_same_lengths_are_one(builder: Builder) -> None:
    high, wide = lengths(builder, "h"), lengths(builder, "w")
    count = tensor_value("n", ir.DataType.INT64, [1])
    grid = Grid.of_sides(builder, [high, wide, 3], count)
    assert Grid.of_sides(builder, [high, wide, 3], count) is grid
    assert Grid.of_sides(Builder("map", 18), [high, wide, 3], count) is not grid
    assert Grid.of_sides(builder, [1, 3, wide, high], count).rows is grid.rows
    assert Grid.of_sides(builder, [4, wide, high], count).rows is not grid.rows


def test_products_have_lines(builder: Builder) -> None:
    high, wide = lengths(builder, "h"), lengths(builder, "w")
    assert high.lines is None
    assert high.times(3).lines is None
    several = high.by(builder, wide).times(3)
    assert several.known_lines is None
    assert several.lines is not None
    rows, lines = several.lines
    assert lines is high
    assert several.known_lines == (rows, lines)
    (wider, _) = rows.value.producer().inputs  # type: ignore[union-attr]
    assert wider is wide.times(3).value


def test_lines_keep_what_is_checked(builder: Builder) -> None:
    """A product reads the lengths behind a check, not those that it checks."""
    high, wide = lengths(builder, "h"), lengths(builder, "w")
    checked = high.checked(builder, tensor_value("checked", ir.DataType.INT64, ["B"]))
    assert checked.lines is None
    whole = checked.by(builder, wide)
    assert whole.lines is not None
    assert whole.lines[1] is checked
