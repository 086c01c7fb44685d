"""What is said of the time and memory of flat samples."""

from __future__ import annotations

import pathlib

import onnx
import pytest

import rewriter
from tests.passes.batching.images import FlatCase

SIZE = "s = Constant <value_ints = [224, 224]> () "
CROP = "y = CenterCropPad <axes = [0, 1]> (x, s)"
LARGEST = "uint8[224,224,3]"
MEASURED = {
    "nearest": ("y = Resize <axes = [0, 1]> (x,,,s)", 214, 229, 138),
    "linear": ('y = Resize <axes = [0, 1], mode = "linear"> (x,,,s)', 1580, 2000, 513),
    "antialias": (
        'y = Resize <axes = [0, 1], mode = "linear", antialias = 1> (x,,,s)', 4000, 2400, 800),
    "crop": (CROP, 600, 208, 21),
}  # fmt: skip
"""MB and milliseconds of 256 images, flat, and milliseconds in a Loop, as they were measured."""


def notes(nodes: str, **options: object) -> list[str]:
    case = FlatCase("", SIZE + nodes, "uint8[H,W,3]", LARGEST, stacked=True)
    report = rewriter.explain(case.model, strategy="fuse", tensor_io=True, **options)  # type: ignore[arg-type]
    found = [note for one in report.decisions for note in one.notes]
    return [note for note in found if note.startswith("flat: about")]


def numbers(text: str) -> tuple[float, float]:
    """Return MB and milliseconds."""
    memory, time = text.split(", ")
    units = {"GB": 1000.0, "MB": 1.0, "s": 1000.0, "ms": 1.0}
    return tuple(float(n) * units[u] for n, u in (memory.split(), time.split()))  # type: ignore[return-value]


@pytest.mark.parametrize("name", MEASURED)
def test_the_estimate_is_near_what_was_measured(name: str) -> None:
    nodes, memory, time, alone = MEASURED[name]
    (note,) = notes(nodes, target="portable")
    flat, _, loop = note.removeprefix("flat: about ").partition("; a loop: ")
    said, in_loop = numbers(flat.split(" at ")[0]), numbers(loop.split(" (")[0])
    for found, wanted in zip((*said, in_loop[1]), (memory, time, alone), strict=True):
        assert wanted / 2 < found < wanted * 2, note
    assert note.endswith("(onnxruntime, one core)")
    assert "at 256 samples of 400 x 500" in note


def test_a_size_that_is_promised_is_not_supposed() -> None:
    nodes, *_ = MEASURED["antialias"]
    (note,) = notes(nodes + " ", target="portable", input_shapes={"xs": [300, None, 3]})
    assert "at 256 samples of 300 x 500" in note


WINDOWS = "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"
OTHERS = {
    "channels in front": ("y = Pad (x, q)", "float[3,H,W]", "float[3,h,w]", 14.9),
    "many channels": (WINDOWS, "float[1,5,H,W]", "float[1,5,H,W]", 14.8),
    "windows": (WINDOWS, "float[1,1,H,W]", "float[1,1,H,W]", 5.2),
}
"""GB that 64 times four images of about 400 x 500 would take, which were measured."""


@pytest.mark.parametrize("name", OTHERS)
def test_images_of_other_layouts(name: str) -> None:
    nodes, element, result, measured = OTHERS[name]
    said, _ = said_of(
        "q = Constant <value_ints = [0, 1, 2, 0, 0, 3]> () " + nodes, element, result
    )
    assert measured / 2.5 < said < measured * 2.5


def said_of(nodes: str, element: str, result: str) -> tuple[float, float]:
    """Return GB and seconds of images of 400 x 500."""
    case = FlatCase("", nodes, element, result)
    report = rewriter.explain(case.model, target="portable", tensor_io=True)
    (note,) = (n for d in report.decisions for n in d.notes if n.startswith("flat: about"))
    assert "of 400 x 500;" in note
    memory, time = numbers(note.removeprefix("flat: about ").split(" at ")[0])
    return memory / 1000, time / 1000


