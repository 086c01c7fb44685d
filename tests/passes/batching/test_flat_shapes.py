"""Samples that differ along several axes: other shapes of them, and work along some of the axes."""

from __future__ import annotations

import numpy as np
import pytest

import rewriter
from rewriter import backends
from rewriter.errors import BackendError
from rewriter.proof.engines import plain_expansion
from tests.passes.batching.images import (
    FlatCase,
    loops_and_sequences,
    numbers,
    prove_flat,
    prove_nothing,
    reached,
)
from tests.passes.batching.test_flat_padded import weights

MATRIX = "m = Constant <value = float[3,2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> () "
VECTOR = "v = Constant <value_floats = [0.3, 0.6, 0.1]> () "
SIZES = "h = Shape <start = 1, end = 2> (x) w = Shape <start = 2, end = 3> (x) "
COUNTED = (
    "zero = Constant <value_int = 0> () one = Constant <value_int = 1> () "
    + numbers("first", 0)
    + "h = Shape <start = 0, end = 1> (x) w = Shape <start = 1, end = 2> (x) "
    "hs = Squeeze (h, first) ws = Squeeze (w, first) "
    "ri = Range (zero, hs, one) ci = Range (zero, ws, one) "
    "r = Cast <to = 1> (ri) c = Cast <to = 1> (ci) " + numbers("k", 1) + "rows = Unsqueeze (r, k) "
)

OPEN_OR_COPIED = (
    numbers("axes", 0, 1, 2)
    + numbers("first", 0)
    + "most = ReduceMax <keepdims = 0> (x, axes) half = Constant <value_float = 128.0> () "
    "above = Greater (most, half) one = Cast <to = 7> (above) u = Unsqueeze (one, first) "
    "k = Neg (u) "
)
"""A dimension of -1 in an image with a bright pixel, of 0 in a dark one."""

WEIGHTS = (
    "n = Constant <value_floats = [1.0, -2.0, 0.5, 3.0, -1.0, 2.0, 0.25, 1.5, -0.5, 1.0, 2.0, -3.0]>"
    " () d = Constant <value_ints = [2, 2, 3, 1]> () f = Reshape (n, d) "
)
ROWS = (
    numbers("k", -1)
    + "t = Transpose <perm = [0, 2, 3, 1]> (p) s = Shape <start = 0, end = 2> (t) "
    "u = Concat <axis = 0> (s, k) r = Reshape (t, u) y = Transpose <perm = [0, 2, 1]> (r)"
)
"""All that a row holds, behind each other, as exporters write it between filters and a GRU."""

