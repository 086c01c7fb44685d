"""Pixels as the tokens of a vision transformer: in a line, worked on, and as an image again."""

from __future__ import annotations

import pytest

from tests.passes.batching.images import FlatCase, numbers, prove_flat
from tests.passes.batching.test_flat_shapes import WEIGHTS

pytestmark = pytest.mark.quick

SIDES = "h = Shape <start = 2, end = 3> (x) w = Shape <start = 3, end = 4> (x) "
LINE = (
    numbers("one", 1)
    + numbers("two", 2)
    + numbers("rest", -1)
    + (
        "line = Concat <axis = 0> (one, two, rest) l = Reshape (x, line) "
        "tokens = Transpose <perm = [0, 2, 1]> (l) "
    )
)
IMAGE = (
    "sides = Concat <axis = 0> (one, h, w, rest) j = Reshape (tokens, sides) "
    "i = Transpose <perm = [0, 3, 1, 2]> (j) "
)
SMOOTHED = "z = Conv <pads = [1, 0, 1, 0]> (x, f) "
TOKENS = [
    FlatCase("filtered again", f"{SIDES}{LINE}{IMAGE}{WEIGHTS} y = Conv <pads = [1, 0, 1, 0]> (i, f)",
             "float[1,2,H,W]", "float[1,2,h,w]", tolerance=1e-6),
    FlatCase("their channels asked for behind", f"{SIDES}{LINE}{IMAGE} s = Shape (i) "
             "at = Constant <value_ints = [1]> () k = Gather (s, at) "
             "t = Concat <axis = 0> (k, rest) y = Reshape (x, t)",
             "float[1,2,H,W]", "float[2,n]"),
    FlatCase("beside those of a filtered image", f"{WEIGHTS}{LINE}{SMOOTHED} "
             "q = Reshape (z, line) y = Sub (q, l)", "float[1,2,H,W]", "float[1,2,n]",
             tolerance=1e-6),
    FlatCase("multiplied by those of a filtered image", f"{WEIGHTS}{LINE}{SMOOTHED} "
             "q = Reshape (z, line) y = MatMul (q, tokens)", "float[1,2,H,W]", "float[1,2,2]",
             stacked=True, high=1.0, tolerance=1e-5),
    FlatCase("turned on their side", f"{SIDES}{LINE} t = Concat <axis = 0> (one, w, h, rest) "
             "y = Reshape (tokens, t)", "float[1,2,H,W]", "float[1,w,h,2]"),
    FlatCase("channels counted in", f"{SIDES}{numbers('all', -1)}{numbers('two', 2)} "
             "v = Reshape (x, all) t = Concat <axis = 0> (two, h, all) y = Reshape (v, t)",
             "float[1,2,H,W]", "float[2,h,w]"),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("case", TOKENS, ids=str)
def test_tokens(case: FlatCase) -> None:
    """Images are merged into lines, and lines are images again, without a loop."""
    prove_flat(case)
