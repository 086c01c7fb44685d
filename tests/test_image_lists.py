"""Preprocessing and measurements of lists of images, as their users write them.

Each is rewritten for a target without loops, branches and sequences, and compared with onnxruntime
on each image alone, for one, two and seven images of random sizes.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.images import FlatCase, drawn, prove_flat, prove_nothing

pytestmark = pytest.mark.long


def ints(name: str, *values: int) -> str:
    return f"{name} = Constant <value_ints = [{', '.join(map(str, values))}]> () "


def floats(name: str, *values: float) -> str:
    return f"{name} = Constant <value_floats = [{', '.join(map(str, values))}]> () "


def number(name: str, value: float) -> str:
    kind = "int" if isinstance(value, int) else "float"
    return f"{name} = Constant <value_{kind} = {value}> () "


BYTES = "uint8[H,W,3]"
FLOAT = "f = Cast <to = 1> (x) "
SIZE = (
    "s = Shape (x) " + number("i0", 0) + number("i1", 1) + "h = Gather (s, i0) w = Gather (s, i1) "
)
SIDES = "hw = Shape <end = 2> (x) hwf = Cast <to = 1> (hw) "
LINEAR = 'Resize <axes = [0, 1], mode = "linear">'
GRAY = FLOAT + floats("luma", 0.299, 0.587, 0.114) + ints("last", 2) + (
    "weighted = Mul (f, luma) g = ReduceSum <keepdims = 0> (weighted, last) "
)  # fmt: skip
AS_BATCH = "t = Transpose <perm = [2, 0, 1]> (f) " + ints("z", 0) + "u = Unsqueeze (t, z) "
KERNEL = (
    floats("k9", *[1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0] * 3)
    + ints("k_dims", 3, 1, 3, 3)
    + number("sixteenth", 0.0625)
    + "k1 = Reshape (k9, k_dims) kernel = Mul (k1, sixteenth) "
)


def model(name: str, nodes: str, result: str, element: str = BYTES, **given: object) -> FlatCase:
    stacked = not any(dim.isalpha() for dim in result.partition("[")[2])
    return FlatCase(name, nodes, element, result, most=40, stacked=stacked, **given)  # type: ignore[arg-type]


MODELS = [
    model("shortest side to 24, then the middle", FLOAT + SIDES + floats("want", 24.0)
          + "least = ReduceMin <keepdims = 1> (hwf) r = Div (want, least) n0 = Mul (hwf, r) "
          "n1 = Round (n0) n = Cast <to = 7> (n1) " + f"big = {LINEAR} (f,,,n) "
          + ints("c", 20, 20) + "crop = CenterCropPad <axes = [0, 1]> (big, c) "
          "y = Transpose <perm = [2, 0, 1]> (crop)", "float[3,20,20]"),
    model("shortest side by an If", SIZE + FLOAT + number("want", 24) + ints("a", 0)
          + "tall = Greater (h, w) n = If (tall) <then_branch = yes () => (int64[2] p) { "
          "q = Mul (want, h) q1 = Div (q, w) q2 = Unsqueeze (q1, a) s2 = Unsqueeze (want, a) "
          "p = Concat <axis = 0> (q2, s2) }, else_branch = no () => (int64[2] o) { "
          "r = Mul (want, w) r1 = Div (r, h) r2 = Unsqueeze (r1, a) s3 = Unsqueeze (want, a) "
          f"o = Concat <axis = 0> (s3, r2) }}> y = {LINEAR} (f,,,n)", "float[h,w,3]"),
    model("no longer than 30 on a side", SIZE + FLOAT + number("limit", 30) + "m = Max (h, w) "
          "large = Greater (m, limit) y = If (large) <then_branch = yes () => (float[p,q,3] a) { "
          + floats("half", 0.5, 0.5) + f"a = {LINEAR} (f,,half) }}, "
          "else_branch = no () => (float[r,t,3] b) { b = Identity (f) }>", "float[h,w,3]"),
    model("portraits turned", SIZE + "tall = Greater (h, w) y = If (tall) <then_branch = yes () "
          "=> (uint8[p,q,3] a) { turn = Transpose <perm = [1, 0, 2]> (x) " + ints("e", -1)
          + ints("far", -(2**62)) + ints("k", 0) + "a = Slice (turn, e, far, k, e) }, "
          "else_branch = no () => (uint8[r,t,3] b) { b = Identity (x) }>", "uint8[h,w,3]"),
    model("letterbox", FLOAT + SIDES + floats("want", 24.0, 24.0) + "r = Div (want, hwf) "
          "least = ReduceMin <keepdims = 1> (r) n0 = Mul (hwf, least) n1 = Round (n0) "
          + number("one", 1.0) + "n2 = Max (n1, one) n = Cast <to = 7> (n2) "
          + f"in = {LINEAR} (f,,,n) want8 = Cast <to = 7> (want) d = Sub (want8, n) "
          + number("two", 2) + "b = Div (d, two) e = Sub (d, b) " + ints("none", 0)
          + "pads = Concat <axis = 0> (b, none, e, none) " + number("grey", 114.0)
          + "y = Pad (in, pads, grey)", "float[24,24,3]"),
    model("grayscale", GRAY + "r = Round (g) y = Cast <to = 2> (r)", "uint8[h,w]"),
    model("standardised, each by itself", FLOAT + "m = ReduceMean <keepdims = 1> (f) "
          "d = Sub (f, m) q = Mul (d, d) v = ReduceMean <keepdims = 1> (q) sd = Sqrt (v) "
          + number("one", 1.0) + "a = Max (sd, one) y = Div (d, a)", "float[h,w,3]",
          tolerance=2e-5),
    model("blurred", FLOAT + AS_BATCH + KERNEL + ints("p", 0, 0, 1, 1, 0, 0, 1, 1)
          + 'edge = Pad <mode = "edge"> (u, p) c = Conv <group = 3> (edge, kernel) '
          "y = Squeeze (c, z)", "float[3,h,w]", tolerance=1e-6),
    model("equalised", ints("all", -1) + "v0 = Cast <to = 7> (x) v = Reshape (v0, all) "
          + ints("n", 256) + "none = ConstantOfShape <value = int64[1] {0}> (n) sv = Shape (v) "
          "ones = ConstantOfShape <value = int64[1] {1}> (sv) count = ScatterElements <axis = 0, "
          'reduction = "add"> (none, v, ones) ' + number("first", 0) + "below = CumSum (count, "
          "first) most = ReduceMax <keepdims = 0> (below) " + number("top", 255)
          + "up = Mul (below, top) level = Div (up, most) bytes = Cast <to = 2> (level) "
          "y = Gather (bytes, v0)", "uint8[h,w]", "uint8[H,W]"),
    model("an opaque alpha channel", "hw = Shape <end = 2> (x) " + ints("one", 1)
          + "dims = Concat <axis = 0> (hw, one) a = ConstantOfShape <value = uint8[1] {255}> "
          "(dims) y = Concat <axis = 2> (x, a)", "uint8[h,w,4]"),
    model("area and centre of what is bright", GRAY + number("limit", 120.0)
          + "on = Greater (g, limit) m = Cast <to = 1> (on) area = ReduceSum <keepdims = 0> (m) "
          + SIZE + "ry = Range (i0, h, i1) rx = Range (i0, w, i1) fy = Cast <to = 1> (ry) "
          "fx = Cast <to = 1> (rx) " + ints("a1", 1) + ints("a0", 0) + "fy2 = Unsqueeze (fy, a1) "
          "my = Mul (m, fy2) mx = Mul (m, fx) sy = ReduceSum <keepdims = 0> (my) "
          "sx = ReduceSum <keepdims = 0> (mx) " + number("one", 1.0) + "n = Max (area, one) "
          "cy = Div (sy, n) cx = Div (sx, n) o1 = Unsqueeze (cy, a0) o2 = Unsqueeze (cx, a0) "
          "o3 = Unsqueeze (area, a0) y = Concat <axis = 0> (o1, o2, o3)", "float[3]",
          tolerance=1e-5),
    model("cut to its content", GRAY + number("limit", 60.0) + "on = Greater (g, limit) "
          "nz = NonZero (on) " + ints("k1", 1) + "lo = ReduceMin <keepdims = 0> (nz, k1) "
          "hi = ReduceMax <keepdims = 0> (nz, k1) " + number("one", 1) + "e = Add (hi, one) "
          + ints("k", 0, 1) + "y = Slice (x, lo, e, k)", "uint8[h,w,3]", least=4),
    model("mean of what is bright", GRAY + number("limit", 100.0) + "on = Greater (g, limit) "
          "nz = NonZero (on) p = Transpose <perm = [1, 0]> (nz) v = GatherND (f, p) "
          + ints("k0", 0) + "sum = ReduceSum <keepdims = 0> (v, k0) n = Shape <end = 1> (p) "
          "nf = Cast <to = 1> (n) " + floats("one", 1.0) + "m = Max (nf, one) y = Div (sum, m)",
          "float[3]", tolerance=1e-5),
    model("its brightest pixels painted", GRAY + "m = ReduceMax <keepdims = 0> (g) "
          "on = Equal (g, m) nz = NonZero (on) p = Transpose <perm = [1, 0]> (nz) "
          "v = GatherND (f, p) n = Neg (v) y = ScatterND (f, p, n)", "float[h,w,3]"),
    model("every other pixel", SIZE + number("two", 2) + "iy = Range (i0, h, two) "
          "ix = Range (i0, w, two) t = Gather <axis = 0> (x, iy) y = Gather <axis = 1> (t, ix)",
          "uint8[h,w,3]"),
    model("nearest pixels by hand", SIZE + number("n", 9) + "r = Range (i0, n, i1) "
          "rh = Mul (r, h) ih = Div (rh, n) rw = Mul (r, w) iw = Div (rw, n) "
          "t = Gather <axis = 0> (x, ih) y = Gather <axis = 1> (t, iw)", "uint8[9,9,3]"),
    model("the row of the brightest mean", FLOAT + ints("k", 1, 2)
          + "p = ReduceMean <keepdims = 0> (f, k) i = ArgMax <axis = 0, keepdims = 0> (p) "
          "y = Gather <axis = 0> (f, i)", "float[w,3]"),
    model("place of the brightest", GRAY + ints("all", -1) + "v = Reshape (g, all) "
          "i = ArgMax <axis = 0, keepdims = 0> (v) " + SIZE + ints("a0", 0) + "q = Div (i, w) "
          "m = Mod (i, w) qu = Unsqueeze (q, a0) mu = Unsqueeze (m, a0) "
          "y = Concat <axis = 0> (qu, mu)", "int64[2]"),
    model("padded to a multiple of 8", FLOAT + "hw = Shape <end = 2> (x) " + number("k", 8)
          + number("k1", 7) + "a = Add (hw, k1) b = Div (a, k) c = Mul (b, k) d = Sub (c, hw) "
          + ints("none", 0) + ints("front", 0, 0, 0) + "p = Concat <axis = 0> (front, d, none) "
          "y = Pad (f, p)", "float[h,w,3]"),
]  # fmt: skip


@pytest.mark.parametrize("case", MODELS, ids=str)
def test_images_as_their_users_prepare_them(case: FlatCase) -> None:
    prove_flat(case, counts=(1, 2, 7))


@pytest.mark.parametrize("case", MODELS[::4], ids=str)
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)


@pytest.mark.full
@pytest.mark.parametrize("case", MODELS, ids=str)
def test_large_images_beside_small_ones(case: FlatCase) -> None:
    """From the least size to 300 x 200."""
    rng = np.random.default_rng(0)
    batches = []
    for seed in range(3):
        shapes = [image.shape for image in drawn(case, 7, seed)]
        sizes = np.exp(rng.uniform(np.log(case.least), np.log([300, 200]), (7, 2))).astype(int)
        batch = [(*size, *shape[2:]) for size, shape in zip(sizes, shapes, strict=True)]
        batches.append([rng.integers(0, 256, shape).astype(np.uint8) for shape in batch])
    prove_flat(case, feeds=batches)