RESHAPED = [
    *(
        FlatCase(f"rows behind {name}", f"{WEIGHTS} p = {nodes} (x{', f' * has_filter}) {ROWS}",
                 "float[1,2,H,8]", "float[1,n,h]", least=3, tolerance=1e-6)
        for name, nodes, has_filter in (
            ("a pool along them", "MaxPool <kernel_shape = [1, 4], strides = [1, 4]>", False),
            ("a filter", "Conv <pads = [1, 0, 1, 0]>", True),
            ("a filter that leaves fewer", "Conv", True),
            ("a filter that skips rows", "Conv <strides = [2, 1]>", True),
        )
    ),
    FlatCase("pixels", numbers("t", -1, 3) + "y = Reshape (x, t)", "uint8[H,W,3]", "uint8[n,3]"),
    FlatCase("vectors", numbers("t", -1) + "y = Reshape (x, t)", result="float[n]"),
    FlatCase("one vector more", numbers("t", 1, -1) + "y = Reshape (x, t)", result="float[1,n]"),
    FlatCase("a mean of pixels", numbers("t", -1, 3) + numbers("k", 0) + "p = Reshape (x, t) "
             "y = ReduceMean <keepdims = 0> (p, k)", result="float[3]", stacked=True,
             tolerance=1e-6),
    FlatCase("flattened", "y = Flatten (x)", "float[3,H,W]", "float[3,n]"),
    FlatCase("flattened behind", "y = Flatten <axis = 2> (x)", result="float[n,3]"),
    FlatCase("flattened whole", "y = Flatten <axis = 0> (x)", result="float[1,n]"),
    FlatCase("flattened, the last axis apart", "y = Flatten <axis = -1> (x)", "float[3,H,W]",
             "float[n,w]"),
    FlatCase("a copied axis", numbers("t", 0, -1) + "y = Reshape (x, t)", result="float[h,n]"),
    FlatCase("two copied axes", numbers("t", 0, 0, 3, 1) + "y = Reshape (x, t)",
             result="float[h,w,3,1]"),
    FlatCase("zeros that are none", numbers("t", 0, 3) + numbers("u", -1, 3) + numbers("a", 0)
             + "p = Reshape (x, u) z = Slice (p, a, a, a) y = Reshape <allowzero = 1> (z, t)",
             result="float[0,3]", stacked=True),
    FlatCase("its own shape", "s = Shape (x) r = Neg (x) y = Reshape (r, s)"),
    FlatCase("the shape of another value", numbers("z", 0) + "u = Unsqueeze (x, z) "
             "s = Shape (x) r = Reshape (u, s) y = Sub (r, x)"),
    FlatCase("there and back", numbers("t", 3, -1) + "f = Reshape (x, t) n = Neg (f) "
             "s = Shape (x) r = Reshape (n, s) y = Add (r, x)", "float[3,H,W]", "float[3,h,w]"),
    FlatCase("transposed pixels", "t = Transpose <perm = [1, 0, 2]> (x) "
             + numbers("n", -1) + "y = Reshape (t, n)", result="float[n]"),
    *(
        FlatCase(f"{name} as the model runs", f"{OPEN_OR_COPIED}{constant}"
                 f"s = Concat <axis = 0> ({shape}) y = Reshape <allowzero = {keeps}> (x, s)",
                 result=result, low=low, high=high)
        for name, constant, shape, result, low, high, keeps in (
            ("open behind a copied one", numbers("c", 0), "c, k", "float[n,m]", 200.0, 255.0, 0),
            ("open before a copied one", numbers("c", 0), "k, c", "float[n,m]", 200.0, 255.0, 0),
            ("open before two", numbers("c", 3, 1), "k, c", "float[n,m,l]", 200.0, 255.0, 0),
            ("open where none is copied", numbers("c", 3), "k, c", "float[n,m]", 200.0, 255.0, 1),
            ("copied before an open one", numbers("c", -1), "k, c", "float[n,m]", 0.0, 100.0, 0),
            ("copied behind an open one", numbers("c", 0, -1), "c, k", "float[n,m,l]", 0.0, 100.0,
             0),
        )
    ),
    FlatCase("a product of sizes", SIZES + "a = Mul (h, w) " + numbers("c", 3)
             + "t = Concat <axis = 0> (c, a) y = Reshape (x, t)", "float[3,H,W]", "float[3,n]"),
    FlatCase("patches", SIZES + numbers("p", 2) + numbers("c", 3) + numbers("o", 0, 0)
             + numbers("k", 1, 2) + numbers("d", 12)
             + "a = Div (h, p) b = Div (w, p) m = Mul (a, p) n = Mul (b, p) "
             "e = Concat <axis = 0> (m, n) cut = Slice (x, o, e, k) "
             "t = Concat <axis = 0> (c, a, p, b, p) r = Reshape (cut, t) "
             "q = Transpose <perm = [1, 3, 0, 2, 4]> (r) ab = Mul (a, b) "
             "u = Concat <axis = 0> (ab, d) y = Reshape (q, u)",
             "float[3,H,W]", "float[n,12]", least=2),
    FlatCase("four channels as four pixels", SIZES + numbers("t", 2) + numbers("o", 1)
             + "s = Concat <axis = 0> (t, t, o, h, w) r = Reshape (x, s) "
             "q = Transpose <perm = [2, 3, 0, 4, 1]> (r) a = Mul (h, t) b = Mul (w, t) "
             "u = Concat <axis = 0> (o, a, b) y = Reshape (q, u)", "float[4,H,W]", "float[1,h,w]"),
    FlatCase("what was cropped", numbers("t", 9) + numbers("n", -1, 9)
             + "c = CenterCropPad <axes = [1]> (x, t) y = Reshape (c, n)", "float[H,W]",
             "float[n,9]"),
    *(
        FlatCase(f"filtered behind a pad by {mode}", SIZES + numbers("z", 0)
                 + numbers("p", 0, 0, 1, 2, 0, 0, 1, 2) + numbers("o", -1, 3) + numbers("a", 4)
                 + numbers("b", 2) + weights("k", 3, 1, 3, 5) + "u = Unsqueeze (x, z) "
                 f'q = Pad <mode = "{mode}"> (u, p) ph = Add (h, b) pw = Add (w, a) '
                 "s = Concat <axis = 0> (o, ph, pw) r = Reshape <allowzero = 1> (q, s) "
                 "c = Conv <group = 3> (r, k) y = Squeeze (c, z)",
                 "float[3,H,W]", "float[3,h,w]", least=4, tolerance=1e-6)
        for mode in ("constant", "edge", "reflect")
    ),
    FlatCase("what was resized", numbers("t", 9, 11) + numbers("n", -1, 3)
             + 'c = Resize <axes = [0, 1], mode = "linear", '
             'keep_aspect_ratio_policy = "not_larger"> (x,,,t) y = Reshape (c, n)',
             "uint8[H,W,3]", "uint8[n,3]"),
    FlatCase("one shape", numbers("t", 9, 11) + numbers("n", 11, -1)
             + "c = Resize <axes = [0, 1]> (x,,,t) y = Reshape (c, n)", "uint8[H,W]",
             "uint8[11,9]", stacked=True),
]  # fmt: skip
ALONG = [
    FlatCase("means of rows", numbers("k", 1) + "y = ReduceMean <keepdims = 0> (x, k)",
             result="float[h,3]", tolerance=1e-6),
    FlatCase("greatest of columns", numbers("k", 0) + "y = ReduceMax <keepdims = 0> (x, k)",
             result="float[w,3]"),
    FlatCase("greatest of columns that stay", numbers("k", 0) + "y = ReduceMax (x, k)",
             result="float[1,w,3]"),
    FlatCase("rows of channels", numbers("k", 2) + "y = ReduceSum <keepdims = 0> (x, k)",
             "float[3,H,W]", "float[3,h]", tolerance=1e-6),
    FlatCase("channels in front", numbers("k", 0) + "y = ReduceMax <keepdims = 0> (x, k)",
             "float[3,H,W]", "float[h,w]"),
    FlatCase("columns and channels", numbers("k", 0, 2) + "y = ReduceMin <keepdims = 0> (x, k)",
             result="float[w]"),
    FlatCase("channels in front and rows", numbers("k", 0, 2) + "y = ReduceMin (x, k)",
             "float[3,H,W]", "float[1,h,1]"),
    FlatCase("less its row", numbers("k", 1) + "m = ReduceMax (x, k) y = Sub (x, m)"),
    FlatCase("less its column", numbers("k", 1) + "m = ReduceMax (x, k) y = Sub (x, m)",
             "float[3,H,W]", "float[3,h,w]"),
    FlatCase("less its channels", numbers("k", 0) + "m = ReduceMax (x, k) y = Sub (x, m)",
             "float[3,H,W]", "float[3,h,w]"),
    FlatCase("over rows", "y = Softmax <axis = 1> (x)", "float[H,W]", "float[h,w]", high=9.0,
             tolerance=1e-6),
    FlatCase("over columns", "y = LogSoftmax <axis = 0> (x)", "float[H,W,2]", "float[h,w,2]",
             high=9.0, tolerance=1e-5),
    FlatCase("over pixels", numbers("t", 4, -1) + "f = Reshape (x, t) p = Softmax <axis = 1> (f) "
             "s = Shape (x) y = Reshape (p, s)", "float[4,H,W]", "float[4,h,w]", high=9.0,
             tolerance=1e-6),
    FlatCase("best of rows", "y = ArgMax <axis = 1, keepdims = 0> (x)", "float[H,W]", "int64[h]"),
    FlatCase("last least of columns", "y = ArgMin <axis = 0, select_last_index = 1> (x)",
             "float[H,W,3]", "int64[1,w,3]"),
    FlatCase("where a mask begins", numbers("k", 1) + "m = ReduceMax <keepdims = 0> (x, k) "
             "y = ArgMax <axis = 0> (m)", "float[H,W]", "int64[1]", stacked=True),
]  # fmt: skip
SPREAD = [
    FlatCase("rows counted", COUNTED + "y = Add (x, rows)", "float[H,W]", "float[h,w]"),
    FlatCase("columns counted", COUNTED + "y = Add (x, c)", "float[H,W]", "float[h,w]"),
    FlatCase("a table of both", COUNTED + "y = Mul (rows, c)", "float[H,W]", "float[h,w]"),
    FlatCase("a table beside pixels", COUNTED + "t = Mul (rows, c) y = Mul (x, t)",
             "float[H,W]", "float[h,w]"),
    FlatCase("a table for channels", COUNTED + numbers("l", 2) + "cc = Unsqueeze (c, k) "
             "rr = Unsqueeze (rows, l) a = Mul (x, rr) y = Sub (a, cc)", result="float[h,w,3]"),
    FlatCase("rows beside columns of other channels", COUNTED + numbers("l", 2) + "cc = Unsqueeze (c, k) "
             "rr = Unsqueeze (rows, l) a = Mul (rr, rr) y = Sub (a, cc)", result="float[h,w,1]"),
    FlatCase("pixels and their greys", numbers("j", 2) + "g = ReduceMax (x, j) y = Sub (x, g)"),
    FlatCase("greys and their pixels", numbers("j", 2) + "g = ReduceMax (x, j) y = Sub (g, x)"),
    FlatCase("rows counted for channels", COUNTED + numbers("l", 2) + "rr = Unsqueeze (rows, l) "
             "y = Add (rr, x)", result="float[h,w,3]"),
    FlatCase("columns counted onto their greys", COUNTED + numbers("j", 2) + numbers("z", 0)
             + "g = ReduceMax (x, j) t = Transpose <perm = [1, 0, 2]> (g) "
             "u = Transpose <perm = [1, 0, 2]> (x) y = Mul (t, u)"),
    FlatCase("the middle of its mass", COUNTED + "s = ReduceSum <keepdims = 0> (x) "
             "p = Div (x, s) q = ReduceSum <keepdims = 0> (p, k) m = Mul (q, r) "
             "y = ReduceSum <keepdims = 1> (m, first)", "float[H,W]", "float[1]", low=1.0,
             stacked=True, tolerance=1e-5),
]  # fmt: skip
BY_MATRIX = [
    FlatCase("by a vector", VECTOR + "y = MatMul (x, v)", result="float[h,w]", tolerance=1e-6),
    FlatCase("channels moved, by a vector", VECTOR + "t = Transpose <perm = [1, 2, 0]> (x) "
             "y = MatMul (t, v)", "float[3,H,W]", "float[h,w]", tolerance=1e-6),
    FlatCase("channels moved, by a matrix", MATRIX + "t = Transpose <perm = [1, 2, 0]> (x) "
             "p = MatMul (t, m) y = Transpose <perm = [2, 0, 1]> (p)", "float[3,H,W]",
             "float[2,h,w]", tolerance=1e-6),
    FlatCase("one more axis, by a matrix", MATRIX + numbers("z", 0) + "u = Unsqueeze (x, z) "
             "t = Transpose <perm = [0, 2, 3, 1]> (u) y = MatMul (t, m)", "float[3,H,W]",
             "float[1,h,w,2]", tolerance=1e-6),
    FlatCase("channels normalised", VECTOR + "y = LayerNormalization (x, v)", tolerance=1e-5),
    FlatCase("channels moved and normalised", VECTOR + "t = Transpose <perm = [1, 2, 0]> (x) "
             "y = LayerNormalization <axis = 2> (t, v, v)", "float[3,H,W]", "float[h,w,3]",
             tolerance=1e-5),
    FlatCase("by the root of its squares", VECTOR + "y = RMSNormalization (x, v)",
             tolerance=1e-5, opset=23),
]  # fmt: skip
CASES = [*RESHAPED, *ALONG, *SPREAD, *BY_MATRIX]


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES, ids=str)
def test_images_of_any_size(case: FlatCase) -> None:
    prove_flat(case)


