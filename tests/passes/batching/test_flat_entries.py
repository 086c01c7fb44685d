"""Elements of samples that differ along several axes by their positions, and along an axis."""

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

GRAY, IMAGE = "float[H,W]", "float[H,W,3]"
BRIGHT = "limit = Constant <value_float = 128.0> () b = Greater (x, limit) "
FOUND = BRIGHT + "nz = NonZero (b) p = Transpose <perm = [1, 0]> (nz) "
ROWS = (
    "zero = Constant <value_int = 0> () one = Constant <value_int = 1> () "
    "first = Constant <value_ints = [0]> () "
    "h1 = Shape <start = 0, end = 1> (x) w1 = Shape <start = 1, end = 2> (x) "
    "h = Squeeze (h1, first) w = Squeeze (w1, first) ri = Range (zero, h, one) "
    "ci = Range (zero, w, one) "
)
BACKWARDS = ROWS + "r = Sub (h, ri) up = Sub (r, one) c = Sub (w, ci) left = Sub (c, one) "

PLACES = [
    FlatCase("what is bright", FOUND + "y = Identity (p)", GRAY, "int64[n,2]"),
    FlatCase("bright channels", FOUND + "y = Identity (p)", IMAGE, "int64[n,3]"),
    FlatCase("channels in front", FOUND + "y = Identity (p)", "float[3,H,W]", "int64[n,3]"),
    FlatCase("channels moved", "x1 = Transpose <perm = [2, 0, 1]> (x) limit = Constant "
             "<value_float = 128.0> () b = Greater (x1, limit) nz = NonZero (b) "
             "y = Transpose <perm = [1, 0]> (nz)", IMAGE, "int64[n,3]"),
    FlatCase("of flags", "nz = NonZero (x) y = Transpose <perm = [1, 0]> (nz)", "bool[H,W]",
             "int64[n,2]"),
    FlatCase("of flags in columns", "nz = NonZero (x) y = Transpose <perm = [1, 0]> (nz)",
             "bool[2,W]", "int64[n,2]"),
    FlatCase("of columns in the middle", FOUND + "y = Identity (p)", "float[2,W,3]",
             "int64[n,3]"),
    FlatCase("of a crop", numbers("a", 1, 1) + numbers("e", 9, 99) + numbers("k", 0, 1)
             + "c = Slice (x, a, e, k) nz = NonZero (c) y = Transpose <perm = [1, 0]> (nz)",
             "uint8[H,W]", "int64[n,2]", high=3.0),
    FlatCase("of what is padded", numbers("q", 1, 0, 0, 2) + "c = Pad (x, q) nz = NonZero (c) "
             "y = Transpose <perm = [1, 0]> (nz)", "float[H,W]", "int64[n,2]"),
    FlatCase("where it lies", FOUND + numbers("k", 0) + "lo = ReduceMin <keepdims = 0> (p, k) "
             "hi = ReduceMax <keepdims = 0> (p, k) y = Concat <axis = 0> (lo, hi)", GRAY,
             "int64[4]", stacked=True, least=6),
]  # fmt: skip

