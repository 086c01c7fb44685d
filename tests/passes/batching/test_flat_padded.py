"""Rules that pad images of any size to the largest: products, sums, windows, normalisations."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import backends
from rewriter.errors import BackendError
from tests.passes.batching.images import FlatCase, numbers, prove_flat, prove_nothing, reached

IMAGE, IMAGES = "float[3,H,W]", "float[1,3,H,W]"


def case(
    name: str, nodes: str, result: str, element: str = IMAGES, *, least: int = 1, opset: int = 18
) -> FlatCase:
    """Make a case of numbers around zero, which sums may round otherwise."""
    return FlatCase(
        name,
        nodes,
        element,
        result,
        least=least,
        most=12,
        low=-3.0,
        high=3.0,
        tolerance=2e-5,
        opset=opset,
    )


def weights(name: str, *dims: int) -> str:
    """Return a constant of these dimensions as text."""
    count = 1
    for dim in dims:
        count *= dim
    numbers = ", ".join(str((i * 5 % 11) / 8 - 0.5) for i in range(count))
    return f"{name} = Constant <value = float[{','.join(map(str, dims))}] {{{numbers}}}> () "


def einsum(equation: str, result: str, inputs: str = "x") -> FlatCase:
    """Make a case of an Einsum of images ``[3, h, w]`` and a matrix ``m [2, 3]``."""
    nodes = f'{weights("m", 2, 3)} y = Einsum <equation = "{equation}"> ({inputs})'
    return case(f"{equation} of {inputs}", nodes, result, IMAGE)


def cumulated(axis: int, attributes: str = "") -> FlatCase:
    """Make a case of a CumSum."""
    nodes = f"a = Constant <value_int = {axis}> () y = CumSum {attributes} (x, a)"
    return case(f"sums along {axis} {attributes}", nodes, "float[3,h,w]", IMAGE)


def normalized(opset: int, count: int) -> FlatCase:
    """Make a case of a GroupNormalization, whose numbers are of groups before opset 21."""
    nodes = weights("s", count) + weights("b", count)
    nodes += "y = GroupNormalization <num_groups = 2> (x, s, b)"
    result, element = "float[1,6,h,w]", "float[1,6,H,W]"
    return case(f"groups at opset {opset}", nodes, result, element, opset=opset)


TURNED = "t = Transpose <perm = [1, 0]> (x) "
FILTERS, SPREAD = weights("k", 3, 3, 3, 3), weights("s", 3, 2, 2, 2)
ALIKE = "c = Conv <pads = [1, 1, 1, 1]> (x, k) "

PRODUCTS = [
    case("by itself turned", TURNED + "y = MatMul (x, t)", "float[h,g]", "float[H,W]"),
    case("turned by itself", TURNED + "y = MatMul (t, x)", "float[w,v]", "float[H,W]"),
    case(
        "attention of rows",
        TURNED + "q = MatMul (x, t) p = Softmax (q) y = MatMul (p, x)",
        "float[h,w]",
        "float[H,W]",
    ),
    case(
        "each channel by itself",
        "t = Transpose <perm = [0, 2, 1]> (x) y = MatMul (x, t)",
        "float[3,h,g]",
        IMAGE,
    ),
    case("by a matrix on the left", weights("m", 2, 3)
         + "f = Flatten <axis = 1> (x) y = MatMul (m, f)", "float[2,n]", IMAGE),
    einsum("chw,dc->dhw", "float[2,h,w]", "x, m"),
    einsum("chw,dhw->cd", "float[3,3]", "x, x"),
    einsum("chw,cvw->chv", "float[3,h,v]", "x, x"),
    einsum("chw->hc", "float[h,3]"),
    einsum("chw->c", "float[3]"),
    einsum("chw->whc", "float[w,h,3]"),
    einsum("dc, ...chw -> ...dhw", "float[2,h,w]", "m, x"),
    einsum("c..., dc -> d...", "float[2,h,w]", "x, m"),
    einsum("...h, ...h", "float[3,h]", "x, x"),
    einsum("...hw, ...vw -> ...hv", "float[3,h,v]", "x, x"),
]  # fmt: skip
CUMULATED = [
    *(cumulated(axis) for axis in (0, 1, 2, -1)),
    cumulated(1, "<reverse = 1>"),
    cumulated(2, "<exclusive = 1, reverse = 1>"),
    case("a triangle", "y = Trilu <upper = 0> (x)", "float[h,w]", "float[H,W]"),
    case("among channels", "y = LRN <size = 3> (x)", "float[1,5,h,w]", "float[1,5,H,W]"),
]
WINDOWED = [
    case("spread", SPREAD + "y = ConvTranspose <strides = [2, 2]> (x, s)", "float[1,2,h,w]"),
    case(
        "spread with pads",
        SPREAD + weights("b", 2) + "y = ConvTranspose <strides = [2, 1], pads = [1, 0, 0, 1], "
        "output_padding = [1, 0], dilations = [1, 2]> (x, s, b)",
        "float[1,2,h,w]",
        least=2,
    ),
    case("added to what it was made of", FILTERS + ALIKE + "y = Add (x, c)", "float[1,3,h,w]"),
    case(
        "two ways to half the size",
        FILTERS + weights("l", 3, 3, 1, 1)
        + "c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, k) "
        "d = Conv <strides = [2, 2]> (x, l) y = Add (c, d)",
        "float[1,3,h,w]",
    ),
    case(
        "down and up again",
        FILTERS + SPREAD + ALIKE + "m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c) "
        "y = ConvTranspose <strides = [2, 2]> (m, s)",
        "float[1,2,h,w]",
        least=2,
    ),
    *(
        case(
            f"averaged, {attributes}",
            f"y = AveragePool <kernel_shape = [3, 2], {attributes}> (x)",
            "float[1,3,h,w]",
        )
        for attributes in (
            "pads = [1, 0, 1, 1]",
            "pads = [1, 1, 1, 0], strides = [2, 2]",
            "pads = [1, 1, 1, 0], count_include_pad = 1",
            'auto_pad = "SAME_UPPER"',
        )
    ),
    case(
        "averages of what was resized",
        "z = Constant <value_floats = [0.7, 1.6]> () "
        'r = Resize <mode = "linear", axes = [2, 3]> (x, , z) '
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (r)",
        "float[1,3,h,w]",
        least=2,
    ),
]  # fmt: skip
SHAPE = "n = Shape (x) "
AS_LARGE = [
    *(
        case(name, f"{nodes} n = Shape (x) e = Expand (m, n) y = Sub (e, x)", result, element)
        for name, nodes, result, element in (
            ("a number of each image", "m = ReduceMax <keepdims = 0> (x)", "float[h,w]",
             "float[H,W]"),
            ("a line of each image", "k = Constant <value_ints = [1]> () m = ReduceMax (x, k)",
             "float[h,w]", "float[H,W]"),
            ("numbers of channels", "k = Constant <value_ints = [0, 1]> () m = ReduceMean (x, k)",
             "float[h,w,3]", "float[H,W,3]"),
            ("an image of one channel", "k = Constant <value_ints = [0]> () m = ReduceMin (x, k)",
             "float[3,h,w]", IMAGE),
            ("what all share", weights("m", 3, 1, 1), "float[3,h,w]", IMAGE),
        )
    ),
    case(
        "one number everywhere",
        SHAPE + "z = ConstantOfShape <value = float[1] {0.5}> (n) g = Greater (x, z) "
        "y = Where (g, x, z)",
        "float[3,h,w]",
        IMAGE,
    ),
    case(
        "channels of places",
        "n = Shape <start = 1> (x) i = Constant <value_int = 0> () j = Constant <value_int = 1> () "
        "h = Gather (n, i) w = Gather (n, j) r = Range (i, h, j) c = Range (i, w, j) "
        "rf = Cast <to = 1> (r) cf = Cast <to = 1> (c) o = Constant <value_ints = [1]> () "
        "a = Constant <value_ints = [0, 2]> () b = Constant <value_ints = [0, 1]> () "
        "ru = Unsqueeze (rf, a) cu = Unsqueeze (cf, b) t = Concat <axis = 0> (o, n) "
        "re = Expand (ru, t) ce = Expand (cu, t) y = Concat <axis = 0> (x, re, ce)",
        "float[5,h,w]",
        IMAGE,
    ),
    case(
        "widths that stay",
        "t = Constant <value_ints = [6]> () c = CenterCropPad <axes = [1]> (x, t) "
        "y = Softmax <axis = 0> (c)",
        "float[3,6,w]",
        IMAGE,
    ),
]  # fmt: skip
CASES = [*AS_LARGE, *PRODUCTS, *CUMULATED, *WINDOWED]
GROUPED = [normalized(18, 2), normalized(21, 6)]


@pytest.mark.parametrize("one", CASES, ids=str)
def test_images_of_any_size(one: FlatCase) -> None:
    prove_flat(one)


@pytest.mark.parametrize("one", GROUPED, ids=str)
def test_groups_of_channels(one: FlatCase) -> None:
    prove_flat(one)


@pytest.mark.parametrize("one", CASES[::3], ids=str)
@pytest.mark.long
def test_no_image(one: FlatCase) -> None:
    prove_nothing(one)


TOO_SMALL = {
    "Conv": weights("w", 2, 3, 3, 3) + "y = Conv <strides = [3, 3]> (x, w)",
    "Conv without a step": weights("w", 2, 3, 3, 3) + "y = Conv (x, w)",
    "AveragePool": "y = AveragePool <kernel_shape = [3, 3], strides = [3, 3]> (x)",
    "MaxPool": "y = MaxPool <kernel_shape = [3, 3]> (x)",
}


@pytest.mark.parametrize("name", TOO_SMALL)
def test_an_image_that_no_window_fits_into_is_an_error(name: str) -> None:
    one = case(name, TOO_SMALL[name], "float[1,c,h,w]")
    session = backends.open_session(reached(one), "onnxruntime")
    rng = np.random.default_rng(0)
    shapes = [(1, 3, 7, 9), (1, 3, 5, 2 if "Conv" in name or name == "AveragePool" else 1)]
    images = [rng.random(shape, np.float32) for shape in shapes]
    session.run({"xs": images[:1]})
    with pytest.raises(BackendError):
        session.run({"xs": images})


def test_a_window_that_is_wider_than_an_image_has_the_greatest_of_it() -> None:
    one = case("", "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (x)", "float[1,3,h,w]")
    rng = np.random.default_rng(0)
    prove_flat(one, feeds=[[rng.random((1, 3, 2, n), np.float32) for n in (2, 7, 3)]])


@pytest.mark.parametrize("pool", ["AveragePool", "LpPool", "MaxPool"])
def test_an_image_that_lacks_one_place_for_a_window_has_no_result(pool: str) -> None:
    nodes = f"y = {pool} <kernel_shape = [3, 3], pads = [0, 1, 0, 1]> (x)"
    case = FlatCase(pool, nodes, "float[1,2,H,W]", "float[1,2,h,w]", tolerance=1e-6)
    shapes = [(7, 9), (2, 20), (2, 1)]
    prove_flat(case, feeds=[[np.ones((1, 2, *shape), np.float32) for shape in shapes]])


def test_rows_of_any_number_need_no_place_more() -> None:
    """Only where all samples have as many places may there be none to pick."""
    nodes = (
        numbers("two", 2) + numbers("zero", 0) + "h = Shape <start = 0, end = 1> (x) "
        "q = Div (h, two) a = Slice (x, q, h, zero) g = Shape <start = 0, end = 1> (a) "
        "p = Div (g, two) y = Slice (a, p, g, zero)"
    )
    case = FlatCase("", nodes, least=4)
    prove_flat(case, counts=(3,))
    made = {name: node for node in reached(case).graph.node for name in node.output}
    joined = [node for node in made.values() if node.op_type == "Concat"]
    behind = [made.get(node.input[-1]) for node in joined if len(node.input) == 2]
    assert "Expand" not in {node.op_type for node in behind if node is not None}