@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)


def test_a_shape_that_does_not_fit_one_image_is_an_error() -> None:
    """Together they would have as many elements."""
    case = FlatCase("", numbers("t", 4, -1) + "y = Reshape (x, t)", "float[H,W]", "float[4,n]")
    images = [np.zeros((2, 3), np.float32), np.zeros((2, 5), np.float32)]
    session = backends.open_session(reached(case), "onnxruntime")
    with pytest.raises(BackendError):
        session.run({"xs": images})
    fitting = [np.zeros((2, 2), np.float32), np.ones((2, 4), np.float32)]
    prove_flat(case, feeds=[fitting])


def test_a_shape_that_fits_by_proof_is_not_compared() -> None:
    nodes = numbers("t", 0, 0, 3, 1) + "y = Reshape (x, t)"
    case = FlatCase("", nodes, result="float[h,w,3,1]")
    assert "Equal" not in {node.op_type for node in reached(case).graph.node}


def test_a_dimension_that_may_have_a_meaning() -> None:
    """One that is computed as -1, or as 0, is taken as Reshape takes it."""
    text = (
        "h = Shape <start = 0, end = 1> (x) n = Cast <to = 7> (x) "
        + numbers("f", 0)
        + numbers("e", -1)
        + "v = Reshape (n, e) d = Gather <axis = 0> (v, f) t = Concat <axis = 0> (d, h) "
        "y = Reshape (x, t)"
    )
    case = FlatCase("", text, "float[H,W]", "float[m,h]")
    rng = np.random.default_rng(0)
    shapes = [(4, 6), (3, 3), (2, 5), (5, 5)]
    images = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    for image, number in zip(images, (-1, 0, -1, 0), strict=True):
        image[0, 0] = number
    prove_flat(case, feeds=[images])