MASK = (
    "h = Shape <start = 1, end = 2> (x) w = Shape <start = 2, end = 3> (x) "
    "hs = Squeeze (h) ws = Squeeze (w) zero = Constant <value_int = 0> () "
    "one = Constant <value_int = 1> () rows = Range (zero, hs, one) "
    "columns = Range (zero, ws, one) k = Constant <value_ints = [1]> () "
    "below = Unsqueeze (rows, k) p = GreaterOrEqual (below, one) "
    "q = GreaterOrEqual (columns, one) mask = And (p, q) "
    "none = Constant <value_float = 0.0> () y = Where (mask, none, x)"
)
CUT = (
    "a = Constant <value_ints = [2, 3]> () b = Constant <value_ints = [-1, -2]> () "
    "k = Constant <value_ints = [1, 2]> () y = Slice (x, a, b, k)"
)
FIVE = "k = Constant <value_ints = [5]> () "
BY_NUMBER = {
    "a mask": (MASK, "float[3,H,W]", "float[3,h,w]", 9.6, 16),
    "channels to the front": (
        "y = Transpose <perm = [2, 0, 1]> (x)", "float[H,W,3]", "float[3,h,w]", 8.7, 13),
    "channels that are picked": (
        "k = Constant <value_ints = [2, 1, 0]> () y = Gather <axis = 0> (x, k)",
        "float[3,H,W]", "float[3,h,w]", 9.9, 24),
    "sorted across channels": (
        FIVE + "y, i = TopK <axis = 0> (x, k)", "float[5,H,W]", "float[5,h,w]", 16, 40),
    "sorted within pixels": (
        FIVE + "y, i = TopK <axis = 2> (x, k)", "float[H,W,5]", "float[h,w,5]", 3.0, 4.6),
    "sorted lines": (
        "n = Shape <start = 1, end = 2> (x) y, i = TopK <axis = 1> (x, n)",
        "float[H,W]", "float[h,w]", 2.6, 6.2),
    "nine copies": (
        "k = Constant <value_ints = [0]> () u = Unsqueeze (x, k) "
        "y = Concat <axis = 0> (u, u, u, u, u, u, u, u, u)",
        "float[H,W]", "float[9,h,w]", 25, 38),
    "the best channel": (
        "y = ArgMax <axis = 0, keepdims = 0> (x)", "float[5,H,W]", "int64[h,w]", 14, 22),
    "a cut that leaves several sizes": (CUT, "float[3,H,W]", "float[3,h,w]", 14, 22),
}  # fmt: skip
"""GB and seconds that 64 times four such images would take, which were measured."""


VECTOR = "a = Constant <value_ints = [-1]> () v = Reshape (x, a) "
VECTORS = {
    "a vector": (VECTOR + "y = Relu (v)", "float[H,W,3]", "float[n]", 0.63),
    "rows": ("a = Constant <value_ints = [-1, 3]> () v = Reshape (x, a) y = Relu (v)",
             "float[H,W,3]", "float[n,3]", 0.63),
    "the mean of a vector": (
        VECTOR + "y = ReduceMean <keepdims = 0> (v)", "float[H,W,3]", "float", 6.1),
    "a sorted vector": (
        VECTOR + "n = Shape (v) y, i = TopK <axis = 0> (v, n)", "float[H,W]", "float[n]", 5.1),
    "running sums": (
        VECTOR + "e = Exp (v) k = Constant <value_int = 0> () y = CumSum (e, k)",
        "float[H,W]", "float[n]", 7.0),
    "shares": (VECTOR + "y = Softmax <axis = 0> (v)", "float[H,W]", "float[n]", 2.1),
    "a histogram": (
        VECTOR + "c = Cast <to = 7> (v) k = Constant <value_ints = [256]> () "
        "z = ConstantOfShape <value = int64[1] {0}> (k) s = Shape (c) "
        "o = ConstantOfShape <value = int64[1] {1}> (s) "
        'y = ScatterElements <axis = 0, reduction = "add"> (z, c, o)',
        "uint8[H,W]", "int64[256]", 4.2),
}  # fmt: skip
"""GB that 64 times four images of about 400 x 500 would take, which were measured."""


@pytest.mark.parametrize("name", VECTORS)
def test_numbers_of_an_image_as_vectors(name: str) -> None:
    nodes, element, result, memory = VECTORS[name]
    found, _ = said_of(nodes, element, result)
    assert memory / 3 < found < memory * 3


@pytest.mark.parametrize("name", BY_NUMBER)
def test_rows_that_are_read_by_number(name: str) -> None:
    nodes, element, result, memory, time = BY_NUMBER[name]
    for found, wanted in zip(said_of(nodes, element, result), (memory, time), strict=True):
        assert wanted / 3 < found < wanted * 3


def test_rows_are_read_behind_what_reads_none() -> None:
    padded = "q = Constant <value_ints = [0, 1, 2, 0, 0, 3]> () c = Pad (x, q) "
    found, behind = (
        said_of(padded + nodes, "float[3,H,W]", "float[3,h,w]")
        for nodes in ("y = Exp (c)", "i = Identity (c) y = Exp (i)")
    )
    assert found == behind


