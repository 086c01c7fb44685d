"""Samples that end without a row: a Slice to nothing is legal, and yields nothing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from rewriter import backends
from rewriter.errors import BackendError
from rewriter.proof.engines import plain_expansion
from tests.passes.batching.images import FlatCase, prove_flat, prove_nothing, reached


def cut(name: str, begin: int, end: int, axes: str = "0", then: str = "y = Neg (s)",
        **others: object) -> FlatCase:  # fmt: skip
    many = len(axes.split(","))
    bounds = "".join(
        f"{n} = Constant <value_ints = [{', '.join([str(v)] * many)}]> () "
        for n, v in (("a", begin), ("b", end))
    )
    nodes = f"{bounds} k = Constant <value_ints = [{axes}]> () s = Slice (x, a, b, k) {then}"
    return FlatCase(name, nodes, **others)  # type: ignore[arg-type]


RESIZED = (
    "to = Constant <value_ints = [5, 4]> () r = Resize <axes = [0, 1], mode = {}> (x,,,to) "
    "a = Constant <value_ints = [{}]> () k = Constant <value_ints = [0]> () "
    "b = Constant <value_ints = [99]> () y = Slice (r, a, b, k)"
)
FEW = [(2, 3), (4, 3), (3, 3)]
SIZES = {
    "all empty": [(2, 3), (1, 3), (3, 3)],
    "one empty": [(9, 3), (3, 3), (7, 3)],
    "one image, empty": [(2, 3)],
    "the last empty": [(9, 3), (8, 3), (1, 3)],
    "the first empty": [(1, 3), (8, 3), (9, 3)],
}
CASES = [
    cut("behind the fourth row", 4, 99),
    cut("as it is", 4, 99, then="y = Identity (s)"),
    cut("summed over channels", 4, 99, then="k2 = Constant <value_ints = [2]> () "
        "y = ReduceSum <keepdims = 0> (s, k2)", result="float[h,w]"),
    cut("channels first", 4, 99, then="y = Transpose <perm = [2, 0, 1]> (s)",
        result="float[3,h,w]"),
    cut("turned", 4, 99, then="y = Transpose <perm = [1, 0, 2]> (s)"),
    cut("cut twice", 4, 99, then="c = Constant <value_ints = [1]> () y = Slice (s, c, b, k)"),
    cut("of a width that is known", 4, 99, element="float[H,3,3]", result="float[h,3,3]"),
    cut("the second and third row", 1, 3),
]  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_that_are_cut_away(case: FlatCase, sizes: str) -> None:
    prove_flat(case, feeds=[images(SIZES[sizes])])


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_image_at_all(case: FlatCase) -> None:
    prove_nothing(case)


STACKED = [
    cut("stacked", 4, 99, stacked=True),
    cut("stacked as it is", 4, 99, then="y = Identity (s)", stacked=True),
    cut("stacked, channels first", 4, 99, then="y = Transpose <perm = [2, 0, 1]> (s)",
        result="float[3,h,w]", stacked=True),
    cut("stacked, both axes", 4, 99, axes="0, 1", stacked=True),
    cut("stacked, the second axis", 4, 99, axes="1", stacked=True),
    cut("stacked, cut by negative bounds", -1, 1, stacked=True),
    FlatCase("nearest, cut", RESIZED.format('"nearest"', 5), stacked=True),
    FlatCase("linear, cut", RESIZED.format('"linear"', 5), stacked=True),
    FlatCase("antialias, cut", RESIZED.format('"linear", antialias = 1', 5), stacked=True),
    FlatCase("linear, one row", RESIZED.format('"linear"', 4), stacked=True),
]  # fmt: skip


@pytest.mark.parametrize(
    "sizes", [[], [(3, 3)], [(3, 3)] * 3, [(0, 3)] * 3, [(4, 0)] * 2], ids=str
)
@pytest.mark.parametrize("case", STACKED, ids=str)
def test_images_that_are_all_empty_are_stacked(
    case: FlatCase, sizes: list[tuple[int, int]]
) -> None:
    if not sizes:
        prove_nothing(case)
    elif "Resize" not in case.nodes or all(h * w for h, w in sizes):
        prove_flat(case, feeds=[images(sizes)])


def images(sizes: list[tuple[int, int]]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(0, 255, (h, w, 3)).astype(np.float32) for h, w in sizes]


NARROW = (
    "i = Constant <value_ints = [1, 0]> () g = Gather <axis = 1> (x, i) "
    "a = Constant <value_ints = [2]> () b = Constant <value_ints = [99]> () "
    "k = Constant <value_ints = [1]> () s = Slice (g, a, b, k) "
)
WIDE = "t = Constant <value_ints = [7, 9]> () "
MADE_WIDER = [
    FlatCase("padded", NARROW + WIDE + "y = CenterCropPad <axes = [0, 1]> (s, t)"),
    FlatCase("padded, then cropped", NARROW + WIDE + "p = CenterCropPad <axes = [0, 1]> (s, t) "
        "u = Constant <value_ints = [5]> () y = CenterCropPad <axes = [1]> (p, u)"),
    FlatCase("without channels", NARROW + WIDE + "y = CenterCropPad <axes = [0, 1]> (s, t)",
        element="float[H,W]", result="float[h,w]"),
    FlatCase("cut by bounds of each image", NARROW + "z = Constant <value_ints = [0]> () "
        "h = Shape <start = 0, end = 1> (x) y = Slice (s, z, h, k)"),
    FlatCase("nearest, padded", RESIZED.format('"nearest"', 5).replace("y =", "s =")
        + WIDE + "y = CenterCropPad <axes = [0, 1]> (s, t)"),
    FlatCase("linear, padded", RESIZED.format('"linear"', 5).replace("y =", "s =")
        + WIDE + "y = CenterCropPad <axes = [0, 1]> (s, t)"),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("case", MADE_WIDER, ids=str)
def test_an_axis_of_which_nothing_is_left_in_any_image_is_read(case: FlatCase) -> None:
    rng = np.random.default_rng(0)
    shapes = [shape[: case.element.count(",") + 1] for shape in [(5, 4, 3), (6, 7, 3)]]
    prove_flat(case, feeds=[[rng.random(shape, np.float32) for shape in shapes]])
    prove_nothing(case)


def test_images_without_rows_are_enlarged_to_none() -> None:
    nodes = (
        "i = Constant <value_ints = [0, -1, 1, 0]> () c = Gather <axis = 1> (x, i) "
        "a = Constant <value_ints = [6]> () b = Constant <value_ints = [99]> () "
        "k = Constant <value_ints = [0]> () s = Slice (c, a, b, k) "
        "t = Constant <value_floats = [2.0, 2.0]> () "
        'y = Resize <mode = "linear", axes = [0, 1], antialias = 1> (s,,t)'
    )
    case = FlatCase("enlarged", nodes, "float[H,W,3]", "float[h,w,3]")
    prove_flat(case, feeds=[images([(4, 5)]), images([(4, 5), (3, 2)]), images([(4, 5), (8, 2)])])


CROPPED = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(float[H,W,3]) xs, int64[1] to) => (float[T,w,3] out) {{
  ys = SequenceMap (xs, to) <body = one (float[H,W,3] x, int64[1] t) => (float[h,w,3] y) {{
    a = Constant <value_ints = [4]> () b = Constant <value_ints = [99]> ()
    k = Constant <value_ints = [{axis}]> () s = Slice (x, a, b, k)
    y = CenterCropPad <axes = [{other}]> (s, t) }}>
  out = ConcatFromSequence <axis = {axis}> (ys) }}"""