POSITIONS = [
    FlatCase("numbers at places", FOUND + "y = GatherND (x, p)", GRAY, "float[n]"),
    FlatCase("pixels at places", numbers("k", 2) + "g = ReduceMax <keepdims = 0> (x, k) limit = "
             "Constant <value_float = 150.0> () b = Greater (g, limit) nz = NonZero (b) "
             "p = Transpose <perm = [1, 0]> (nz) y = GatherND (x, p)", IMAGE, "float[n,3]"),
    FlatCase("corners", "p = Constant <value = int64[2,2] {0, 0, -1, -1}> () y = GatherND (x, p)",
             GRAY, "float[2]", stacked=True),
    FlatCase("channels of corners", "p = Constant <value = int64[2,3] {0, 0, 1, -1, -1, -2}> () "
             "y = GatherND (x, p)", IMAGE, "float[2]", stacked=True),
    FlatCase("the brightest pixel", "m = Constant <value_ints = [-1]> () v = Reshape (x, m) "
             "i = ArgMax <axis = 0> (v) w = Shape <start = 1, end = 2> (x) q = Div (i, w) "
             "o = Mod (i, w) p = Concat <axis = 0> (q, o) y = GatherND (x, p)", GRAY, "float[]",
             stacked=True),
    FlatCase("a table of two axes", "t = Constant <value = float[2,3] {1.0, 2.0, 3.0, 4.0, 5.0, "
             "6.0}> () limit = Constant <value_float = 128.0> () "
             "b = Greater (x, limit) i = Cast <to = 7> (b) " + numbers("k", -1)
             + "u = Unsqueeze (i, k) p = Concat <axis = -1> (u, u) y = GatherND (t, p)", GRAY,
             "float[h,w]"),
    FlatCase("rows of a table of two axes", "t = Constant <value = float[2,3] {1.0, 2.0, 3.0, 4.0, "
             "5.0, 6.0}> () limit = Constant <value_float = 128.0> () "
             "b = Greater (x, limit) i = Cast <to = 7> (b) " + numbers("k", -1)
             + "u = Unsqueeze (i, k) y = GatherND (t, u)", GRAY, "float[h,w,3]"),
    FlatCase("pixels by places of pixels", BACKWARDS + numbers("k", 1) + numbers("e", 2)
             + "s = Shape (x) u = Unsqueeze (up, k) v = Expand (u, s) l = Expand (left, s) "
             "v1 = Unsqueeze (v, e) l1 = Unsqueeze (l, e) p = Concat <axis = 2> (v1, l1) "
             "y = GatherND (x, p)", GRAY, "float[h,w]"),
    FlatCase("places set", FOUND + "v = GatherND (x, p) n = Neg (v) y = ScatterND (x, p, n)",
             GRAY, "float[h,w]"),
    FlatCase("corners set", "p = Constant <value = int64[2,2] {0, 0, -1, -1}> () v = Constant "
             "<value_floats = [5.0, 7.0]> () y = ScatterND (x, p, v)", GRAY, "float[h,w]",
             least=2),
    FlatCase("pixels set", "p = Constant <value = int64[1,2] {0, -1}> () v = Constant <value = "
             "float[1,3] {5.0, 7.0, 9.0}> () y = ScatterND (x, p, v)", IMAGE),
]  # fmt: skip

GRID = ROWS + numbers("k", 1) + numbers("e", 2) + "z = Constant <value_ints = [0]> () "
ALL = GRID + (
    "s = Shape <end = 2> (x) u = Unsqueeze (ri, k) v = Expand (u, s) l = Expand (ci, s) "
    "v1 = Unsqueeze (v, e) l1 = Unsqueeze (l, e) p = Concat <axis = 2> (v1, l1) "
)
BEHIND = ALL + "n = Neg (p) two = Constant <value_int = -1> () p1 = Add (n, two) "
INSIDE = (
    ALL
    + numbers("a", 1, 1)
    + numbers("b", -1, -1)
    + numbers("k01", 0, 1)
    + ("p1 = Slice (p, a, b, k01) part = Slice (x, a, b, k01) m = Neg (part) ")
)
WRITTEN = [
    FlatCase("pixels of it backwards", BEHIND + "y = ScatterND (x, p1, x)", GRAY, "float[h,w]"),
    FlatCase("pixels of several channels", BEHIND + "y = ScatterND (x, p1, x)", IMAGE),
    FlatCase("all but the border", INSIDE + "y = ScatterND (x, p1, m)", IMAGE, least=2),
    FlatCase("numbers of one channel", ALL + numbers("c", 1) + "sh = Shape <end = 2> (x) "
             + numbers("o1", 1) + "d = Concat <axis = 0> (sh, o1) w1c = Expand (c, d) "
             "p1 = Concat <axis = 2> (p, w1c) f = Constant <value_int = 1> () "
             "g = Gather <axis = 2> (x, f) q = Neg (g) y = ScatterND (x, p1, q)", IMAGE),
    FlatCase("into a larger image", ALL + "two = Constant <value_ints = [2, 3]> () "
             "sh = Shape (x) d = Add (sh, two) canvas = ConstantOfShape (d) one2 = Constant "
             "<value_int = 1> () p1 = Add (p, one2) y = ScatterND (canvas, p1, x)", GRAY,
             "float[h,w]"),
    FlatCase("into an image of one size", ALL + numbers("d", 24, 25)
             + "canvas = ConstantOfShape (d) y = ScatterND (canvas, p, x)", GRAY, "float[24,25]",
             stacked=True),
    FlatCase("channels into an image of one size", ALL + numbers("d", 24, 25, 3)
             + "canvas = ConstantOfShape (d) y = ScatterND (canvas, p, x)", IMAGE,
             "float[24,25,3]", stacked=True),
    FlatCase("into an image of each of one size", ALL + "t = Constant <value_ints = [24, 24]> () "
             "canvas = CenterCropPad (x, t) y = ScatterND (canvas, p, x)", GRAY, "float[24,24]",
             stacked=True),
    FlatCase("added to an image of one size", ALL + numbers("d", 12, 13) + "canvas = "
             "ConstantOfShape (d) half = Constant <value_int = 2> () p1 = Div (p, half) "
             'y = ScatterND <reduction = "add"> (canvas, p1, x)', GRAY, "float[12,13]",
             stacked=True, low=1.0, high=9.0, tolerance=1e-6),
]  # fmt: skip