def test_a_loop_that_is_kept_says_what_the_flat_form_would_take() -> None:
    case = FlatCase("", SIZE + MEASURED["antialias"][0], "uint8[H,W,3]", LARGEST, stacked=True)
    report = rewriter.explain(case.model, tensor_io=True)
    effects = [one.effect for found in report.remedies.maps.values() for one in found]
    assert any("; flat: about" in effect and "; a loop: " in effect for effect in effects)


def test_nothing_is_said_where_no_sample_is_flat() -> None:
    assert notes("y = " + CROP.removeprefix("y = "), target="portable", uniform="xs") == []


BOXES = """<ir_version: 9, opset_import: ["" : 18]>
g (float[3,1080,1920] image, int64[16,4] table) => (float[16,3,224,224] out) {
  boxes = SplitToSequence <axis = 0, keepdims = 0> (table)
  parts = SequenceMap (boxes) <body = one (int64[4] box) => (float[3,224,224] y) {
    a = Constant <value_ints = [0]> () b = Constant <value_ints = [2]> ()
    c = Constant <value_ints = [4]> () k = Constant <value_ints = [1, 2]> ()
    p = Slice (box, a, b) q = Slice (box, b, c) part = Slice (image, p, q, k)
    s = Constant <value_ints = [224, 224]> ()
    y = Resize <mode = "linear", axes = [1, 2]> (part, , , s) }>
  out = ConcatFromSequence <axis = 0, new_axis = 1> (parts) }"""


def test_a_number_of_samples_that_is_known_is_not_supposed() -> None:
    report = rewriter.explain(onnx.parser.parse_model(BOXES), target="portable")
    (note,) = (n for d in report.decisions for n in d.notes if n.startswith("flat: about"))
    assert "at 16 samples of 400 x 500" in note


SCALARS = """<ir_version: 8, opset_import: ["" : 14]>
g (seq(int16[?,?,?]) xs) => (seq(int16[?,?,?]) ys) {
  n = SequenceLength (xs) empty = SequenceEmpty <dtype = 5> ()
  go = Constant <value = bool {1}> ()
  ys = Loop (n, go, empty) <body = b (int64 i, bool c, seq(int16[]) have)
    => (bool d, seq(int16[]) all) {
    x = SequenceAt (xs, i) from = Constant <value_ints = [100]> ()
    first = Constant <value_ints = [0]> () back = Constant <value_ints = [-1]> ()
    y = Slice (x, from, first, first, back) all = SequenceInsert (have, y)
    d = Identity (c) }>
}"""


def test_samples_that_are_falsely_declared_as_scalars() -> None:
    report = rewriter.explain(onnx.parser.parse_model(SCALARS), target="tensorrt", tensor_io=True)
    assert not any("defect" in line for line in report.warnings)


PADDED = pathlib.Path(__file__).parents[2] / "models" / "demo" / "pad_to_largest.onnxtxt"


def test_what_a_pad_adds_is_supposed_to_be_little() -> None:
    """Of 32 such images 260 MB were measured."""
    report = rewriter.explain(PADDED, target="portable", tensor_io=True)
    (note,) = (n for d in report.decisions for n in d.notes if n.startswith("flat: about"))
    memory, _ = numbers(note.removeprefix("flat: about ").split(" at ")[0])
    assert 1000 < memory < 4000, note


OLD = """<ir_version: 8, opset_import: ["" : 16]>
g (seq(float[3,H,W]) xs) => (seq(float[3,h,w]) ys) {
  n = SequenceLength (xs) on = Constant <value = bool {1}> () none = SequenceEmpty ()
  ys = Loop (n, on, none) <body = one (int64 i, bool go, seq(float[3,h,w]) acc)
      => (bool still, seq(float[3,h,w]) more) {
    still = Identity (go) x = SequenceAt (xs, i)
    s = Constant <value_floats = [1.0, 2.0, 2.0]> () y = Resize <mode = "linear"> (x,,s)
    more = SequenceInsert (acc, y) }> }"""


def test_images_whose_rank_no_operator_tells_are_supposed() -> None:
    """An opset without SequenceMap does not type what stands for a list of images."""
    report = rewriter.explain(onnx.parser.parse_model(OLD), target="portable", tensor_io=True)
    assert not report.warnings
    assert not any(d.code == "repaired" for one in report.decisions for d in one.reasons)