@pytest.mark.sampled
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("sizes", ["one empty", "all empty", "an image of no rows", "one left"])
def test_samples_beside_an_axis_whose_one_size_is_not_known(sizes: str, axis: int) -> None:
    known = {"an image of no rows": [(9, 3), (0, 5), (7, 2)], "one left": [(9, 3)]}
    shapes = known.get(sizes) or SIZES[sizes]
    model = onnx.parser.parse_model(CROPPED.format(axis=axis, other=1 - axis))
    after = rewriter.optimize(model, strategy="fuse", target="portable", tensor_io=True)
    feeds = {"xs": images([s[::-1] if axis else s for s in shapes]), "to": np.array([4])}
    wanted = rewriter.run(rewriter.optimize(model, strategy="expand"), feeds)["out"]
    np.testing.assert_array_equal(rewriter.run(after, feeds)["out"], wanted)


SHORTENED = """<ir_version: 9, opset_import: ["" : 18]>
g (float[B,2,N] x, int64[B] n) => (float[R,C] out) {{
  xs = SplitToSequence <keepdims = 0> (x) ns = SplitToSequence <keepdims = 0> (n)
  ys = SequenceMap (xs, ns) <body = one (float[2,N] a, int64 m) => (float[2,L] y) {{
    z = Constant <value_ints = [0]> () k = Constant <value_ints = [-1]> ()
    e = Unsqueeze (m, z) y = Slice (a, z, e, k) }}>
  out = ConcatFromSequence <axis = {axis}> (ys) }}"""


@pytest.mark.quick
@pytest.mark.parametrize("lengths", [(2, 2, 2), (0, 0, 0), (1,), (1, 2)], ids=str)
@pytest.mark.parametrize("axis", [0, -2, 1, -1])
def test_samples_joined_beside_the_axis_along_which_they_differ(
    axis: int, lengths: tuple[int, ...]
) -> None:
    model = onnx.parser.parse_model(SHORTENED.format(axis=axis))
    after = rewriter.optimize(model, strategy="fuse", verify=False)
    assert not any(node.op_type in ("Loop", "SequenceMap") for node in after.graph.node)
    x = np.arange(len(lengths) * 8, dtype=np.float32).reshape(-1, 2, 4)
    feeds = {"x": x, "n": np.array(lengths)}
    parts = [sample[:, :n] for sample, n in zip(x, lengths, strict=True)]
    if axis in (1, -1) or len(set(lengths)) == 1:
        found = rewriter.run(after, feeds)["out"]
        np.testing.assert_array_equal(found, np.concatenate(parts, axis), strict=True)
    else:
        with pytest.raises(rewriter.BackendError):
            rewriter.run(after, feeds)