def test_an_image_of_which_nothing_is_left() -> None:
    """It is empty, and reads no row of a neighbour in order to be."""
    text = (
        numbers("t", 14)
        + numbers("a", -6)
        + numbers("b", 7)
        + numbers("k", 0)
        + "c = CenterCropPad <axes = [1]> (x, t) s = Slice (c, a, b, k) y = Neg (s)"
    )
    case = FlatCase("", text, result="float[h,14,3]")
    rng = np.random.default_rng(0)
    for sizes in ([(14, 5)], [(14, 5), (10, 9)], [(10, 9), (14, 5), (13, 2)]):
        images = [rng.random((*size, 3), np.float32) for size in sizes]
        prove_flat(case, feeds=[images])


TO = numbers("t", 9, 11)
MISSING = (
    numbers("t", 26)
    + SIZES
    + ("zero = Constant <value_ints = [0]> () down = Sub (t, h) right = Sub (t, w) ")
)
"""What is missing to 26 rows and columns of images ``[3, h, w]``."""
PADDED = [
    FlatCase(
        "pads that are zero by sum",
        MISSING + "p = Concat <axis = 0> (zero, zero, zero, zero, down, right) "
        "q = Pad (x, p) y = Squeeze (q, zero)",
        "float[1,H,W]",
        "float[26,26]",
        stacked=True,
    ),
    FlatCase(
        "pads that were taken apart",
        MISSING + "u = Constant <value_int = 0> () p = Concat <axis = 0> "
        "(zero, down, right, zero, zero, zero) a, b, c, d, e, f = Split <num_outputs = 6> (p) "
        "r = Concat <axis = 0> (d, e, f, a, b, c) q = Pad (x, r) "
        "y = Gather <axis = 0> (q, u)",
        "float[3,H,W]",
        "float[26,26]",
        stacked=True,
    ),
]