ALONG = [
    FlatCase("some rows", numbers("i", 0, -1, 0) + "y = Gather <axis = 0> (x, i)", IMAGE,
             "float[3,w,3]"),
    FlatCase("some columns", numbers("i", 0, -1) + "y = Gather <axis = 2> (x, i)",
             "uint8[3,H,W]", "uint8[3,h,2]"),
    FlatCase("one row", "i = Constant <value_int = -1> () y = Gather <axis = 0> (x, i)", IMAGE,
             "float[w,3]"),
    FlatCase("one row of a matrix", "i = Constant <value_int = 0> () y = Gather <axis = 0> (x, i)",
             GRAY, "float[w]"),
    FlatCase("rows by a table", "i = Constant <value = int64[2,2] {0, -1, -1, 0}> () "
             "y = Gather <axis = 0> (x, i)", IMAGE, "float[2,2,w,3]"),
    FlatCase("turned around", BACKWARDS + "t = Gather <axis = 0> (x, up) "
             "y = Gather <axis = 1> (t, left)", IMAGE),
    FlatCase("every other row", ROWS + "two = Constant <value_int = 2> () "
             "e = Range (zero, h, two) y = Gather <axis = 0> (x, e)", GRAY, "float[h,w]"),
    FlatCase("the row of the brightest", numbers("k", 1) + "m = ReduceMax <keepdims = 0> (x, k) "
             "i = ArgMax <axis = 0> (m) y = Gather <axis = 0> (x, i)", GRAY, "float[1,w]"),
    FlatCase("windows of rows", ROWS + numbers("k", 1) + "d = Constant <value_ints = [0, 1]> () "
             "last = Sub (h, one) some = Range (zero, last, one) u = Unsqueeze (some, k) "
             "i = Add (u, d) y = Gather <axis = 0> (x, i)", GRAY, "float[n,2,w]", least=2),
    FlatCase("windows, their places in front", ROWS + numbers("k", 1) + "d = Constant <value_ints "
             "= [0, 1]> () d1 = Unsqueeze (d, k) last = Sub (w, one) some = Range (zero, last, "
             "one) i = Add (some, d1) y = Gather <axis = 1> (x, i)", IMAGE, "float[h,2,n,3]",
             least=2),
    FlatCase("rows of a crop", numbers("a", 1) + numbers("e", -1) + numbers("k", 0)
             + numbers("i", 0, -1) + "c = Slice (x, a, e, k) y = Gather <axis = 0> (c, i)", IMAGE,
             "float[2,w,3]", least=3),
    FlatCase("rows of what is padded", numbers("q", 1, 1, 0, 2, 0, 0) + numbers("i", 0, 1, -3)
             + "c = Pad (x, q) y = Gather <axis = 0> (c, i)", IMAGE, "float[3,w,3]"),
    FlatCase("rows of what is resized", "s = Constant <value_floats = [2.0, 1.5]> () "
             'r = Resize <axes = [0, 1], mode = "linear"> (x,,s) ' + numbers("i", 0, -1)
             + "y = Gather <axis = 0> (r, i)", IMAGE, "float[2,w,3]"),
]  # fmt: skip

