"""Resize of images of any size, without a loop: the bits that onnxruntime gives for each alone."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import rewriter
from tests.passes.batching.images import FlatCase, prove_flat, prove_nothing, reached

COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "asymmetric",
    "align_corners",
    "half_pixel_symmetric",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
POLICIES = ("not_larger", "not_smaller")
RANKS = {
    "float[H,W]": ("[0, 1]", "float[9,11]"),
    "float[H,W,3]": ("[0, 1]", "float[9,11,3]"),
    "float[3,H,W]": ("[1, 2]", "float[3,9,11]"),
    "float[1,3,H,W]": ("[2, 3]", "float[1,3,9,11]"),
    "float[1,H,W,3]": ("[1, 2]", "float[1,9,11,3]"),
}


def resized(
    attributes: str,
    element: str = "float[H,W,3]",
    *,
    tolerance: float = 0.0,
    name: str = "",
    roi: str = "",
    never: tuple[int, ...] = (),
) -> FlatCase:
    """Make a case of a Resize to 9 x 11, perhaps of a region."""
    region = f"roi = Constant <value_floats = [{roi}]> () " if roi else ""
    kind, _, _ = element.partition("[")
    axes, result = RANKS[element.replace(kind, "float")]
    return FlatCase(
        name or f"{attributes} of {element}".replace('"', ""),
        f"{region}s = Constant <value_ints = [9, 11]> () "
        f"y = Resize <{attributes}, axes = {axes}> (x,{'roi' if roi else ''},,s)",
        element,
        result.replace("float", kind),
        stacked=True,
        never=never,
        tolerance=tolerance,
    )


def scaled(attributes: str, scales: str = "0.7, 1.6") -> FlatCase:
    """Make a case of a Resize by scales, whose results differ in size."""
    return FlatCase(
        f"{attributes} by {scales}".replace('"', ""),
        f"s = Constant <value_floats = [{scales}]> () "
        f"y = Resize <{attributes}, axes = [0, 1]> (x,,s)",
        "uint8[H,W,3]",
        "uint8[h,w,3]",
    )


def kept_aspect(mode: str, policy: str, behind: str = "") -> FlatCase:
    """Make a case of a Resize that keeps the aspect, and perhaps of a crop behind it."""
    crop = "t = Constant <value_ints = [8, 10]> () y = CenterCropPad <axes = [0, 1]> (r, t)"
    return FlatCase(
        f"{mode} {policy}{' and crop' if behind else ''}".replace('"', ""),
        f"s = Constant <value_ints = [9, 11]> () {'r' if behind else 'y'} = Resize <{mode}, "
        f'keep_aspect_ratio_policy = "{policy}", axes = [0, 1]> (x,,,s) {crop if behind else ""}',
        "uint8[H,W,3]",
        "uint8[8,10,3]" if behind else "uint8[h,w,3]",
        stacked=bool(behind),
    )


NEAREST, LINEAR, CUBIC = (f'mode = "{mode}"' for mode in ("nearest", "linear", "cubic"))
ANTIALIAS = f"{LINEAR}, antialias = 1"

CASES = [
    FlatCase(
        "to its own size", f"s = Shape <end = 2> (x) y = Resize <{LINEAR}, axes = [0, 1]> (x,,,s)"
    ),
    *(
        FlatCase(
            f"one image for all, {name}",
            "c = Constant <value = float[2,2,3] {1., 2., 3., 4., 5., 6., 7., 8., 9., 8., 7., 6.}> () "
            f"sh = Shape (x) {sizes} r = Resize <{LINEAR}> (c,{given}) y = Neg (r)",
        )
        for name, sizes, given in (
            ("as large as each", "", ",,sh"),
            (
                "as many times as each",
                "hw = Shape <start = 0, end = 2> (x) f = Cast <to = 1> (hw) "
                "half = Constant <value_float = 0.5> () q = Mul (f, half) "
                "one = Constant <value_floats = [1.0]> () s = Concat <axis = 0> (q, one)",
                ",s",
            ),
        )
    ),
    FlatCase(
        "two of one image, read in two ways",
        "s = Constant <value_ints = [9, 11]> () "
        f"u = Resize <{LINEAR}, axes = [0, 1]> (x,,,s) "
        f"v = Resize <{NEAREST}, axes = [0, 1]> (x,,,s) y = Sub (u, v)",
        result="float[9,11,3]",
        stacked=True,
    ),
    FlatCase(
        "two of two images, read in one way",
        "s = Constant <value_ints = [9, 11]> () n = Neg (x) "
        f"u = Resize <{LINEAR}, axes = [0, 1]> (x,,,s) "
        f"v = Resize <{LINEAR}, axes = [0, 1]> (n,,,s) y = Mul (u, v)",
        result="float[9,11,3]",
        stacked=True,
    ),
    *(
        resized(f'{mode}, coordinate_transformation_mode = "{one}"')
        for mode in (NEAREST, LINEAR)
        for one in COORDINATES
    ),
    *(
        resized(f'{CUBIC}, coordinate_transformation_mode = "{one}"', "float[1,3,H,W]")
        for one in ("half_pixel", "align_corners", "asymmetric")
    ),
    resized(
        f'{NEAREST}, nearest_mode = "floor", '
        'coordinate_transformation_mode = "tf_half_pixel_for_nn"'
    ),
    resized(f"{CUBIC}, exclude_outside = 1, cubic_coeff_a = -0.5", "float[H,W]"),
    *(
        resized(
            f'{NEAREST}, nearest_mode = "{one}", coordinate_transformation_mode = "asymmetric"'
        )
        for one in ROUNDINGS
    ),
    *(
        # onnxruntime takes the pixels of rows that stay for channels, and sums in another order.
        resized(mode, element, never=(9,) if element == "float[1,H,W,3]" else ())
        for mode in (NEAREST, LINEAR)
        for element in RANKS
    ),
    *(resized(ANTIALIAS, element, tolerance=1e-6) for element in RANKS),
    *(
        resized(mode, element.replace("float", "uint8"))
        for mode in (LINEAR, ANTIALIAS)
        for element in RANKS
    ),
    *(
        resized(f'{ANTIALIAS}, coordinate_transformation_mode = "{one}"', "uint8[H,W,3]")
        for one in COORDINATES
    ),
    *(
        resized(f'{mode}, coordinate_transformation_mode = "{one}"', element)
        for mode in (NEAREST, LINEAR)
        for one in COORDINATES
        for element in (*(rank.replace("float", "uint8") for rank in RANKS), "int8[1,H,W,3]")
    ),
    resized(f"{ANTIALIAS}, exclude_outside = 1", "uint8[H,W,3]"),
    resized(f"{CUBIC}, antialias = 1", "uint8[H,W]"),
    resized(f"{CUBIC}, antialias = 1, exclude_outside = 1", "uint8[1,3,H,W]"),
    resized(f"{CUBIC}, antialias = 1", "float[1,3,H,W]", tolerance=1e-6),
    scaled(NEAREST),
    scaled(LINEAR),
    scaled(ANTIALIAS),
    scaled(f'{LINEAR}, coordinate_transformation_mode = "asymmetric"', "1.01, 1.02"),
    *(
        kept_aspect(mode, policy, behind)
        for mode in (NEAREST, LINEAR, ANTIALIAS)
        for policy in POLICIES
        for behind in ("", "crop")
    ),
    *(
        resized(
            f'{mode}, coordinate_transformation_mode = "tf_crop_and_resize", '
            "extrapolation_value = -7.0",
            element,
            roi="0.1, -0.2, 0.8, 1.3",
            never=(
                9,
                11,
            ),  # an axis that keeps its size is another matter, see `test_flat_regions`
        )
        for mode, elements in ((NEAREST, RANKS), (LINEAR, ("float[H,W]", "float[1,3,H,W]")))
        for element in elements
    ),
    FlatCase(
        "a region of each image, and one row of it",
        "k = Constant <value_ints = [0, 1, 2, 3]> () m = ReduceMax <keepdims = 0> (x, k) "
        "z = Constant <value_ints = [0]> () u = Unsqueeze (m, z) "
        "c = Constant <value_floats = [0.001, -0.0005, 0.003, 0.004]> () roi = Mul (u, c) "
        "s = Constant <value_ints = [1, 29]> () "
        f"y = Resize <{LINEAR}, axes = [2, 3], coordinate_transformation_mode = "
        '"tf_crop_and_resize"> (x, roi, , s)',
        "float[1,3,H,W]",
        "float[1,3,1,29]",
        stacked=True,
        least=2,  # an axis that keeps its size is another matter, see `test_flat_regions`
    ),
    FlatCase(
        "ten columns by 0.7",
        "i = Constant <value_ints = [-1]> () g = Gather <axis = 0> (x, i) "
        "z = Constant <value_int = 0> () nine = Constant <value_int = 9> () sh = Shape (x) "
        "h = Gather (sh, z) high = Greater (h, nine) v = If (high) <"
        "then_branch = t () => (float[u,v] a) { a = Transpose <perm = [1, 0]> (g) }, "
        "else_branch = e () => (float[u,v] b) { b = Identity (g) }> "
        "t = Constant <value_ints = [10]> () c = CenterCropPad <axes = [1]> (v, t) "
        "s = Constant <value_floats = [1.3, 0.7]> () "
        f"r = Resize <{NEAREST}, axes = [0, 1]> (c,,s) y = Neg (r)",
        "float[H,W]",
        "float[h,w]",
        least=2,
    ),
    FlatCase(
        "a scale of each image",
        "sh = Shape <start = 1, end = 3> (x) f = Cast <to = 1> (sh) m = ReduceMin (f) "
        "t = Constant <value_floats = [20.0]> () q = Div (t, m) "
        "one = Constant <value_floats = [1.0]> () s = Concat <axis = 0> (one, q, q) "
        f"y = Resize <{LINEAR}> (x,,s)",
        "float[3,H,W]",
        "float[3,h,w]",
    ),
    FlatCase(
        "twice the size of each image",
        "t = Constant <value_ints = [2]> () n = Shape <end = 2> (x) "
        "hw = Shape <start = 2> (x) d = Mul (hw, t) s = Concat <axis = 0> (n, d) "
        f"y = Resize <{LINEAR}> (x,,,s)",
        "float[1,3,H,W]",
        "float[1,3,h,w]",
    ),
    FlatCase(
        "one Resize behind another",
        "s = Constant <value_ints = [12, 7]> () t = Constant <value_ints = [9, 10]> () "
        f"r = Resize <{NEAREST}, axes = [0, 1]> (x,,,s) "
        f"y = Resize <{LINEAR}, axes = [0, 1]> (r,,,t)",
        "uint8[H,W,3]",
        "uint8[9,10,3]",
        stacked=True,
    ),
    FlatCase(
        "sums behind sums",
        "s = Constant <value_floats = [0.8, 1.3]> () t = Constant <value_ints = [9, 10]> () "
        f"r = Resize <{LINEAR}, axes = [0, 1]> (x,,s) "
        f"y = Resize <{ANTIALIAS}, axes = [0, 1]> (r,,,t)",
        "uint8[H,W,3]",
        "uint8[9,10,3]",
        stacked=True,
        least=3,
    ),
    FlatCase(
        "a Resize of what was cropped",
        "t = Constant <value_ints = [9, 30]> () s = Constant <value_ints = [7, 8]> () "
        f"c = CenterCropPad <axes = [0, 1]> (x, t) y = Resize <{LINEAR}, axes = [0, 1]> (c,,,s)",
        "uint8[H,W,3]",
        "uint8[7,8,3]",
        stacked=True,
    ),
    FlatCase(
        "normalised, turned, then resized",
        "m = Constant <value = float[3,1,1] {1.0, 2.0, 3.0}> () f = Cast <to = 1> (x) "
        "t = Transpose <perm = [2, 0, 1]> (f) c = Sub (t, m) "
        "s = Constant <value_ints = [7, 8]> () "
        f"r = Resize <{LINEAR}, axes = [1, 2]> (c,,,s) y = Div (r, m)",
        "uint8[H,W,3]",
        "float[3,7,8]",
        stacked=True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_images_of_any_size(case: FlatCase) -> None:
    prove_flat(case)


@pytest.mark.parametrize("case", CASES[::6], ids=str)
def test_no_image(case: FlatCase) -> None:
    prove_nothing(case)


@pytest.mark.sampled
@pytest.mark.parametrize("element", ["uint8[1,H,W,3]", "int8[1,H,W,1]", "uint8[2,H,W,3]"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
def test_bytes_that_keep_their_rows_are_summed_in_floats(element: str, coordinates: str) -> None:
    attributes = f'{LINEAR}, coordinate_transformation_mode = "{coordinates}"'
    case = FlatCase(
        "rows that stay",
        f"s = Constant <value_ints = [9, 11]> () y = Resize <{attributes}, axes = [1, 2]> (x,,,s)",
        element,
        element.replace("H,W", "9,11"),
        stacked=True,
    )
    kind, first, *_, channels = re.split(r"\W", element.rstrip("]"))
    low, high = (0, 256) if kind == "uint8" else (-128, 128)
    rng = np.random.default_rng(0)
    sizes = [(9, 30), (9, 11), (8, 20), (9, 1), (1, 9), (9, 17), (20, 9)]
    prove_flat(
        case,
        feeds=[
            [
                rng.integers(low, high, (int(first), h, w, int(channels))).astype(kind)
                for h, w in sizes
            ]
        ],
    )


COPIED = [(mode, element) for mode in (LINEAR, ANTIALIAS) for element in RANKS]
COPIED += [(CUBIC, "float[H,W]"), (CUBIC, "float[1,3,H,W]")]


@pytest.mark.parametrize(("mode", "element"), COPIED)
@pytest.mark.long
def test_images_of_that_size_are_copied(mode: str, element: str) -> None:
    shape = [{"H": 9, "W": 11}.get(dim) or int(dim) for dim in element[6:-1].split(",")]
    rng = np.random.default_rng(0)
    images = [rng.uniform(0, 255, shape).astype(np.float32) for _ in range(9)]
    prove_flat(resized(mode, element), feeds=[images])


def _rounded(attributes: str, kind: str) -> FlatCase:
    """Make a case of a Resize in front of what may flip."""
    return FlatCase(
        f"{attributes} of {kind}",
        f"s = Constant <value_ints = [9, 11]> () r = Resize <{attributes}, axes = [0, 1]> (x,,,s) "
        "f = Cast <to = 1> (r) y = ArgMax <axis = 2> (f)",
        f"{kind}[H,W,3]",
        "int64[9,11,1]",
        stacked=True,
    )


@pytest.mark.parametrize(
    "case",
    [
        _rounded(LINEAR, "uint8"),
        _rounded(LINEAR, "float"),
        _rounded(NEAREST, "float"),
        _rounded(ANTIALIAS, "uint8"),
    ],
    ids=str,
)
def test_exact_resizes_are_batched_in_front_of_what_may_flip(case: FlatCase) -> None:
    given = {"strategy": "fuse", "target": "portable", "tensor_io": True}
    after = rewriter.optimize(case.model, exact=True, **given)
    assert after.graph.node == reached(case).graph.node
    prove_flat(case)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_no_product_waits_for_its_sum(mode: str) -> None:
    """onnxruntime takes what is recorded last first: so the sum so far, not the next product."""
    size = "s = Constant <value_ints = [24, 17]> () "
    resized = f'y = Resize <axes = [2, 3], mode = "{mode}"> (x,,,s)'
    case = FlatCase("", size + resized, "float[1,3,H,W]", "float[1,3,24,17]", stacked=True)
    found = [node.op_type for node in reached(case).graph.node]
    assert [name for name in found if name in ("Add", "Mul")][-3:] == ["Add", "Add", "Add"]


def test_an_antialiased_resize_of_floats_may_flip() -> None:
    case = _rounded(ANTIALIAS, "float")
    after = rewriter.optimize(case.model, strategy="fuse", tensor_io=True, exact=True)
    assert "Loop" in {node.op_type for node in after.graph.node}


def test_an_axis_of_unknown_size_beside_the_others_is_not_resized() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float[H,W,3]) xs, float[3,N] m) => (float[B] all) {
          ys = SequenceMap (xs) <body = one (float[H,W,3] x) => (float y) {
            p = MatMul (x, m)  s = Constant <value_floats = [2.0, 1.5, 2.0]> ()
            q = Resize (p, , s)  y = ReduceMean <keepdims = 0> (q) }>
          all = ConcatFromSequence <axis = 0, new_axis = 1> (ys) }""")
    report = rewriter.explain(model, strategy="fuse", target="portable", tensor_io=True)
    nodes = {reason.node for one in report.decisions for reason in one.reasons}
    assert "SequenceMap_0/body/Resize_2" in nodes


@pytest.mark.parametrize(("mode", "is_exact"), [("", True), (", antialias = 1", False)])
def test_sums_of_floats_keep_their_bits_unless_antialiased(mode: str, is_exact: bool) -> None:
    nodes = (
        "f = Constant <value_floats = [0.5, 0.5, 1.0]> () "
        f'r = Resize <mode = "linear"{mode}> (x, , f) y = Floor (r)'
    )
    model = FlatCase("resized, then rounded down", nodes, result="float[a,b,c]").model
    report = rewriter.explain(
        model, strategy="fuse", target="portable", tensor_io=True, exact=True
    )
    assert report.reached is is_exact
    codes = {reason.code.value for one in report.decisions for reason in one.reasons}
    assert codes == (set() if is_exact else {"exact"})
