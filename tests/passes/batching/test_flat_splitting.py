"""Split of images of any size along an axis that differs, and by sizes of each image."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import backends
from rewriter.errors import BackendError
from tests.passes.batching.images import (
    FlatCase,
    drawn,
    numbers,
    prove_flat,
    prove_nothing,
    reached,
)
from tests.passes.batching.test_flat_entries import GRAY, IMAGE

OWN = (
    numbers("k", 1)
    + "m = ReduceMax <keepdims = 0> (x, k) i = ArgMax <axis = 0> (m) "
    + ("h = Shape <end = 1> (x) r = Sub (h, i) n = Concat <axis = 0> (i, r) ")
)
CHANNELS = (
    "h = Shape <end = 1> (x) "
    + numbers("two", 2)
    + numbers("three", 3)
    + ("i = Mod (h, two) r = Sub (three, i) n = Concat <axis = 0> (i, r) ")
)
CASES = [
    FlatCase("halves of rows", "a, b = Split <num_outputs = 2> (x) y = Concat <axis = 0> (b, a)",
             IMAGE),
    FlatCase("thirds of columns", "a, b, c = Split <axis = 1, num_outputs = 3> (x) "
             "y = Concat <axis = 1> (b, c, a)", IMAGE, least=2),
    FlatCase("thirds of columns of channels in front", "a, b, c = Split <axis = -1, num_outputs = "
             "3> (x) y = Identity (c)", "uint8[3,H,W]", "uint8[3,h,w]", least=2),
    FlatCase("equal parts", "d = Concat <axis = 0> (x, x) a, b = Split (d) y = Sub (a, b)", IMAGE,
             opset=17),
    FlatCase("two rows and the rest", numbers("two", 2) + "h = Shape <end = 1> (x) "
             "r = Sub (h, two) n = Concat <axis = 0> (two, r) a, b = Split (x, n) y = Neg (b)",
             GRAY, "float[h,w]", least=2),
    FlatCase("at the brightest row", OWN + "a, b = Split (x, n) y = Concat <axis = 0> (b, a)",
             GRAY, "float[h,w]"),
    FlatCase("behind the brightest row", OWN + "a, b = Split (x, n) y = Neg (b)", GRAY,
             "float[h,w]"),
    FlatCase("of what is padded", numbers("q", 1, 0, 2, 0) + "p = Pad (x, q) "
             "a, b = Split <num_outputs = 2> (p) y = Neg (a)", GRAY, "float[h,w]"),
    FlatCase("of what is resized", 's = Constant <value_floats = [2.0, 1.5]> () r = Resize <mode = '
             '"linear"> (x, , s) a, b = Split <axis = 1, num_outputs = 2> (r) y = Neg (b)', GRAY,
             "float[h,w]"),
    FlatCase("channels", CHANNELS + "a, b = Split <axis = 2> (x, n) y = Neg (b)", IMAGE,
             "float[h,w,c]"),
    FlatCase("of one size, by sizes of each", numbers("d", 5, 7) + "c = CenterCropPad (x, d) "
             + numbers("five", 5) + "h = Shape <end = 1> (x) i = Mod (h, five) r = Sub (five, i) "
             "n = Concat <axis = 0> (i, r) a, b = Split (c, n) y = Concat <axis = 0> (b, a)",
             GRAY, "float[h,7]"),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES, ids=str)
def test_parts_of_images(case: FlatCase) -> None:
    prove_flat(case, counts=(1, 5))


@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)


MISFITS = [
    FlatCase("too many rows", numbers("n", 4, 1) + "a, b = Split (x, n) y = Neg (a)", GRAY),
    FlatCase("rows that are left", numbers("n", 2, 1) + "a, b = Split (x, n) y = Neg (a)", GRAY),
    FlatCase("fewer than no rows", numbers("n", -1, 5) + "a, b = Split (x, n) y = Neg (b)", GRAY),
    FlatCase("a number of parts", "a, b, c, d, e, f, g = Split <num_outputs = 7> (x) y = Neg (a)",
             GRAY),
    FlatCase("parts that are not equal", "a, b, c = Split (x) y = Neg (a)", GRAY, opset=17),
]  # fmt: skip


@pytest.mark.parametrize("case", MISFITS, ids=str)
def test_sizes_that_do_not_fit_one_image_are_an_error(case: FlatCase) -> None:
    case = FlatCase(case.name, case.nodes, GRAY, "float[h,w]", opset=case.opset)
    (small,) = drawn(case, 1)
    session = backends.open_session(reached(case), "onnxruntime")
    with pytest.raises(BackendError):
        session.run({"xs": [np.resize(small, (4, 4))]})