OWN = numbers("k", 0, 1) + "t = ReduceMax <keepdims = 0> (x, k) "
WHERE = "limit = Constant <value_float = 128.0> () b = Greater (x, limit) i = Cast <to = 7> (b) "
LOOKED_UP = [
    FlatCase("a table of each", OWN + WHERE + "y = Gather (t, i)"),
    FlatCase("from the end", OWN + WHERE + "n = Neg (i) y = Gather (t, n)"),
    FlatCase("a table of two axes of each", OWN + WHERE + "e = Constant <value_ints = [1]> () "
             "u = Unsqueeze (t, e) c = Constant <value = float[1,2] {1.0, -1.0}> () "
             "m = Mul (u, c) y = Gather <axis = 1> (m, i)", result="float[3,h,w,3]"),
    FlatCase("along the last axis of a table", WHERE + "t = Constant <value = float[2,2] {1.0, "
             "2.0, 3.0, 4.0}> () y = Gather <axis = 1> (t, i)", result="float[2,h,w,3]"),
    FlatCase("its own first column", numbers("z", 0) + numbers("m", -1) + WHERE
             + "v = Reshape (x, m) y = Gather (v, i)", least=2),
    FlatCase("a histogram spread", numbers("m", -1) + "g0 = Cast <to = 7> (x) g = Reshape (g0, m) "
             + numbers("n", 256) + "z = ConstantOfShape <value = int64[1] {0}> (n) s = Shape (g) "
             "o = ConstantOfShape <value = int64[1] {1}> (s) c = ScatterElements <axis = 0, "
             'reduction = "add"> (z, g, o) a = Constant <value_int = 0> () t = CumSum (c, a) '
             "y = Gather (t, g0)", "uint8[H,W]", "int64[h,w]"),
]  # fmt: skip

SIDES = (
    numbers("i0", 0)
    + numbers("i1", 1)
    + numbers("i2", 2)
    + ("s = Shape (x) a = Gather (s, i0) b = Gather (s, i1) ")
)
REVERSED = [
    FlatCase("rows upside down", SIDES + "n = Expand (a, b) y = ReverseSequence <time_axis = 0, "
             "batch_axis = 1> (x, n)"),
    FlatCase("columns mirrored", SIDES + "n = Expand (b, a) y = ReverseSequence <time_axis = 1, "
             "batch_axis = 0> (x, n)", "uint8[H,W,3]", "uint8[h,w,3]"),
    FlatCase("channels turned around", SIDES + numbers("three", 3)
             + "t = Transpose <perm = [1, 0, 2]> (x) n = Expand (three, b) "
             "q = ReverseSequence <time_axis = 1, batch_axis = 0> (t, n) "
             "y = Transpose <perm = [1, 0, 2]> (q)", "float[3,H,W]", "float[3,h,w]"),
    FlatCase("the first rows of each column", SIDES + "g = ReduceMax <keepdims = 0> (x, i0) "
             "f = ReduceMax <keepdims = 0> (g, i1) l = Cast <to = 7> (f) k = Min (l, a) "
             "y = ReverseSequence <time_axis = 0, batch_axis = 1> (x, k)", high=24.0),
    FlatCase("as many rows in all images", SIDES + "n = Expand (i2, b) y = ReverseSequence "
             "<time_axis = 0, batch_axis = 1> (x, n)", least=2),
    FlatCase("lines of text", SIDES + "n = Expand (b, a) y = ReverseSequence <time_axis = 1, "
             "batch_axis = 0> (x, n)", "float[2,W,3]", "float[2,w,3]"),
    FlatCase("channels by one length each", numbers("n", 3, 1, 2) + "y = ReverseSequence "
             "<time_axis = 0, batch_axis = 1> (x, n)", "float[H,3,W]", "float[h,3,w]", least=3),
]  # fmt: skip