@pytest.mark.parametrize("case", PADDED, ids=str)
def test_pads_of_each_image(case: FlatCase) -> None:
    prove_flat(case)


BOUNDS = "a = ReduceMin <keepdims = 0> (x) m = ReduceMax <keepdims = 0> (x) " + (
    "f = Constant <value_float = 0.5> () b = Mul (m, f) "
)
CLIPPED = {
    "both bounds": "y = Clip (x, a, b)",
    "the lower one": "y = Clip (x, b)",
    "the upper one": "y = Clip (x, , b)",
    "what is read anew": numbers("t", 9, 11)
    + "c = CenterCropPad <axes = [0, 1]> (x, t) y = Clip (c, b, m)",
    "what is summed": numbers("t", 9, 11)
    + 'c = Resize <axes = [0, 1], mode = "linear"> (x,,,t) y = Clip (c, a, b)',
}


@pytest.mark.parametrize("name", CLIPPED)
def test_bounds_of_each_image(name: str) -> None:
    case = FlatCase(name, BOUNDS + CLIPPED[name], result="float[h,w,3]")
    prove_flat(case)
    prove_nothing(case)


PROMISED = {
    "nearest": TO + "y = Resize <axes = [0, 1]> (x,,,t)",
    "linear": TO + 'y = Resize <axes = [0, 1], mode = "linear"> (x,,,t)',
    "antialias": TO + 'y = Resize <axes = [0, 1], mode = "linear", antialias = 1> (x,,,t)',
    "its aspect kept, and cropped": TO + 'r = Resize <axes = [0, 1], mode = "linear", '
    'keep_aspect_ratio_policy = "not_smaller"> (x,,,t) y = CenterCropPad <axes = [0, 1]> (r, t)',
    "cropped": TO + "y = CenterCropPad <axes = [0, 1]> (x, t)",
    "two channels": numbers("t", 9, 11, 2)
    + 'y = Resize <axes = [0, 1, 2], mode = "nearest"> (x,,,t)',
}


