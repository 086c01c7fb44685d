"""Images that are resized to one size meet a Range whose length no type tells."""

from __future__ import annotations

import pytest

from tests.passes.batching.images import FlatCase, drawn, prove_flat, prove_nothing

pytestmark = pytest.mark.quick

RANGE = (
    "to = Constant <value_ints = [9, 10]> () r = Resize <mode = {mode}, axes = [0, 1]> (x,,,to) "
    "o = Shape <start = {axis}, end = {end}> (r) k = Constant <value_ints = [0]> () "
    "s = Squeeze (o, k) zero = Constant <value_int = 0> () one = Constant <value_int = 1> () "
    "n = Range (zero, s, one) c = Cast <to = 1> (n) after = Constant <value_ints = {after}> () "
    "u = Unsqueeze (c, after) y = {op} (r, u)"
)


def case(name: str, mode: str, axis: int, after: list[int], op: str, element: str) -> FlatCase:
    nodes = RANGE.format(mode=mode, axis=axis, end=axis + 1, after=after, op=op)
    dims = ", ".join("abc"[: element.count(",") + 1])
    return FlatCase(name, nodes, element, f"float[{dims}]", tolerance=2e-6)


CASES = [
    case("columns", '"nearest"', 1, [1], "Mul", "float[H,W,3]"),
    case("rows", '"nearest"', 0, [1, 2], "Sub", "float[H,W,3]"),
    case("rows of gray images", '"nearest"', 0, [1], "Add", "float[H,W]"),
    case("columns of gray images", '"nearest"', 1, [0], "Mul", "float[H,W]"),
    case("columns, linear", '"linear"', 1, [1], "Mul", "float[H,W,3]"),
]


@pytest.mark.parametrize("one", CASES, ids=str)
def test_a_range_over_an_axis_of_known_size(one: FlatCase) -> None:
    prove_flat(one, feeds=[drawn(one, count, count) for count in (1, 3)])
    prove_nothing(one)
