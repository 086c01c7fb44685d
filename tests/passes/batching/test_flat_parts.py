"""Parts of images of any size by positions that name their first axes, and elements by indices."""

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
from tests.passes.batching.test_flat_entries import GRAY, IMAGE, ROWS

FAR = 2**63 - 1
OTHER = (
    ROWS
    + numbers("k", 1)
    + numbers("z", 0)
    + (
        "two = Constant <value_int = 2> () s2 = Constant <value_ints = [2]> () "
        "r = Range (zero, h, two) p = Unsqueeze (r, k) "
    )
    + numbers("e", FAR)
    + "part = Slice (x, z, e, z, s2) m = Neg (part) "
)
CHANNELS = (
    ROWS
    + numbers("k", 1)
    + numbers("z", 0)
    + (
        "three = Constant <value_int = 3> () c0 = Range (zero, three, one) "
        "h1a = Shape <start = 1, end = 2> (x) ha = Squeeze (h1a, first) two = Constant "
        "<value_int = 2> () r0 = Range (one, ha, two) both = Constant <value = int64[2] {-1, 1}> () "
        "c1 = Reshape (c0, both) add = Add (c1, r0) s = Shape (add) c2 = Expand (c1, s) "
        "r2 = Expand (r0, s) "
    )
    + numbers("q", -1)
    + numbers("e", FAR)
    + (
        "c3 = Unsqueeze (c2, q) r3 = Unsqueeze (r2, q) p = Concat <axis = -1> (c3, r3) "
        "s2 = Constant <value_ints = [2]> () part = Slice (x, k, e, k, s2) m = Neg (part) "
    )
)
ENDS = "p = Constant <value = int64[2,1] {0, -1}> () "
PARTS = [
    FlatCase("every other row", OTHER + "y = ScatterND (x, p, m)", IMAGE),
    FlatCase("every other row of matrices", OTHER + "y = ScatterND (x, p, m)", GRAY, "float[h,w]"),
    FlatCase("every other row added", OTHER + 'y = ScatterND <reduction = "add"> (x, p, m)',
             IMAGE),
    FlatCase("rows of channels in front", CHANNELS + "y = ScatterND (x, p, m)", "float[3,H,W]",
             "float[3,h,w]", least=2),
    FlatCase("columns", "t = Transpose <perm = [1, 0, 2]> (x) " + ENDS + numbers("i", 1, 0)
             + "m = Gather <axis = 0> (t, i) n = Neg (m) q = ScatterND (t, p, n) "
             "y = Transpose <perm = [1, 0, 2]> (q)", IMAGE, least=2),
    FlatCase("the first row and the last", ENDS + numbers("i", 1, 0) + "m = Gather <axis = 0> "
             "(x, i) y = ScatterND (x, p, m)", IMAGE, least=2),
    FlatCase("a row of zeros", "p = Constant <value = int64[1,1] {0}> () " + numbers("one", 1)
             + "w = Shape <start = 1, end = 2> (x) d = Concat <axis = 0> (one, w) "
             "f = Constant <value_float = 0.0> () m = Expand (f, d) y = ScatterND (x, p, m)", GRAY,
             "float[h,w]"),
    FlatCase("rows of a crop", numbers("a", 1) + numbers("b", -1) + numbers("k", 1) + ENDS
             + "c = Slice (x, a, b, k) " + numbers("i", 1, 0) + "m = Gather <axis = 0> (c, i) "
             "y = ScatterND (c, p, m)", IMAGE, least=3),
    FlatCase("rows that are read", ENDS + "y = GatherND (x, p)", IMAGE, "float[2,w,3]"),
    FlatCase("every other row that is read", OTHER + "y = GatherND (x, p)", GRAY, "float[h,w]"),
    FlatCase("rows of channels that are read", CHANNELS + "y = GatherND (x, p)", "float[3,H,W]",
             "float[3,h,w]", least=2),
]  # fmt: skip