@pytest.mark.parametrize("shape", [(None, 13, 3), (10, None, 3)], ids=str)
@pytest.mark.parametrize("name", PROMISED)
@pytest.mark.long
def test_a_size_that_is_promised(name: str, shape: tuple[int | None, ...]) -> None:
    """Images that differ along one axis alone are packed, until both are resized."""
    result = "uint8[9,11,2]" if name == "two channels" else "uint8[9,11,3]"
    case = FlatCase("", PROMISED[name], "uint8[H,W,3]", result, stacked=True)
    after = rewriter.optimize(
        case.model, target="portable", tensor_io=True, input_shapes={"xs": shape}
    )
    assert not loops_and_sequences(after)
    rng = np.random.default_rng(0)
    old = backends.open_session(plain_expansion(case.model), "onnxruntime")
    for count in (1, 4):
        images = [
            rng.integers(0, 256, [d or rng.integers(1, 30) for d in shape]).astype(np.uint8)
            for _ in range(count)
        ]
        found = rewriter.run(after, {"xs": images})["y_all"]
        np.testing.assert_array_equal(found, old.run({"xs": images})["y_all"])


def test_what_works_row_by_row_reads_no_pixel_in_between() -> None:
    cut = numbers("a", 1) + numbers("e", 99) + numbers("k", 0) + numbers("s", 2)
    case = FlatCase("", cut + "f = Constant <value_float = 2.0> () c = Slice (x, a, e, k, s) "
                    "n = Neg (c) m = Mul (n, f) y = Slice (m, a, e, k, s)", least=8)  # fmt: skip
    prove_flat(case, counts=(3,))
    assert [node.op_type for node in reached(case).graph.node].count("GatherND") == 1
