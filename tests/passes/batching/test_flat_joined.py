"""Samples that differ along several axes: joined, repeated, looked up and normalised."""

from __future__ import annotations

import pytest

from tests.passes.batching.images import FlatCase, numbers, prove_flat, prove_nothing

LEAST, MOST = -(2**63), 2**63 - 1
TURNED = numbers("a", -1) + numbers("b", LEAST) + numbers("k", 1) + numbers("s", -1)
TABLE = "t = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> () "
PALETTE = "t = Constant <value = float[4,3] {1., 2., 3., 4., 5., 6., 7., 8., 9., 8., 7., 6.}> () "
INDEX = "i = Cast <to = 7> (x) "
ONE_HOT = INDEX + "d = Constant <value_int = 5> () v = Constant <value_floats = [0.0, 1.0]> () "
SCALE = "c = Constant <value_float = 0.5> () z = Constant <value = uint8 {3}> () "
SCALES = "c = Constant <value_floats = [0.5, 2.0, 0.25]> () z = Constant <value = uint8[3] {3, 0, 9}> ()"

JOINED = [
    FlatCase("beside its mirror image", TURNED + "f = Slice (x, a, b, k, s) "
             "y = Concat <axis = 1> (x, f)", "uint8[H,W,3]", "uint8[h,w,3]"),
    FlatCase("above itself", "y = Concat <axis = 0> (x, x, x)", "uint8[H,W,3]", "uint8[h,w,3]"),
    FlatCase("columns of channels in front", "y = Concat <axis = 2> (x, x)", "uint8[3,H,W]",
             "uint8[3,h,w]"),
    FlatCase("grey as three channels in front", "y = Concat <axis = 0> (x, x, x)", "float[1,H,W]",
             "float[3,h,w]"),
    FlatCase("channels beside others", "n = Neg (x) y = Concat <axis = 2> (x, n, x)",
             result="float[h,w,9]"),
    FlatCase("channels beside others, cut", numbers("a", 1) + numbers("e", MOST) + numbers("k", 0)
             + "p = Slice (x, a, e, k) n = Neg (p) y = Concat <axis = -1> (p, n)",
             result="float[h,w,6]", least=2),
    FlatCase("a list of two", TURNED + numbers("n", 0) + "f = Slice (x, a, b, k, s) "
             "u = Unsqueeze (x, n) v = Unsqueeze (f, n) y = Concat <axis = 0> (u, v)",
             "uint8[H,W,3]", "uint8[2,h,w,3]"),
    FlatCase("two parts of it", numbers("a", 0) + numbers("b", 2) + numbers("e", MOST)
             + numbers("k", 1) + "p = Slice (x, a, b, k) q = Slice (x, b, e, k) "
             "y = Concat <axis = 1> (q, p)", "uint8[H,W,3]", "uint8[h,w,3]", least=3),
    FlatCase("rows of pixels", numbers("t", -1, 3) + "p = Reshape (x, t) n = Neg (p) "
             "y = Concat <axis = 0> (p, n)", result="float[n,3]"),
    FlatCase("a row of means above it", numbers("k", 0) + "m = ReduceMax (x, k) "
             "y = Concat <axis = 0> (m, x)", result="float[h,w,3]"),
    FlatCase("rows behind one of all", "c = Constant <value = float[1,3] {1.0, 2.0, 3.0}> () "
             + numbers("t", -1, 3) + "p = Reshape (x, t) y = Concat <axis = 0> (c, p)",
             result="float[n,3]"),
    FlatCase("tokens behind one of all", "c = Constant <value = float[1,1,3] {1.0, 2.0, 3.0}> () "
             + numbers("k", 0) + "t = Transpose <perm = [2, 0, 1]> (x) u = Unsqueeze (t, k) "
             + numbers("r", 1, 3, -1) + "v = Reshape (u, r) q = Transpose <perm = [0, 2, 1]> (v) "
             "y = Concat <axis = 1> (c, q)", result="float[1,n,3]"),
    FlatCase("rows between two of its own", numbers("k", 0, 1) + "m = ReduceMax (x, k) "
             + numbers("s", 1, 3) + "m1 = Reshape (m, s) " + numbers("t", -1, 3)
             + "p = Reshape (x, t) y = Concat <axis = 0> (m1, p, m1)", result="float[n,3]"),
    FlatCase("pairs of pixels and a thumbnail", "d = Concat <axis = 0> (x, x) "
             + numbers("t", -1, 2, 3) + "p = Reshape (d, t) " + numbers("q", 2, 2)
             + 'r = Resize <axes = [0, 1], mode = "linear"> (x, , , q) '
             "y = Concat <axis = 0> (p, r)", result="float[n,2,3]"),
    FlatCase("a whole slice", numbers("a", 0) + numbers("e", MOST) + numbers("k", 0)
             + "p = Slice (x, a, e, k) y = Sub (x, p)"),
]  # fmt: skip
REPEATED = [
    FlatCase("tiled", numbers("t", 2, 3, 1) + "y = Tile (x, t)", "uint8[H,W,3]", "uint8[h,w,3]"),
    FlatCase("ones on the diagonal", "y = EyeLike (x)", "float[H,W]", "float[h,w]"),
    FlatCase(
        "whole ones beside the diagonal",
        "t = Transpose (x) y = EyeLike <k = -2, dtype = 7> (t)",
        "float[H,W]",
        "int64[w,h]",
    ),
    FlatCase("ones of few columns", "y = EyeLike <k = 1> (x)", "float[H,3]", "float[h,3]"),
    FlatCase(
        "tiled by its own height",
        numbers("one", 1) + numbers("three", 3) + "h = Shape <end = 1> (x) n = Mod (h, three) "
        "t = Concat <axis = 0> (n, one, n) y = Tile (x, t)",
        result="float[a,w,b]",
    ),
    FlatCase("tiled channels", numbers("t", 1, 1, 3) + "y = Tile (x, t)", result="float[h,w,9]"),
    FlatCase("tiled channels in front", numbers("t", 3, 1, 1) + "y = Tile (x, t)",
             "float[1,H,W]", "float[3,h,w]"),
    FlatCase("grey expanded", numbers("t", 1, 1, 3) + "y = Expand (x, t)", "float[H,W,1]",
             "float[h,w,3]"),
    FlatCase("grey expanded in front", numbers("t", 3, 1, 1) + "y = Expand (x, t)",
             "float[1,H,W]", "float[3,h,w]"),
    FlatCase("expanded by an axis", numbers("t", 2, 1, 1) + "y = Expand (x, t)", "float[H,W]",
             "float[2,h,w]"),
    FlatCase("depth as space", "y = DepthToSpace <blocksize = 2> (x)", "float[1,8,H,W]",
             "float[1,2,h,w]"),
    FlatCase("depth as space by columns", 'y = DepthToSpace <blocksize = 2, mode = "CRD"> (x)',
             "float[1,8,H,W]", "float[1,2,h,w]"),
    FlatCase("space as depth", numbers("t", 1, 1, 2, 2) + "z = Tile (x, t) "
             "y = SpaceToDepth <blocksize = 2> (z)", "float[1,3,H,W]", "float[1,12,h,w]"),
]  # fmt: skip
LOOKED_UP = [
    FlatCase("by a table", TABLE + INDEX + "y = Gather (t, i)", "uint8[H,W,3]", high=7.0),
    FlatCase("by a palette", PALETTE + INDEX + "y = Gather (t, i)", "uint8[H,W]", high=3.0),
    FlatCase("by a palette, channels first", PALETTE + INDEX + "g = Gather (t, i) "
             "y = Transpose <perm = [2, 0, 1]> (g)", "uint8[H,W]", "float[3,h,w]", high=3.0),
    FlatCase("classes as channels", ONE_HOT + "y = OneHot <axis = 0> (i, d, v)", "uint8[H,W]",
             "float[5,h,w]", high=4.0),
    FlatCase("how often each class is", ONE_HOT + numbers("k", 0, 1) + "o = OneHot (i, d, v) "
             "y = ReduceSum <keepdims = 0> (o, k)", "uint8[H,W]", "float[5]", high=4.0,
             stacked=True),
    FlatCase("quantized by its greatest", numbers("one", 1) + "f = Cast <to = 1> (one) "
             "m = ReduceMax <keepdims = 0> (x) e = Abs (m) g = Add (e, f) k = Squeeze (g) "
             "i = Shape <end = 1> (x) c = Cast <to = 2> (i) z = Squeeze (c) "
             "y = QuantizeLinear (x, k, z)", result="uint8[h,w,3]"),
    FlatCase("quantized by itself", "y, s, z = DynamicQuantizeLinear (x)", result="uint8[h,w,3]"),
    FlatCase("the scale of itself", "q, y, z = DynamicQuantizeLinear (x)", result="float[]"),
    FlatCase("quantized", SCALE + "y = QuantizeLinear (x, c, z)", result="uint8[h,w,3]"),
    FlatCase("taken back", SCALE + "y = DequantizeLinear (x, c, z)", "uint8[H,W,3]"),
    FlatCase("channels quantized", SCALES + "y = QuantizeLinear <axis = 2> (x, c, z)",
             result="uint8[h,w,3]"),
    FlatCase("channels in front taken back", SCALES + "y = DequantizeLinear <axis = 0> (x, c, z)",
             "uint8[3,H,W]", "float[3,h,w]"),
    FlatCase("a slope of channels", "s = Constant <value = float[3,1,1] {1.0, -2.0, 3.0}> () "
             "y = PRelu (x, s)", "float[3,H,W]", "float[3,h,w]", low=-9.0, high=9.0),
    FlatCase("over pixels and images", "y = MeanVarianceNormalization (x)", "float[1,3,H,W]",
             "float[1,3,h,w]", least=4, tolerance=1e-5),
    FlatCase("over pixels", "y = MeanVarianceNormalization <axes = [0, 1]> (x)", least=4,
             tolerance=1e-5),
]  # fmt: skip
CASES = [*JOINED, *REPEATED, *LOOKED_UP]


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES, ids=str)
def test_images_of_any_size(case: FlatCase) -> None:
    prove_flat(case)


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)