BEHIND = (
    "z2 = Constant <value_ints = [5, 6]> () c = ConstantOfShape (z2) s = Shape (x) m = Min (s, z2)"
    f" z = Constant <value_ints = [0]> () a0 = Constant <value_ints = [0, 0]> () {numbers('far', FAR)}"
    " o = Sub (z2, m) k1 = Constant <value_ints = [1]> () i0 = Constant <value_int = 0> () "
    "i1 = Constant <value_int = 1> () i5 = Constant <value_int = 5> () "
    "i6 = Constant <value_int = 6> () oy = Slice (o, z, k1) last = Constant <value_ints = [2]> () "
    "ox = Slice (o, k1, last) p = Slice (x, a0, m) t = Transpose (p) "
    "rows = Slice (c, oy, far, z) v = Transpose (rows) rx = Range (i0, i6, i1) "
    "wx = Slice (rx, ox, far) ux = Unsqueeze (wx, k1) q = ScatterND (v, ux, t) "
    "ry = Range (i0, i5, i1) wy = Slice (ry, oy, far) uy = Unsqueeze (wy, k1) w = Transpose (q) "
)
"""As PyTorch's exporter writes ``c[5 - h :, 6 - w :] = x[:h, :w]``."""
SORTED = "n = Shape <start = 1, end = 2> (x) v, i = TopK <axis = 1> (x, n) "
FIVE = "five = Constant <value_int = 5> () b = Cast <to = 7> (x) i = Mod (b, five) "
ELEMENTS = [
    FlatCase("lines sorted", SORTED + "y = GatherElements <axis = 1> (x, i)", GRAY, "float[h,w]"),
    FlatCase("from the end", SORTED + "j = Neg (i) y = GatherElements <axis = 1> (x, j)", GRAY,
             "float[h,w]"),
    FlatCase("columns sorted", "n = Shape <start = 0, end = 1> (x) v, i = TopK <axis = 0> (x, n) "
             "y = GatherElements <axis = 0> (x, i)", GRAY, "float[h,w]"),
    FlatCase("the best channel", "i = ArgMax <axis = 2> (x) y = GatherElements <axis = 2> (x, i)",
             IMAGE, "float[h,w,1]"),
    FlatCase("the best row of channels", "i = ArgMax <axis = 0> (x) "
             "y = GatherElements <axis = 0> (x, i)", IMAGE, "float[1,w,3]"),
    FlatCase("some lines", SORTED + numbers("a", 0) + numbers("e", 1) + "j = Slice (i, a, e, a) "
             "y = GatherElements <axis = 1> (x, j)", GRAY, "float[1,w]"),
    FlatCase("of a corner", "i = Constant <value = int64[1,2] {0, -1}> () "
             "y = GatherElements <axis = 1> (x, i)", GRAY, "float[1,2]", stacked=True),
    FlatCase("entries of a table", FIVE + "t = Constant <value = float[1,5] {5., 4., 3., 2., 1.}> "
             "() h1 = Shape <end = 1> (x) " + numbers("n", 5) + "d = Concat <axis = 0> (h1, n) "
             "u = Expand (t, d) y = GatherElements <axis = 1> (u, i)", GRAY, "float[h,w]"),
    FlatCase("lines put back", SORTED + "y = ScatterElements <axis = 1> (v, i, x)", GRAY,
             "float[h,w]"),
    FlatCase("the corner set", "i = Constant <value = int64[1,1] {-1}> () u = Constant <value = "
             "float[1,1] {7.}> () y = ScatterElements <axis = 0> (x, i, u)", GRAY, "float[h,w]"),
    FlatCase("a histogram of each line", FIVE + numbers("n", 5) + "h1 = Shape <end = 1> (x) "
             "d = Concat <axis = 0> (h1, n) z = ConstantOfShape (d) "
             'y = ScatterElements <axis = 1, reduction = "add"> (z, i, x)', GRAY, "float[h,5]",
             tolerance=1e-6),
    FlatCase("added to what all share", FIVE + numbers("d", 24, 25) + "z = ConstantOfShape (d) "
             'y = ScatterElements <axis = 1, reduction = "add"> (z, i, x)', GRAY, "float[24,25]",
             stacked=True, most=20, tolerance=1e-6),
]  # fmt: skip
PASTED = [
    FlatCase("pasted behind", BEHIND + "y = ScatterND (c, uy, w)", GRAY, "float[5,6]",
             stacked=True, most=9),
]  # fmt: skip
CASES = [*PARTS, *ELEMENTS, *PASTED]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parts_of_images(case: FlatCase) -> None:
    prove_flat(case, counts=(1, 5))


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)