CROPPED = numbers("t", 9, 7) + "c = CenterCropPad <axes = [0, 1]> (x, t) "
OF_ONE_SIZE = [
    FlatCase("places set in a crop of one size", CROPPED + "limit = Constant <value_float = 99.0> "
             "() b = Greater (c, limit) nz = NonZero (b) p = Transpose <perm = [1, 0]> (nz) "
             "v = GatherND (c, p) n = Neg (v) y = ScatterND (c, p, n)", GRAY, "float[9,7]",
             stacked=True),
    FlatCase("rows of a crop of one size by places of each", CROPPED + "d = Constant <value_ints "
             "= [7]> () r = Resize <axes = [1]> (x,,,d) " + numbers("k", 1)
             + "m = ReduceMax <keepdims = 0> (r, k) limit = Constant <value_float = 220.0> () "
             "b = Greater (m, limit) i = Cast <to = 7> (b) y = Gather <axis = 0> (c, i)", GRAY,
             "float[h,7]"),
]  # fmt: skip

CASES = [*OF_ONE_SIZE, *PLACES, *POSITIONS, *WRITTEN, *ALONG, *LOOKED_UP, *REVERSED]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_elements_of_images(case: FlatCase) -> None:
    prove_flat(case, counts=(1, 5))


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)


OUTSIDE = [
    FlatCase("a row", numbers("i", 4) + "y = Gather <axis = 0> (x, i)", IMAGE, "float[1,w,3]"),
    FlatCase("a row from the end", numbers("i", -5) + "y = Gather <axis = 0> (x, i)", IMAGE,
             "float[1,w,3]"),
    FlatCase("a pixel", "p = Constant <value = int64[1,2] {4, 0}> () y = GatherND (x, p)", GRAY,
             "float[1]", stacked=True),
    FlatCase("a column", "p = Constant <value = int64[1,2] {0, 4}> () y = GatherND (x, p)", GRAY,
             "float[1]", stacked=True),
    FlatCase("a pixel that is set", "p = Constant <value = int64[1,2] {4, 0}> () v = Constant "
             "<value_floats = [5.0]> () y = ScatterND (x, p, v)", GRAY, "float[h,w]"),
    FlatCase("pixels that are set", ALL + "one2 = Constant <value_int = 1> () p1 = Add (p, one2) "
             "y = ScatterND (x, p1, x)", GRAY, "float[h,w]"),
    FlatCase("pixels that do not fit", ALL + numbers("d", 5, 3) + "canvas = ConstantOfShape (d) "
             "y = ScatterND (canvas, p, x)", GRAY, "float[5,3]"),
    FlatCase("fewer pixels than places", ALL + numbers("a", 1) + numbers("b", 99)
             + "p1 = Slice (p, a, b, k) y = ScatterND (x, p1, x)", GRAY, "float[h,w]"),
    FlatCase("more rows than there are", numbers("n", 5, 5, 5) + "y = ReverseSequence <time_axis "
             "= 0, batch_axis = 1> (x, n)", "float[H,3,W]", "float[h,3,w]"),
    FlatCase("an entry", OWN + "i = Cast <to = 7> (x) y = Gather (t, i)", IMAGE, "float[h,w,3]"),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("case", OUTSIDE, ids=str)
def test_what_lies_outside_of_an_image_is_none_of_its_neighbours(case: FlatCase) -> None:
    large, small = drawn(case, 2)
    large = np.resize(large, (9, 9, *large.shape[2:]))
    small = np.resize(small, (4, 4, *small.shape[2:]))
    session = backends.open_session(reached(case), "onnxruntime")
    for images in ([small], [small, large], [large, small]):
        with pytest.raises(BackendError):
            session.run({"xs": images})


def test_places_that_are_cut_off_are_not_looked_up() -> None:
    case = FlatCase(
        "cut",
        numbers("a", 1) + numbers("e", 99) + numbers("k", 0) + "t = Constant <value_floats = "
        "[1.0, 2.0]> () c = Slice (x, a, e, k) y = Gather (t, c)",
        "int64[H,W]",
        "float[h,w]",
        high=1.0,
    )
    images = [np.minimum(image, 1) for image in drawn(case, 3)]
    for image in images:
        image[0] = 99
    prove_flat(case, feeds=[images])
