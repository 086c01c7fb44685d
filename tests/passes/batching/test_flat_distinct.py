"""Unique over the elements of images of any size."""

from __future__ import annotations

import pytest

import rewriter
from tests.passes.batching.images import FlatCase, prove_flat, prove_nothing, reached

WHOLE = "i = Cast <to = 7> (x) "


def case(name: str, nodes: str, result: str, element: str = "uint8[H,W]") -> FlatCase:
    """Make a case of images of few numbers."""
    return FlatCase(name, nodes, element, result, most=7, high=5.0)


CASES = [
    case("values", WHOLE + "y = Unique (i)", "int64[u]"),
    case("values in any order", WHOLE + "y = Unique <sorted = 0> (i)", "int64[u]"),
    case("first places", WHOLE + "u, y = Unique (i)", "int64[u]"),
    case("which one each is", WHOLE + "u, f, j = Unique (i) s = Shape (x) y = Reshape (j, s)",
         "int64[h,w]"),
    case("counts", WHOLE + "u, f, j, y = Unique (i)", "int64[u]", "uint8[H,W,3]"),
    case("with channels in front", WHOLE + "t = Transpose <perm = [2, 0, 1]> (i) "
         "u, y = Unique (t)", "int64[u]", "uint8[H,W,3]"),
]  # fmt: skip


@pytest.mark.parametrize("one", CASES, ids=str)
def test_elements_of_images(one: FlatCase) -> None:
    prove_flat(one)


@pytest.mark.parametrize("one", CASES[::3], ids=str)
def test_elements_of_no_image(one: FlatCase) -> None:
    prove_nothing(one)


def test_rows_are_not_told_apart() -> None:
    one = case("", WHOLE + "y = Unique <axis = 0> (i)", "int64[u,w]")
    with pytest.raises(rewriter.TargetError, match="compares rows or columns"):
        reached(one)


RUNS = FlatCase(
    "lengths of runs",
    "limit = Constant <value_float = 128.0> () g = Greater (x, limit) all = Constant "
    "<value_ints = [-1]> () f = Reshape (g, all) a = Constant <value_ints = [1]> () big = "
    "Constant <value_ints = [99999]> () z = Constant <value_ints = [0]> () one = Constant "
    "<value = bool[1] {1}> () behind = Slice (f, a, big, z) before = Slice (f, z, all, z) "
    "d = Xor (behind, before) c = Concat <axis = 0> (one, d) nz = NonZero (c) "
    "s = Squeeze (nz, z) rest = Slice (s, a, big, z) n = Shape (f) "
    "e = Concat <axis = 0> (rest, n) y = Sub (e, s)",
    "float[H,W]",
    "int64[n]",
)


def test_lengths_of_runs() -> None:
    """Nothing proves that there are as many ends as starts: where no loop can be, they meet."""
    prove_flat(RUNS, counts=(1, 5))