FIRST = "p = Constant <value = int64[1,1] {0}> () "
UPDATES = [
    FlatCase("a row that all share", FIRST + "m = Constant <value = float[1,4] {1., 2., 3., 4.}> "
             "() y = ScatterND (x, p, m)", GRAY, "float[h,w]", least=4, most=4),
    FlatCase("rows that all share added", "p = Constant <value = int64[2,1] {-1, 1}> () m = "
             "Constant <value = float[2,2] {1., 2., 3., 4.}> () "
             'y = ScatterND <reduction = "add"> (x, p, m)', GRAY, "float[h,w]", least=2, most=2),
    FlatCase("pixels that all share", "p = Constant <value = int64[1,2] {0, -1}> () m = Constant "
             "<value = float[1,3] {1., 2., 3.}> () y = ScatterND (x, p, m)", "float[H,W,C]",
             "float[h,w,c]", least=3, most=3),
    FlatCase("channels of any number", FIRST + numbers("c", 2, 1, 0) + numbers("i", 0)
             + "d = Gather <axis = 2> (x, c) m = Gather <axis = 0> (x, i) n = Neg (m) "
             "y = ScatterND (d, p, n)", "float[H,W,C]", least=3, most=3),
]  # fmt: skip


@pytest.mark.parametrize("case", UPDATES, ids=str)
def test_updates_in_other_layouts(case: FlatCase) -> None:
    prove_flat(case, counts=(1, 3))


OUTSIDE = [
    FlatCase("a row that is set", "p = Constant <value = int64[1,1] {4}> () " + numbers("i", 0)
             + "m = Gather <axis = 0> (x, i) y = ScatterND (x, p, m)", GRAY, "float[h,w]"),
    FlatCase("a row that is read", "p = Constant <value = int64[1,1] {-5}> () y = GatherND (x, p)",
             GRAY, "float[1,w]"),
    FlatCase("a row that is too short", "p = Constant <value = int64[1,1] {0}> () "
             + numbers("i", 0) + "m0 = Gather <axis = 0> (x, i) " + numbers("a", 5) + numbers("k", 1)
             + "m = Slice (m0, i, a, k) y = ScatterND (x, p, m)", "float[H,W]", "float[h,w]"),
    FlatCase("an element", "i = Constant <value = int64[1,1] {4}> () "
             "y = GatherElements <axis = 1> (x, i)", GRAY, "float[1,1]", stacked=True),
    FlatCase("an element that is set", "i = Constant <value = int64[1,1] {-5}> () u = Constant "
             "<value = float[1,1] {7.}> () y = ScatterElements <axis = 1> (x, i, u)", GRAY,
             "float[h,w]"),
]  # fmt: skip


@pytest.mark.parametrize("case", OUTSIDE, ids=str)
def test_what_lies_outside_of_an_image_is_none_of_its_neighbours(case: FlatCase) -> None:
    large, small = drawn(case, 2)
    large, small = np.resize(large, (9, 9)), np.resize(small, (4, 4))
    bad = large if "short" in case.name else small
    session = backends.open_session(reached(case), "onnxruntime")
    for images in ([bad], [small, large], [large, small]):
        with pytest.raises(BackendError):
            session.run({"xs": images})