FITTED = (
    "s = Shape <end = 2> (x) two = Constant <value_ints = [2, 2]> () t = Mul (s, two) "
    "r = Resize <axes = [0, 1], mode = {mode}> (x,,,t) "
    "wide = Constant <value_ints = [9, 9]> () e = Sub (wide, t) "
    "none = Constant <value_ints = [0, 0]> () p = Concat <axis = 0> (none, e) "
    "k = Constant <value_ints = [0, 1]> () {padded}"
)
PADDED = "f = Constant <value = {kind} {{7}}> () y = Pad (r, p, f, k)"
MODES = {
    "nearest": ('"nearest"', "float"),
    "linear": ('"linear"', "float"),
    "antialias": ('"linear", antialias = 1', "float"),
    "whole": ('"linear"', "uint8"),
    "bytes": ('"linear", antialias = 1', "uint8"),
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "sizes",
    [
        [(0, 3), (2, 3)],
        [(3, 2), (4, 0), (2, 4)],
        [(1, 1), (0, 4)],
        [(0, 3)],
        [(4, 0)] * 3,
        [(0, 4), (3, 0), (0, 0)],
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_padded", [True, False], ids=["padded", "as it is"])
def test_an_image_of_nothing_is_resized_to_nothing(
    mode: str, sizes: list[tuple[int, int]], is_padded: bool
) -> None:
    words, kind = MODES[mode]
    then = PADDED.format(kind=kind) if is_padded else "y = Identity (r)"
    nodes, element = FITTED.format(mode=words, padded=then), f"{kind}[H,W,3]"
    case = FlatCase(mode, nodes, element, f"{kind}[h,w,3]", stacked=is_padded)
    dtype = np.uint8 if kind == "uint8" else np.float32
    prove_flat(case, feeds=[[image.astype(dtype) for image in images(sizes)]])


CONVOLVED = FlatCase(
    "convolved",
    "n = Constant <value_floats = [1.0, -2.0, 0.5, 3.0, -1.0, 2.0, 0.25, 1.5, -0.5]> () "
    "d = Constant <value_ints = [1, 1, 3, 3]> () f = Reshape (n, d) "
    "y = Conv <pads = [2, 1, 2, 2]> (x, f)",
    "float[1,1,H,W]",
    "float[1,1,h,w]",
)


@pytest.mark.parametrize(
    "sizes", [[(0, 5)], [(5, 0)] * 3, [(0, 4), (3, 0), (0, 0)], [(3, 4), (0, 5)]], ids=str
)
def test_an_image_of_nothing_is_nothing_but_padding_to_a_convolution(
    sizes: list[tuple[int, int]],
) -> None:
    prove_flat(CONVOLVED, feeds=[[np.ones((1, 1, *size), np.float32) for size in sizes]])


REGIONS = {
    "nearest": ('"nearest"', "float[H,W,3]"),
    "linear": ('"linear"', "float[H,W]"),
    "linear, channels first": ('"linear"', "float[1,3,H,W]"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("sizes", [[(0, 5)], [(5, 0)], [(4, 3), (0, 5), (2, 2)]], ids=str)
@pytest.mark.parametrize("name", REGIONS)
def test_a_region_of_an_image_of_nothing_is_an_error(
    name: str, sizes: list[tuple[int, int]]
) -> None:
    mode, element = REGIONS[name]
    axes = [i for i, d in enumerate(element[6:-1].split(",")) if d in "HW"]
    case = FlatCase(
        name,
        "roi = Constant <value_floats = [0.1, -0.2, 0.8, 1.3]> () to = Constant <value_ints = "
        f"[9, 7]> () y = Resize <axes = {axes}, mode = {mode}, coordinate_transformation_mode = "
        '"tf_crop_and_resize", extrapolation_value = -7.0> (x, roi, , to)',
        element,
        element.replace("H", "9").replace("W", "7"),
    )
    dims = [element[6:-1].replace("H", str(h)).replace("W", str(w)) for h, w in sizes]
    feeds = [np.ones([int(d) for d in one.split(",")], np.float32) for one in dims]
    for model in (case.model, reached(case)):
        with pytest.raises(rewriter.BackendError):
            rewriter.run(model, {"xs": feeds})


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ['"nearest"', '"linear"', '"linear", antialias = 1'])
@pytest.mark.long
def test_something_of_nothing_is_an_error(policy: str, mode: str) -> None:
    """By its ratio, an image without a row would become one without a row, all padding."""
    nodes = (
        "to = Constant <value_ints = [5, 4]> () r = Resize <axes = [0, 1], "
        f'mode = {mode}, keep_aspect_ratio_policy = "{policy}"> (x,,,to) '
        "y = CenterCropPad <axes = [0, 1]> (r, to)"
    )
    case = FlatCase("", nodes, result="float[5,4,3]")
    for sizes in ([(4, 3), (0, 3)], [(4, 0), (2, 2)], [(0, 0)]):
        for model in (plain_expansion(case.model), reached(case)):
            with pytest.raises(BackendError):
                backends.open_session(model, "onnxruntime").run({"xs": images(sizes)})
